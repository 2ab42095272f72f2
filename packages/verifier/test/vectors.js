// Runs vectors of sd-card-vectors/1 with the package, in any runtime. A vector is given as its text, and its outcome is
// "accepted", or the rule and the place. Counterpart of sdcard/vectors.py.
import { AdmissionPolicy, Answering, CalledAgent, Challenge, Checked, ClaimRequest, Refused, StatelessChallenges, ThisAgent, Unbound, Unchecked, Unsolicited, acceptSdCard, certificates, checkAgentChallenge, checkChallenge, parseAgentChallenge, parseChallenge, parseCredentials, parseLogPolicy, parseProof, parsePublicJwk, parseTrustedIssuers, partialCard, present, selectPaths, selectRequested, verifyAgentProof, verifyLogProof, verifyPresentation, verifyStatusListToken, verifyTrustList } from "./package.js";
import { DATA } from "../src/data.js";
import { decodeBase64url, isNumber, numberOf, parseJsonObject, plainJson, sameJson, sortedText, utf8 } from "../src/json.js";

/** @param {string} text */
export async function outcomeOf(text) {
  const vector = parseJsonObject(utf8(text), "vector", 64);
  try {
    return await KINDS[vector.get("kind")](vector, plainJson(vector));
  } catch (problem) {
    if (problem instanceof Refused) return `${problem.rule} at ${problem.where}`;
    throw problem;
  }
}

/** @param {string} text the expected outcome of a vector */
export function expectedOf(text) {
  const { expect, where } = JSON.parse(text);
  return expect === "accepted" ? expect : `${expect} at ${where}`;
}

const LACKS = ["card"];

/** Whether the package has a part in it. The others are about agent cards, registries and their tokens. @param {string} text */
export function isOurs(text) {
  const { kind, needs = [], expectations = {} } = JSON.parse(text);
  if (!Object.hasOwn(KINDS, kind) || needs.some((need) => LACKS.includes(need))) return false;
  if (kind === "nonce") return DATA.nonce_purposes.includes(expectations.purpose);
  return kind === "authorization" ? expectations.scheme === "SD-Card" : kind !== "present" || expectations.context === undefined;
}

/** Name → text, to the number of vectors that agree, and those that do not. @param {Record<string, string>} vectors */
export async function runVectors(vectors) {
  const differing = [];
  let agreed = 0;
  for (const [name, text] of Object.entries(vectors)) {
    if (!isOurs(text)) continue;
    let outcome;
    try {
      outcome = await outcomeOf(text);
    } catch (problem) {
      outcome = `${problem.name}: ${problem.message}`;
    }
    if (outcome === expectedOf(text)) agreed++;
    else differing.push({ name, outcome, expected: expectedOf(text) });
  }
  return { agreed, differing };
}

const KINDS = {
  verify, accept, present: presents, "agent-challenge": agentChallenge, "agent-proof": agentProof, challenge: readChallenge, authorization, nonce, "status-list": statusList, "trust-list": trustList, "log-proof": logProof,
};
const NOT_THE_CASE = new Unchecked("not the case");

/** The private keys of vectors are public by design, so they are accepted here alone. These keys of RFCs stay refused. */
const PUBLISHED = [
  "aISfTcr9M_Zd09AXGAAeFxnLbFY6lBa87UN515wm5d4", "Q5yTSREAbvZL131ynDBhalXJcF9fL0foJlMN8u6ldiY", "oKIywvGUpTVTyxMQ3bwIIeQUudfr_CkLMjCE19ECD-U",
  "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k", "T4xl70S7MT6Zeq6r9V9fPJGVn76wfnXJ21-gyo0Gu6o", "Suiu29qbfuaBaR4Ats-c6XQBePB_OpAxAwcTR_0KXVM",
  "tRn1JNIkgMsABVQBlXeDHxAIcclh-2IX0UdDEzPt5XU",
];

async function acceptanceOf(vector, { profile, clock_skew, limits, max_lifetime, required_checks }) {
  const given = Object.entries({ profile, clockSkew: clock_skew, limits, maxLifetime: max_lifetime, requiredChecks: required_checks });
  const issuers = await parseTrustedIssuers(sortedText(vector.get("trust")), { certificates });
  return { issuers, publishedKeys: PUBLISHED, ...Object.fromEntries(given.filter(([, value]) => value !== undefined)) };
}

function keyBindingOf({ unbound, audience, nonce, answered, seen = [], interaction_id: interactionId, past, future }) {
  if (unbound !== undefined) return new Unbound(unbound);
  const window = Object.fromEntries(Object.entries({ past, future }).filter(([, seconds]) => seconds !== undefined));
  if (nonce === undefined) return new Unsolicited(audience, { firstUse: (use) => !seen.includes(use.nonce) }, { window, interactionId });
  return new Answering(new Challenge(nonce, audience, { window, interactionId }), { consume: () => answered !== true });
}

async function verify(vector, { document, now, expectations }) {
  const { key_binding: binding, statuses, admission, ...terms } = expectations;
  const keyBinding = keyBindingOf(binding);
  const source = { status: ({ uri, index }) => statuses[uri]?.[String(index)] };
  const status = statuses === undefined ? NOT_THE_CASE : new Checked(source);
  const acceptance = await acceptanceOf(vector, terms);
  const card = await verifyPresentation(document, { ...acceptance, keyBinding, status }, now);
  if (admission) new AdmissionPolicy({ issuers: acceptance.issuers, formats: admission.formats, requires: { claims: admission.claims, skills: admission.skills, checks: admission.checks, spiffeIds: admission.spiffe_ids } }).check(card);
  return compareCard(card, vector);
}

async function accept(vector, { document, now, expectations }) {
  const { holder_key: jwk, ...terms } = expectations;
  const held = await acceptSdCard(document, await acceptanceOf(vector, terms), await parsePublicJwk(jwk), now);
  return compare(held.issued.processed.claims, vector.get("claims"));
}

async function agentChallenge(vector, { document, now, expectations }) {
  const { origin, requests, audiences, services, sd_card: card, holder_key: jwk, public: open, proved, caller_proved: callerProved } = expectations;
  const held = await acceptSdCard(card, await acceptanceOf(vector, {}), await parsePublicJwk(jwk), now);
  const received = parseAgentChallenge([document]);
  const targets = requests.map((line) => line.split(" ")).map(([method, path]) => ({ origin, method, path }));
  const challenge = await checkAgentChallenge(received, targets, audiences, services);
  const allowed = selectPaths(held, callerProved === true && received.service === null ? proved : open);
  const shown = await partialCard(held, selectRequested(held, received.request, allowed).selection);
  const signed = { aud: challenge.audience, nonce: challenge.nonce, interaction_id: challenge.interactionId, shown };
  return compare(parseJsonObject(utf8(JSON.stringify(signed)), "vector", 64), vector.get("claims"));
}

async function agentProof(vector, { document, now, expectations }) {
  const { key_binding: binding, agent, ...terms } = expectations;
  const { challenge, record } = keyBindingOf(binding);
  const acceptance = await acceptanceOf(vector, terms);
  const called = new CalledAgent({ ...acceptance, origin: "https://agent.example", agent: new ThisAgent(agent.iss, agent.sub), status: NOT_THE_CASE });
  return compareCard(await verifyAgentProof(parseProof(linesOf(document)), challenge, record, called, now), vector);
}

const linesOf = (document) => (document ? document.split("\n") : []);
const exact = (value) => parseJsonObject(utf8(JSON.stringify({ value })), "vector", 64).get("value");
const compareResult = (shown, vector) => compare(exact(shown), vector.get("result"));

async function presents(vector, { document, now, expectations, result }) {
  const { holder_key: jwk, nonce: text, audience, interaction_id: interactionId, paths } = expectations;
  const publicKey = await parsePublicJwk(jwk);
  const held = await acceptSdCard(document, await acceptanceOf(vector, {}), publicKey, now);
  const selection = selectPaths(held, paths);
  const [input, signature] = result ? result.presentation.slice(result.presentation.lastIndexOf("~") + 1).split(/\.(?=[^.]*$)/) : ["", ""];
  const signer = { publicKey, sign: async (message) => (new TextDecoder().decode(message) === input ? decodeBase64url(signature, "") : new Uint8Array(64)) };
  const presentation = await present(held, selection, new Challenge(text, audience, { interactionId }), signer, now);
  return compareResult({ shown: await partialCard(held, selection), presentation }, vector);
}

async function readChallenge(vector, { document, expectations }) {
  const received = parseChallenge(linesOf(document));
  if (!received) return compare(null, vector.get("result"));
  const { nonce: text, audience, interactionId } = checkChallenge(received, expectations.audience, expectations.interaction_id ?? null);
  return compareResult({ nonce: text, audience, interaction_id: interactionId, requested: received.request.entries.map(String) }, vector);
}

async function authorization(vector, { document }) {
  return compareResult(parseCredentials(linesOf(document)), vector);
}

async function nonce(vector, { document, now, expectations }) {
  const { key, purpose, audience, lifetime, origin, method, path, service, interaction_id: interactionId } = expectations;
  const record = new StatelessChallenges(audience, () => new Uint8Array(16), decodeBase64url(key, ""), { add: () => true }, { lifetime, purpose });
  return compareResult(await record.check(new Challenge(document, audience, { interactionId, target: { origin, method, path, service } }), now), vector);
}

async function statusList(vector, { document, now, expectations }) {
  const { uri, key, limits, clock_skew: clockSkew } = expectations;
  const token = await verifyStatusListToken(document, uri, await parsePublicJwk(key), now, { limits: { ...DATA.limits, ...limits }, clockSkew });
  const { bits } = plainJson(vector).result;
  const statuses = Object.fromEntries(Array.from({ length: token.size }, (_, index) => [String(index), token.status(index)]).filter(([, value]) => value !== 0));
  return compareResult({ uri, iat: token.issuedAt, exp: token.expiresAt, ttl: token.ttl, bits, size: token.size, statuses }, vector);
}

async function trustList(vector, { document, now, expectations }) {
  const signers = await Promise.all(expectations.signers.keys.map(parsePublicJwk));
  const { keys, statusKeys, expiresAt } = await verifyTrustList(document, signers, now);
  const jwks = (named) => [...named].flatMap(([kid, same]) => same.map((key) => ({ ...key.jwk, kid })));
  const entries = [...keys].map(([issuer, named]) => [issuer, { keys: jwks(named), ...(statusKeys.has(issuer) ? { status_keys: jwks(statusKeys.get(issuer)) } : {}) }]);
  return compareResult({ issuers: Object.fromEntries(entries), exp: expiresAt }, vector);
}

async function logProof(vector, { document, now, expectations }) {
  const policy = await parseLogPolicy(expectations.policy);
  const { origin, index, size, witnesses } = await verifyLogProof(`${expectations.issuer_jwt}~`, policy, now, document || undefined);
  return compareResult({ origin, index: Number(index), size: Number(size), witnesses: Object.fromEntries(witnesses) }, vector);
}

const compare = (shown, claims) => (sameJson(shown, claims) ? "accepted" : "accepted, with other claims");

/** What a verified card tells: the other claims are the verifier's own. */
function compareCard(card, vector) {
  const told = new Map([...(vector.get("claims") ?? [])].filter(([name]) => !DATA.reserved_at_top.includes(name)));
  const claims = vector.get("claims");
  const number = (name) => (isNumber(claims?.get(name)) ? Number(numberOf(claims.get(name))) : undefined);
  const facts = [["iss", card.issuer], ["sub", card.subject], ["card_format", card.declaredFormat ?? undefined]].every(([name, value]) => claims?.get(name) === value);
  const times = card.issuedAt === number("iat") && card.expiresAt === number("exp");
  return facts && times ? compare(card.shown.members, told) : "accepted, with other claims";
}
