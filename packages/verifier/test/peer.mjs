// An agent and an Express server in Node, for tests in Python. One line of JSON in, one line of JSON out.
import { createRequire } from "node:module";
import { createServer } from "node:http";
import process from "node:process";
import { createInterface } from "node:readline";
import { AgentSession, CalledAgent, Challenge, ClaimRequest, Refused, StatelessChallenges, ThisAgent, Unchecked, acceptSdCard, checkAgentChallenge, encodeProof, jwkSigner, memoryChallenges, parseAgentChallenge, parseTrustedIssuers, partialCard, present, presentingFetch, provedFetch, sdCardMiddleware, selectAll, selectPaths, selectRequested, systemRandomness } from "./package.js";
import { SHOWN, decisions } from "./protected.js";

const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();

async function agentOf({ trust, card, jwk, now, allowed }) {
  const signer = await jwkSigner(jwk);
  const held = await acceptSdCard(card, { issuers: await parseTrustedIssuers(trust) }, signer.publicKey, now);
  return { held, signer, allowed: allowed ? selectPaths(held, allowed) : selectAll(held), clock: () => now };
}

const OPERATIONS = {
  async express({ tools, given }) {
    const express = createRequire(`${tools}/`)("express");
    const app = express();
    app.post("/tasks", sdCardMiddleware(await decisions(given)), express.text({ type: () => true }), (request, response) => {
      const names = request.rawHeaders.filter((_, i) => i % 2 === 0).map((name) => name.toLowerCase());
      response.json(SHOWN(request.sdCard, names, request.body?.length ?? 0));
    });
    const server = createServer(app).listen(0, "127.0.0.1");
    await new Promise((resolve) => server.once("listening", resolve));
    return { address: `http://127.0.0.1:${server.address().port}` };
  },

  async call({ origin, audience, path, interaction, body, ...given }) {
    const agent = await agentOf(given);
    const call = presentingFetch({ origin, audience, ...agent }, fetch);
    const response = await call(origin + path, { method: "POST", body, headers: interaction ? { "SD-Card-Interaction": interaction } : {} });
    return { status: response.status, answer: await response.json() };
  },

  async callProved({ origin, audience, requested, subject, issuer, trust, now, calls }) {
    const called = new CalledAgent({ issuers: await parseTrustedIssuers(trust), origin, agent: new ThisAgent(issuer, subject), status: new Unchecked("a test"), requested: new ClaimRequest(requested) });
    const session = new AgentSession(called, memoryChallenges(audience, systemRandomness, { purpose: "called-agent" }), () => now);
    const call = provedFetch(session, fetch);
    const answers = [];
    for (const [method, path, body] of calls) answers.push(await (await call(origin + path, { method, body })).text());
    return { answers, members: Object.keys(session.card.members).sort() };
  },

  async prove({ header, method, path, origin, audiences, ...given }) {
    const { held, signer, allowed, clock } = await agentOf(given);
    const received = parseAgentChallenge([header]);
    const challenge = await checkAgentChallenge(received, [{ origin, method, path }], audiences, []);
    return { proof: encodeProof(await present(held, selectRequested(held, received.request, allowed).selection, challenge, signer, clock())) };
  },

  async select({ requests, ...given }) {
    const { held, allowed } = await agentOf(given);
    const answers = [];
    for (const entries of requests) {
      const { selection, withheld, notHeld } = selectRequested(held, new ClaimRequest(entries), allowed);
      answers.push({ disclosures: selection.disclosures, withheld, notHeld, members: Object.keys(await partialCard(held, selection)).sort() });
    }
    return { answers };
  },

  async nonces({ key, audience, lifetime, purpose, now, terms, nonces }) {
    const record = new StatelessChallenges(audience, systemRandomness, Uint8Array.from(key), { add: () => true }, { lifetime, purpose });
    const made = await Promise.all(terms.map((one) => record.issue(now, one)));
    const known = await Promise.all(nonces.map((nonce, i) => record.check(new Challenge(nonce, audience, terms[i]), now).then((until) => until, (refusal) => refusal.rule)));
    return { made: made.map((one) => one.nonce), known };
  },
};

for await (const line of lines) {
  const { op, ...request } = JSON.parse(line);
  let answer;
  try {
    answer = await OPERATIONS[op](request);
  } catch (problem) {
    answer = problem instanceof Refused ? { rule: problem.rule, where: problem.where } : { error: String(problem.stack) };
  }
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}
process.exit(0);
