// What the package does beyond the vectors, in any runtime. Each test is named by what holds.
import { AdmissionPolicy, AgentSession, Answering, AnyAgent, CHALLENGE_HEADER, CalledAgent, Challenge, Checked, ClaimRequest, FetchedStatusLists, MemoryReplayRecord, Misuse, PROOF_HEADER, Refused, Selection, StatelessChallenges, ThisAgent, Unbound, Unchecked, Unsolicited, certificates, checkAgentChallenge, checkChallengeInteraction, encodeChallenge, encodeCredentials, encodeProof, memoryChallenges, newChallenge, parseAgentChallenge, parseLogPolicy, parsePublicJwk, parseTrustedIssuers, present, presentingFetch, protect, provedFetch, sdCardMiddleware, selectAll, selectPaths, selectRequested, verifyLogProof, verifyPresentation, verifyTrustList } from "./package.js";
import { namedRule } from "../src/http.js";
import { encodeBase64url, parseJson } from "../src/json.js";
import { undisclosed } from "../src/requests.js";
import { verifyStatusListToken } from "../src/status.js";
import { AGENT, AUDIENCE, ISSUER, NOW, ROOT, challenge, clock, countedRandomness, held, issued, newWorld, signed } from "./world.js";

const TARGET = { origin: AUDIENCE, method: "POST", path: "/tasks" };
const NOT_CHECKED = new Unchecked("another test has it");
const URI = `${ISSUER}/status/1`;

function equal(found, wanted) {
  const [a, b] = [found, wanted].map((value) => JSON.stringify(value));
  if (a !== b) throw new Error(`${a} is not ${b}`);
}

async function refused(rule, work) {
  try {
    await work();
  } catch (problem) {
    equal(problem instanceof Refused ? problem.rule : String(problem), rule);
    return problem;
  }
  throw new Error(`it is accepted, and not refused for ${rule}`);
}

async function misused(work) {
  try {
    await work();
  } catch (problem) {
    if (problem instanceof Misuse) return;
    throw problem;
  }
  throw new Error("it is no misuse");
}

const expectations = (world, more = {}) => ({ issuers: world.issuers, keyBinding: new Answering(challenge(), { consume: () => true }), status: NOT_CHECKED, ...more });
async function presented(world, asked = challenge(), now = NOW) {
  const card = await held(world);
  return present(card, selectAll(card), asked, world.holder, now);
}

const policyOf = (world, requires = { claims: ["provider"], skills: ["route"] }) => new AdmissionPolicy({ issuers: world.issuers, formats: ["a2a/1.0"], requires });
const routeOf = (world, more = {}) => ({ policy: policyOf(world), audience: AUDIENCE, challenges: world.challenges, status: NOT_CHECKED, clock, ...more });
const presentingOf = async (world, more = {}) => {
  const card = await held(world);
  return { origin: AUDIENCE, audience: AUDIENCE, held: card, allowed: selectAll(card), signer: world.holder, clock, ...more };
};

/** A status list token with two bits for each of sixteen entries; the list is stored without compression. */
async function listToken(world, statuses, more = {}) {
  const bytes = new Uint8Array(4);
  for (const [index, status] of Object.entries(statuses)) bytes[index >> 2] |= status << (2 * (index & 3));
  let [a, b] = [1, 0];
  for (const byte of bytes) [a, b] = [(a + byte) % 65521, (b + a + byte) % 65521];
  const zlib = Uint8Array.of(0x78, 0x01, 1, 4, 0, 251, 255, ...bytes, b >> 8, b & 255, a >> 8, a & 255);
  const claims = { sub: URI, iat: NOW - 5, exp: NOW + 600, ttl: 60, status_list: { bits: 2, lst: encodeBase64url(zlib) }, ...more };
  return signed(world.issuer, '{"alg":"ES256","typ":"statuslist+jwt"}', JSON.stringify(claims));
}

const withStatus = async (world, index, source, now = NOW) =>
  verifyPresentation(await issued(world, { status: { status_list: { uri: URI, idx: index } } }), { issuers: world.issuers, keyBinding: new Unbound("status"), status: new Checked(source) }, now);

/** An agent that answers challenges, as docs/agent-proof.md says. */
function agentOf(world, { changed = (answer) => answer } = {}) {
  const seen = [];
  return {
    seen,
    async fetch(request) {
      seen.push(`${request.method} ${request.body === null ? "without" : "with"} content`);
      const received = parseAgentChallenge([request.headers.get(CHALLENGE_HEADER)]);
      const target = { origin: AGENT, method: request.method, path: new URL(request.url).pathname };
      const asked = await checkAgentChallenge(received, [target], [AUDIENCE], []);
      const card = await held(world);
      const proof = await present(card, selectRequested(card, received.request, selectAll(card)).selection, asked, world.holder, NOW);
      return changed(new Response(request.method === "OPTIONS" ? null : "done", { status: request.method === "OPTIONS" ? 204 : 200, headers: { [PROOF_HEADER]: proof } }), request, proof);
    },
  };
}

const sessionOf = (world, more = {}) => new AgentSession(
  new CalledAgent({ issuers: world.issuers, origin: AGENT, agent: new ThisAgent(ISSUER, "agent:georoute"), status: NOT_CHECKED, requested: new ClaimRequest(["skills"]), ...more }),
  memoryChallenges(AUDIENCE, countedRandomness(), { purpose: "called-agent" }), clock,
);

const TESTS = {
  async "no decision can be left out"(world) {
    const text = await presented(world);
    for (const name of ["issuers", "keyBinding", "status"]) {
      for (const value of [undefined, null, {}, true, "unbound"]) await misused(() => verifyPresentation(text, expectations(world, { [name]: value }), NOW));
    }
    for (const now of [undefined, null, "1800000000", Number.NaN, -1, Infinity, 1e15, 1n]) await misused(() => verifyPresentation(text, expectations(world), now));
    for (const work of [() => new Unbound(" "), () => new Unchecked(""), () => new AnyAgent(), () => new Checked({}), () => new Answering(challenge(), {}), () => new Unsolicited(AUDIENCE, {}), () => new Answering("nonce", { consume: () => true })]) await misused(work);
    for (const whole of [undefined, null, "", 1]) await misused(() => verifyPresentation(text, whole, NOW));
    for (const text of [undefined, null, 1, {}, ["a"]]) await misused(() => verifyPresentation(text, expectations(world), NOW));
  },

  async "a misspelt or senseless term is a misuse"(world) {
    const text = await presented(world);
    const wrong = { maxLifeTime: 60, skew: 1, clockSkew: 61, maxLifetime: 0, profile: "any", limits: { bytes: 1 }, publishedKeys: {}, requested: ["skills"] };
    for (const [name, value] of Object.entries(wrong)) await misused(() => verifyPresentation(text, expectations(world, { [name]: value }), NOW));
    for (const name of ["__proto__", "constructor", "toString"]) await misused(() => verifyPresentation(text, expectations(world, { profile: name }), NOW));
    await misused(() => verifyPresentation(text, expectations(world, { limits: { json_depth: 129 } }), NOW));
    await misused(() => new Challenge("n", AUDIENCE, { window: { past: 301 } }));
    await misused(() => new Challenge("n", AUDIENCE, { window: { past: -1 } }));
    await misused(() => new Challenge("n".repeat(257), AUDIENCE));
    await misused(() => new Challenge("\ud800", AUDIENCE));
  },

  async "a verified card tells what was signed, and cannot be changed"(world) {
    const card = await verifyPresentation(await presented(world), expectations(world, { requested: new ClaimRequest(["skills", "endpoints"]) }), NOW);
    equal([card.issuer, card.subject, card.issuedAt, card.expiresAt, card.format, card.declaredFormat, card.hidden], [ISSUER, "agent:georoute", NOW - 60, NOW + 3600, "a2a/1.0", "a2a", 0]);
    equal(Object.keys(card.members).sort(), ["name", "provider", "skills", "version"]);
    equal(card.undisclosed, ["endpoints"]);
    equal(card.keyBinding, { issuedAt: NOW, audience: AUDIENCE, nonce: challenge().nonce, interactionId: null });
    equal([card.holderKey.thumbprint, card.statusUnchecked], [world.holder.publicKey.thumbprint, NOT_CHECKED.reason]);
    equal([card.members, card.members.skills, card.members.skills[0]].every(Object.isFrozen), true);
  },

  async "only the answer true of a record is a first use"(world) {
    for (const answer of [false, undefined, null, 1, "true", {}, Promise.resolve(false)]) {
      await refused("kb.replayed", async () => verifyPresentation(await presented(world), expectations(world, { keyBinding: new Answering(challenge(), { consume: () => answer }) }), NOW));
    }
  },

  async "only the status 0 is valid"(world) {
    for (const [value, rule] of [[1, "status.revoked"], [2, "status.suspended"], [3, "status.unavailable"], [null, "status.unavailable"], [undefined, "status.unavailable"], ["0", "status.unavailable"], [false, "status.unavailable"], [0n, "status.unavailable"]]) {
      await refused(rule, () => withStatus(world, 1, { status: () => value }));
    }
    equal((await withStatus(world, 7, { status: ({ index }, issuer, now) => (index === 7 && issuer === ISSUER && now === NOW ? 0 : 1) })).statusReference, { uri: URI, index: 7 });
  },

  async "a nonce of the Holder's choice counts once while it is fresh"(world) {
    const record = new MemoryReplayRecord();
    const text = await presented(world, newChallenge(AUDIENCE, countedRandomness()));
    const keyBinding = new Unsolicited(AUDIENCE, record);
    const answers = await Promise.allSettled(Array.from({ length: 20 }, () => verifyPresentation(text, expectations(world, { keyBinding }), NOW)));
    equal(answers.filter((one) => one.status === "fulfilled").length, 1);
    await refused("kb.replayed", () => verifyPresentation(text, expectations(world, { keyBinding }), NOW + 300));
    await refused("kb.stale", () => verifyPresentation(text, expectations(world, { keyBinding }), NOW + 301));
  },

  async "a challenge is answered once, for its own request, in its time"(world) {
    const made = await world.challenges.issue(NOW, { target: TARGET, interactionId: "i-1" });
    const terms = { target: TARGET, interactionId: "i-1" };
    const again = (changed, nonce = made.nonce) => new Challenge(nonce, AUDIENCE, { ...terms, ...changed });
    await world.challenges.check(again({}), NOW + 300);
    await refused("kb.challenge-expired", () => world.challenges.check(again({}), NOW + 301));
    await refused("kb.challenge-expired", () => world.challenges.check(again({ window: { past: 10 } }), NOW + 11));
    await refused("kb.challenge-expired", () => world.challenges.check(again({}), NOW - 61));
    const others = [{ origin: AGENT }, { method: "GET" }, { path: "/other" }, { service: AGENT }].map((changed) => ({ target: { ...TARGET, ...changed } }));
    for (const changed of [...others, { target: null }, { interactionId: null }, { interactionId: "i-2" }]) await refused("kb.other-request", () => world.challenges.check(again(changed), NOW));
    for (const text of ["none", `${made.nonce}A`, made.nonce.slice(1), "=".repeat(52)]) await refused("kb.nonce-mismatch", () => world.challenges.check(again({}, text), NOW));
    for (let at = 0; at < 52; at++) {
      const other = made.nonce[at] === "A" ? "B" : "A";
      await refused("kb.other-request", () => world.challenges.check(again({}, made.nonce.slice(0, at) + other + made.nonce.slice(at + 1)), NOW));
    }
    const first = await Promise.all(Array.from({ length: 20 }, () => world.challenges.consume(again({}), NOW)));
    equal(first.filter(Boolean).length, 1);
    equal(await world.challenges.consume(again({ interactionId: null }), NOW), false);
  },

  async "a challenge of another key, audience, lifetime or purpose is unknown"(world) {
    const key = new Uint8Array(32).fill(7);
    const used = { add: () => true };
    const recordOf = (more = {}, own = key) => new StatelessChallenges(AUDIENCE, countedRandomness(), own, used, more);
    const made = await recordOf().issue(NOW);
    await recordOf().check(made, NOW);
    for (const other of [recordOf({ lifetime: 299 }), recordOf({ purpose: "called-agent" }), recordOf({}, new Uint8Array(32))]) await refused("kb.other-request", () => other.check(made, NOW));
    const elsewhere = new Challenge(made.nonce, AGENT);
    await refused("kb.other-request", () => recordOf().check(elsewhere, NOW));
    for (const answer of [false, 1, undefined]) equal(await new StatelessChallenges(AUDIENCE, countedRandomness(), key, { add: () => answer }).consume(made, NOW), false);
    for (const wrong of [{ lifetime: 0 }, { lifetime: 1.5 }, { purpose: "dpop" }]) await misused(() => recordOf(wrong));
    await misused(() => recordOf({}, new Uint8Array(31)));
    await misused(() => memoryChallenges(AUDIENCE, () => new Uint8Array(3)));
  },

  async "a full record refuses, and forgets only what has expired"() {
    const record = memoryChallenges(AUDIENCE, countedRandomness(), { capacity: 3, lifetime: 60 });
    const answer = async (now) => record.consume(await record.issue(now), now);
    equal([await answer(NOW), await answer(NOW), await answer(NOW)], [true, true, true]);
    await refused("kb.record-unavailable", () => answer(NOW));
    await refused("kb.record-unavailable", () => answer(NOW + 60));
    equal(await answer(NOW + 61), true);
    const replay = await record.issue(NOW + 61);
    equal([await record.consume(replay, NOW + 61), await record.consume(replay, NOW + 61)], [true, false]);
  },

  async "a clock that was ahead does not let an answer count twice"() {
    const record = memoryChallenges(AUDIENCE, countedRandomness(), { capacity: 8, lifetime: 60 });
    const made = await record.issue(NOW);
    equal(await record.consume(made, NOW), true);
    for (let i = 0; i < 4; i++) equal(await record.consume(await record.issue(NOW + 5000 + i), NOW + 5000 + i), true);
    equal(await record.consume(made, NOW), false);
  },

  async "a status list is fetched once, kept for its time, and read at the entry"(world) {
    const asked = [];
    const source = new FetchedStatusLists(world.issuers, async (url) => {
      asked.push(url);
      return new Response(await listToken(world, { 1: 1, 2: 2, 9: 1 }));
    });
    const values = await Promise.all([0, 3, 8].map((index) => withStatus(world, index, source)));
    equal([values.length, asked], [3, [URI]]);
    await refused("status.revoked", () => withStatus(world, 1, source));
    await refused("status.suspended", () => withStatus(world, 2, source, NOW + 59));
    equal((await refused("status.unavailable", () => withStatus(world, 16, source))).where, "status-list");
    equal(asked.length, 1);
    await withStatus(world, 0, source, NOW + 60);
    equal(asked.length, 2);
  },

  async "a status list that cannot be had or is not right refuses"(world) {
    const lists = {
      "another list": () => listToken(world, {}, { sub: `${URI}0` }), "an old list": () => listToken(world, {}, { exp: NOW }), "a list of tomorrow": () => listToken(world, {}, { iat: NOW + 61 }),
      "a list for another": () => listToken(world, {}, { aud: "x" }), "no list": () => "junk", "no time to live": () => listToken(world, {}, { ttl: 0 }), "no zlib": () => listToken(world, {}, { status_list: { bits: 2, lst: "AAAA" } }),
    };
    for (const make of Object.values(lists)) {
      const source = new FetchedStatusLists(world.issuers, async () => new Response(await make()));
      await refused("status.unavailable", () => withStatus(world, 0, source));
    }
    for (const response of [() => new Response("", { status: 404 }), () => new Response("", { status: 302 }), () => new Response("a".repeat(3_000_000)), () => Promise.reject(new TypeError("no network"))]) {
      await refused("status.unavailable", () => withStatus(world, 0, new FetchedStatusLists(world.issuers, response)));
    }
    const noStatusKeys = await parseTrustedIssuers(JSON.stringify({ issuers: { [ISSUER]: { keys: [world.issuer.publicKey.jwk] } } }));
    const asked = [];
    const unasked = (issuers) => new FetchedStatusLists(issuers, async (url) => { asked.push(url); throw new Error("no network"); });
    await refused("status.unavailable", () => withStatus(world, 0, unasked(noStatusKeys)));
    const plain = { status: (reference, issuer, now) => unasked(world.issuers).status({ ...reference, uri: "http://registry.example/1" }, issuer, now) };
    await refused("status.unavailable", () => withStatus(world, 0, plain));
    equal(asked, []);
    const others = await parseTrustedIssuers(JSON.stringify({ issuers: { [ISSUER]: { keys: [world.issuer.publicKey.jwk], status_keys: [{ ...world.issuer.publicKey.jwk, kid: "a" }, { ...world.holder.publicKey.jwk, kid: "b" }] } } }));
    await refused("status.unavailable", async () => withStatus(world, 0, new FetchedStatusLists(others, async () => new Response(await listToken(world, {})))));
    await refused("status.unavailable", () => unasked(world.issuers).status({ uri: URI, index: 0 }, ISSUER, NOW));
  },

  async "a protected route is reached with an admitted card alone"(world) {
    const reached = [];
    const guarded = protect(routeOf(world), (request, card, ...rest) => {
      reached.push([card.subject, request.headers.get("authorization"), rest]);
      return new Response("done");
    });
    const server = (request) => guarded(request, "env", "ctx");
    const demanded = await server(new Request(`${AUDIENCE}/tasks`, { method: "POST" }));
    equal([demanded.status, (await demanded.json()).rule, demanded.headers.get("cache-control")], [401, "presentation.missing", "no-store"]);
    const call = presentingFetch(await presentingOf(world), server);
    const answer = await call(`${AUDIENCE}/tasks`, { method: "POST", body: "task" });
    equal([answer.status, await answer.text(), reached], [200, "done", [["agent:georoute", null, ["env", "ctx"]]]]);
  },

  async "a presentation reaches a protected route once, and no other route"(world) {
    const guarded = protect(routeOf(world), () => new Response("done"));
    const sent = [];
    const call = presentingFetch(await presentingOf(world), (request) => {
      sent.push(request.headers.get("authorization"));
      return guarded(request);
    });
    equal((await call(`${AUDIENCE}/tasks`)).status, 200);
    const again = (path, headers = {}) => guarded(new Request(AUDIENCE + path, { headers: { authorization: sent[1], ...headers } }));
    for (const [path, headers, rule] of [["/tasks", {}, "kb.replayed"], ["/other", {}, "kb.other-request"], ["/tasks", { "sd-card-interaction": "i" }, "kb.other-request"]]) {
      const response = await again(path, headers);
      equal([response.status, (await response.json()).rule, response.headers.has("www-authenticate")], [401, rule, true]);
    }
  },

  async "an interaction that no header can name is refused at a route"(world) {
    const guarded = protect(routeOf(world), () => new Response("done"));
    const card = await held(world);
    const answerOf = async (interactionId) => {
      const asked = await world.challenges.issue(NOW, { target: TARGET });
      const text = await present(card, selectAll(card), new Challenge(asked.nonce, AUDIENCE, { interactionId }), world.holder, NOW);
      const response = await guarded(new Request(`${AUDIENCE}/tasks`, { method: "POST", headers: { authorization: encodeCredentials(text) } }));
      return response.status === 200 ? 200 : [response.status, (await response.json()).where];
    };
    equal([await answerOf("i-1"), await answerOf(null), await answerOf("a b"), await answerOf("a".repeat(129))], [200, 200, [401, "kb-jwt/interaction_id"], [401, "kb-jwt/interaction_id"]]);
  },

  async "a presentation that fits into no header is not sent"() {
    equal([encodeProof("a".repeat(8000)).length, encodeCredentials("a".repeat(8000)).length], [8000, 8008]);
    for (const encode of [encodeProof, encodeCredentials]) await refused("limit.bytes", () => encode("a".repeat(8001)));
    for (const text of ["", "a b", "é", "{}"]) await misused(() => encodeProof(text));
  },

  async "a key is checked where a runtime does not, and refused where it has no such key"(world) {
    const good = world.issuer.publicKey.jwk;
    const prime = "_____wAAAAEAAAAAAAAAAAAAAAD_______________8";
    const wrong = [
      { ...good, x: prime, y: "ZkhceA4vg9ckM71dhKBrtlQcKvMdrocXKL-FahdPk_Q" }, // the point beside x = 0
      { ...good, x: "1zJddkbNYNgKknOM6zRfhEz_rzWEECLKsXb2kt6N4dc", y: `${prime.slice(0, -1)}Q` }, // the point beside y = 5
      { ...good, y: good.x },
    ];
    const importing = async (importKey, work) => {
      const own = crypto.subtle.importKey;
      crypto.subtle.importKey = importKey;
      try {
        return await work();
      } finally {
        crypto.subtle.importKey = own;
      }
    };
    for (const jwk of wrong) equal((await importing(async () => ({}), () => refused("key.malformed", () => parsePublicJwk(jwk)))).where, "key");
    const lacking = (jwk) => importing(() => Promise.reject(new Error("no such algorithm")), () => parsePublicJwk(jwk));
    await refused("key.unsupported", () => lacking({ kty: "OKP", crv: "Ed25519", x: "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo" }));
    await refused("key.malformed", () => lacking(good));
  },

  async "a route refuses with the status and the reasons of its policy"(world) {
    const statusOf = async (more, presenting = {}) => {
      const response = await presentingFetch(await presentingOf(world, presenting), protect(routeOf(world, more), () => new Response("done")))(`${AUDIENCE}/tasks`);
      const { findings } = response.status === 200 ? { findings: [] } : await response.json();
      return [response.status, ...findings.map((one) => `${one.rule} at ${one.where}`)];
    };
    equal(await statusOf({}), [200]);
    equal(await statusOf({}, { allowed: new Selection([]) }), [403, "policy.claim-missing at card/provider", "policy.skill-missing at card/skills/*/id"]);
    equal(await statusOf({ policy: new AdmissionPolicy({ issuers: world.issuers, formats: ["kno/0.2"], requires: { nothing: "another format" } }) }), [403, "policy.format at issuer-jwt/card_format"]);
    equal(await statusOf({ policy: policyOf(world, { checks: ["domain", "approved"] }) }), [403, "policy.check-missing at issuer-jwt/issuer_checks", "policy.check-missing at issuer-jwt/issuer_checks"]);
    equal(await statusOf({ policy: policyOf(world, { spiffeIds: ["spiffe://example.org/"], checks: ["domain"] }) }), [403, "policy.spiffe-id-missing at card/spiffe_id", "policy.check-missing at issuer-jwt/issuer_checks"]);
    equal(policyOf(world, { spiffeIds: ["spiffe://example.org/a"] }).request.entries.map(String), ["spiffe_id"]);
    const others = await parseTrustedIssuers(world.trust.replace(ISSUER, "https://other.example"));
    equal(await statusOf({ policy: policyOf({ issuers: others }) }), [403, "issuer.unknown at issuer-jwt/iss"]);
    const expired = await parseTrustedIssuers(JSON.stringify({ ...JSON.parse(world.trust), exp: NOW }));
    equal((await statusOf({ policy: policyOf({ issuers: expired }) }))[0], 503);
    equal((await statusOf({ maxLifetime: 10 }))[0], 401);
    const twice = await protect(routeOf(world), () => new Response("done"))(new Request(`${AUDIENCE}/tasks`, { headers: { "sd-card-interaction": "a b" } }));
    equal([twice.status, (await twice.json()).rule], [400, "request.malformed"]);
  },

  async "nothing that decides about a route has a default"(world) {
    for (const name of ["policy", "audience", "challenges", "status", "clock"]) {
      const { [name]: _, ...others } = routeOf(world);
      await misused(() => protect(others, () => new Response()));
      await misused(() => sdCardMiddleware(others));
    }
    await misused(() => protect(routeOf(world, { maxLifeTime: 1 }), () => new Response()));
    await misused(() => protect(routeOf(world, { challenges: memoryChallenges(AGENT, countedRandomness()) }), () => new Response()));
    await misused(() => protect(routeOf(world, { challenges: memoryChallenges(AUDIENCE, countedRandomness(), { purpose: "called-agent" }) }), () => new Response()));
    for (const requires of [undefined, {}, { claims: [] }, { nothing: "" }, { nothing: "why", claims: ["name"] }, { skills: [1] }, { claims: ["skills.0"] }, { checks: ["a.example"] }, { checks: ["domain", "domain"] }, { checks: "domain" }, { spiffeIds: ["spiffe://example.org"] }, { spiffeIds: ["spiffe://example.org/../"] }, { spiffeIds: [`spiffe://example.org/${"a".repeat(2048)}`] }]) await misused(() => policyOf(world, requires ?? null));
    await misused(() => new AdmissionPolicy({ issuers: world.issuers, formats: ["html"], requires: { nothing: "x" } }));
  },

  async "an agent shows its card to its own server alone"(world) {
    const other = newChallenge(AGENT, countedRandomness());
    const offers = [
      [encodeChallenge(other, new ClaimRequest([])), "challenge.other-audience"],
      [encodeChallenge(new Challenge(`agent-proof.${"A".repeat(22)}.${"B".repeat(43)}`, AUDIENCE), new ClaimRequest([])), "kb.purpose"],
      [encodeChallenge(new Challenge("n", AUDIENCE, { interactionId: "i" }), new ClaimRequest([])), "challenge.other-interaction"],
      ["SD-Card nonce=\"\"", "challenge.malformed"],
    ];
    for (const [offered, rule] of offers) {
      const sent = [];
      const call = presentingFetch(await presentingOf(world), (request) => {
        sent.push(request.headers.has("authorization"));
        return Promise.resolve(new Response("", { status: 401, headers: { "www-authenticate": offered } }));
      });
      await refused(rule, () => call(`${AUDIENCE}/tasks`));
      equal(sent, [false]);
    }
    const seen = [];
    const elsewhere = presentingFetch(await presentingOf(world), (request) => {
      seen.push(request.headers.has("authorization"));
      return Promise.resolve(new Response("", { status: 401, headers: { "www-authenticate": encodeChallenge(challenge(), new ClaimRequest([])) } }));
    });
    equal([(await elsewhere(`${AGENT}/tasks`)).status, seen], [401, [false]]);
    await misused(async () => presentingFetch(await presentingOf(world, { origin: "http://verifier.example" }), fetch));
    await misused(async () => presentingFetch(await presentingOf(world, { origin: `${AUDIENCE}/` }), fetch));
    await misused(async () => presentingFetch(await presentingOf(world, { signer: world.issuer }), fetch));
  },

  async "content of any kind is sent again after a challenge, and other headers stay"(world) {
    const reached = [];
    const guarded = protect(routeOf(world), async (request) => Response.json({ text: await request.text(), type: request.headers.get("content-type")?.split(";")[0] ?? null, x: request.headers.get("x-more") }));
    const call = presentingFetch(await presentingOf(world), async (request) => {
      reached.push(request.redirect);
      return guarded(request);
    });
    const bytes = new TextEncoder().encode("task");
    const streamed = (parts) => new ReadableStream({ pull: (to) => (parts.length > 0 ? to.enqueue(new TextEncoder().encode(parts.shift())) : to.close()) });
    const form = new FormData();
    form.set("name", "task");
    const bodies = ["task", bytes, bytes.buffer, new Blob(["ta", "sk"]), new URLSearchParams({ a: "task" }), form, streamed(["ta", "sk"])];
    for (const body of bodies) {
      const sent = await (await call(`${AUDIENCE}/tasks`, { method: "POST", body, duplex: "half", headers: { "x-more": "1" } })).json();
      equal([sent.text.includes("task"), sent.x], [true, "1"]);
    }
    const whole = new Request(`${AUDIENCE}/tasks`, { method: "PUT", body: "task", headers: { "content-type": "text/x-task", "x-more": "2" } });
    equal(await (await call(whole)).json(), { text: "task", type: "text/x-task", x: "2" });
    equal((await (await call(new Request(`${AUDIENCE}/tasks`, { method: "POST", body: "other" }), { body: "task" })).json()).text, "task");
    equal(await (await call(new Request(`${AUDIENCE}/tasks`))).json(), { text: "", type: null, x: null });
    equal([reached.length, new Set(reached).size, reached[0]], [2 * (bodies.length + 3), 1, "manual"]);
  },

  async "a streamed body that is too long to be sent again is a misuse, and nothing is sent"(world) {
    const sent = [];
    let [pulled, cancelled] = [0, false];
    const call = presentingFetch(await presentingOf(world), (request) => {
      sent.push(request);
      return Promise.resolve(new Response("", { status: 401, headers: { "www-authenticate": encodeChallenge(challenge(), new ClaimRequest([])) } }));
    });
    const endless = () => new ReadableStream({ pull: (to) => to.enqueue(new Uint8Array(2 ** 20).fill(++pulled)), cancel: () => { cancelled = true; } });
    await misused(() => call(`${AUDIENCE}/tasks`, { method: "POST", body: endless(), duplex: "half" }));
    equal([sent.length, cancelled, pulled <= 20], [0, true, true]);
    equal((await call(`${AUDIENCE}/tasks`, { method: "POST", body: new Blob([new Uint8Array(17 * 2 ** 20)]) })).status, 401);
    equal(sent.length, 2);
  },

  async "a Holder shows what is requested and allowed, and nothing else"(world) {
    const card = await held(world);
    const shown = (entries, allowed = selectAll(card)) => {
      const { selection, withheld, notHeld } = selectRequested(card, new ClaimRequest(entries), allowed);
      return [selection.disclosures.length, withheld, notHeld];
    };
    equal(shown([]), [0, [], []]);
    equal(shown(["skills"]), [1, [], []]);
    equal(shown(["skills.*.id"]), [1, [], []]);
    equal(shown(["provider.organization"]), [0, ["provider.organization"], []]);
    equal(shown(["skills", "provider", "securitySchemes"]), [2, [], ["securitySchemes"]]);
    equal(shown(["skills", "provider"], selectPaths(card, ["provider"])), [1, ["skills"], []]);
    await refused("selection.not-held", () => selectPaths(card, ["nothing"]));
    await misused(() => selectRequested(card, new ClaimRequest([]), new Selection(["other"])));
    await misused(() => present(card, new Selection(["other"]), challenge(), world.holder, NOW));
    await misused(() => present(card, selectAll(card), challenge(), world.issuer, NOW));
  },

  async "a called agent proves itself before it gets a task"(world) {
    const agent = agentOf(world);
    const session = sessionOf(world);
    const call = provedFetch(session, agent.fetch);
    equal(await (await call(`${AGENT}/tasks?q=1`, { method: "POST", body: "secret" })).text(), "done");
    equal([agent.seen, session.card.subject, Object.keys(session.card.members).includes("skills"), session.hasStanding()], [["OPTIONS without content", "POST with content"], "agent:georoute", true, true]);
    await call(`${AGENT}/tasks`);
    equal(agent.seen.length, 3);
  },

  async "an agent without a right proof gets no task"(world) {
    let kept = "";
    const changes = {
      "agent-proof.missing": () => new Response(null, { status: 200 }),
      "agent-proof.malformed": (_, __, proof) => new Response(null, { headers: { [PROOF_HEADER]: `${proof}, ${proof}` } }),
      "jws.signature": (_, __, proof) => new Response(null, { headers: { [PROOF_HEADER]: proof.slice(0, -3) + (proof.endsWith("AAA") ? "BBB" : "AAA") } }),
      "limit.bytes": () => new Response(null, { headers: { [PROOF_HEADER]: "a".repeat(8001) } }),
      "kb.nonce-mismatch": (response, _, proof) => {
        const answer = new Response(null, { headers: { [PROOF_HEADER]: kept || proof } });
        kept ||= proof;
        return answer;
      },
    };
    for (const [rule, changed] of Object.entries(changes)) {
      const agent = agentOf(world, { changed });
      if (rule === "kb.nonce-mismatch") await provedFetch(sessionOf(world), agent.fetch)(`${AGENT}/x`).catch(() => {});
      const session = sessionOf(world);
      const before = agent.seen.length;
      await refused(rule, () => provedFetch(session, agent.fetch)(`${AGENT}/tasks`, { method: "POST", body: "secret" }));
      equal([agent.seen.slice(before), session.hasStanding()], [["OPTIONS without content"], false]);
    }
  },

  async "a client names the agent, its origin and its Service"(world) {
    const session = sessionOf(world, { agent: new ThisAgent(ISSUER, "agent:another") });
    await refused("agent-proof.other-agent", () => provedFetch(session, agentOf(world).fetch)(`${AGENT}/tasks`));
    await refused("agent-proof.other-agent", () => provedFetch(sessionOf(world, { agent: new ThisAgent(AGENT, "agent:georoute") }), agentOf(world).fetch)(`${AGENT}/tasks`));
    for (const url of [`${AUDIENCE}/tasks`, `${AGENT}.evil.example/`, "https://agent.example:444/", "http://agent.example/"]) await refused("agent-proof.target", () => provedFetch(sessionOf(world), () => { throw new Error("it is asked"); })(url));
    const through = sessionOf(world, { service: "https://service.example/agents/1" });
    const { challenge: made, value } = await through.challenge("POST", "https://service.example/agents/1/tasks");
    const received = parseAgentChallenge([value]);
    equal([received.service, made.nonce.startsWith("agent-proof.")], ["https://service.example", true]);
    const target = { origin: AGENT, method: "POST", path: "/tasks" };
    await refused("agent-proof.service", () => checkAgentChallenge(received, [target], [AUDIENCE], []));
    equal((await checkAgentChallenge(received, [target], [AUDIENCE], ["https://service.example"])).nonce, made.nonce);
    await refused("agent-proof.audience", () => checkAgentChallenge(received, [target], [], ["https://service.example"]));
    await refused("agent-proof.target", () => checkAgentChallenge(received, [{ ...target, path: "/other" }], [AUDIENCE], ["https://service.example"]));
    for (const more of [{ agent: undefined }, { status: undefined }, { origin: "agent.example" }, { origin: `${AGENT}/` }, { standing: 301 }, { service: "http://service.example" }, { service: AUDIENCE, agent: new AnyAgent("x") }, { isuers: 1 }]) await misused(() => sessionOf(world, more));
    await misused(() => new AgentSession(session.called, memoryChallenges(AUDIENCE, countedRandomness()), clock));
  },

  async "a challenge with a malformed part is refused at this part"() {
    const parts = { interaction_id: ["a b", "", "a".repeat(129)], requested: ["{}", "1", "null"], service: ["", " a"], nonce: ["", "a ", "a".repeat(257)], audience: [""] };
    for (const [name, values] of Object.entries(parts)) {
      for (const value of values) {
        const parameters = { nonce: "n", audience: AUDIENCE, [name]: value };
        const header = `SD-Card ${Object.entries(parameters).map(([one, text]) => `${one}="${text}"`).join(", ")}`;
        equal((await refused("challenge.malformed", () => parseAgentChallenge([header]))).where, `challenge/${name}`);
      }
    }
    for (const values of [[], ["SD-Card nonce=\"n\"", "SD-Card nonce=\"n\""], ["Bearer"], ["SD-Card ="], [`SD-Card nonce="n", audience="a", NONCE="m"`]]) await refused("challenge.malformed", () => parseAgentChallenge(values));
  },

  async "the interaction of a request is that of its challenge"() {
    const received = (id) => parseAgentChallenge([`SD-Card nonce="n", audience="a"${id ? `, interaction_id="${id}"` : ""}`]);
    checkChallengeInteraction(received("i"), ["i"]);
    checkChallengeInteraction(received("i"), []);
    checkChallengeInteraction(received(null), []);
    for (const [id, values] of [["i", ["j"]], [null, ["i"]], ["i", ["i", "i"]]]) await refused("challenge.other-interaction", () => checkChallengeInteraction(received(id), values));
  },

  async "a key that cannot be used is refused at its fault"(world) {
    const good = world.issuer.publicKey.jwk;
    const wrong = [
      [{ kty: "AKP" }, "key.malformed at key/alg"], [{ kty: "AKP", alg: "ML-DSA-1" }, "key.unsupported at key/alg"],
      [{ kty: "AKP", alg: "ML-DSA-44", pub: encodeBase64url(new Uint8Array(1312)) }, "key.malformed at key/pub"],
      [{ ...good, x: encodeBase64url(new Uint8Array(32).fill(255)) }, "key.malformed at key"], [{ ...good, y: good.x }, "key.malformed at key"],
      [{ ...good, key_ops: ["sign"] }, "key.unsupported at key/key_ops"], [{ ...good, key_ops: "verify" }, "key.unsupported at key/key_ops"],
      [{ ...good, use: "enc" }, "key.unsupported at key/use"], [{ ...good, d: "AA" }, "key.private at key"], [{ kty: "OKP", crv: "Ed25519", x: encodeBase64url(new Uint8Array(32)) }, "key.malformed at key/x"],
    ];
    for (const [jwk, verdict] of wrong) {
      const refusal = await refused(verdict.split(" ")[0], () => parsePublicJwk(jwk));
      equal(refusal.where, verdict.split(" at ")[1]);
    }
    const numbered = await parseTrustedIssuers(JSON.stringify({ issuers: { [ISSUER]: { keys: [good, { ...good, kid: 1 }] } } }));
    equal(numbered.leftOut.map((one) => one.where), [`trust/issuers/${ISSUER}/keys/1/kid`]);
    await refused("encoding.utf8", () => parseTrustedIssuers('{"\ud800":1}'));
  },

  async "trust in Issuers is listed, and what cannot be used is told"(world) {
    const trust = JSON.parse(world.trust);
    const mixed = await parseTrustedIssuers(`\ufeff${JSON.stringify({ issuers: { ...trust.issuers, "https://other.example": { keys: [{ kty: "RSA" }] } } })}`);
    equal(mixed.leftOut.map((one) => `${one.rule} at ${one.where}`), ["key.unsupported at trust/issuers/https://other.example/keys/0"]);
    for (const text of ["{}", '{"issuers":[]}', '{"issuers":{"a":{"keys":{}}}}']) await refused("trust.malformed", () => parseTrustedIssuers(text));
    for (const roots of [["AAAA"], [], null]) await refused("trust.malformed", () => parseTrustedIssuers(JSON.stringify({ issuers: { [ISSUER]: { ...trust.issuers[ISSUER], x5c_roots: roots } } }), { certificates }));
    await misused(() => parseTrustedIssuers(trust));
    const other = await newWorld();
    await refused("issuer.key-unknown", async () => verifyPresentation((await presented(world)).replace(/^[^.]+/, encodeBase64url(new TextEncoder().encode('{"alg":"ES256","typ":"dc+sd-jwt","kid":"x"}'))), expectations(world), NOW));
    await refused("jws.signature", async () => verifyPresentation(await presented(world), expectations(other), NOW));
  },

  async "a trust list of more than 1 MiB is refused before it is read"(world) {
    const most = "a".repeat(1_048_576);
    await refused("jws.format", () => verifyTrustList(most, [world.issuer.publicKey], NOW));
    await refused("limit.bytes", () => verifyTrustList(`${most}a`, [world.issuer.publicKey], NOW));
  },

  async "an Issuer with certificate roots is left out by a reader without certificates"(world) {
    const { issuers } = JSON.parse(world.trust);
    const rooted = { "https://other.example": { x5c_roots: [ROOT] } };
    const refusal = await refused("trust.malformed", () => parseTrustedIssuers(JSON.stringify({ issuers: rooted })));
    equal([refusal.where, refusal.hint.includes("@sd-card/verifier/x5c")], ["trust/issuers/https://other.example/x5c_roots", true]);
    const text = JSON.stringify({ issuers: { ...issuers, ...rooted } });
    const [without, having] = [await parseTrustedIssuers(text), await parseTrustedIssuers(text, { certificates })];
    equal([without, having].map((one) => [one.lists("https://other.example"), one.leftOut.length]), [[false, 1], [true, 0]]);
    await verifyPresentation(await presented(world), expectations(world, { issuers: having }), NOW);
    having.checkHasStatusKeys("https://other.example");
    await refused("issuer.key-unknown", () => having.statusKeyFor("https://other.example", new Map(), NOW));
    const refusedList = await refused("x5c.format", () => having.statusKeyFor("https://other.example", new Map([["x5c", []]]), NOW));
    equal(refusedList.where, "status-list/x5c");
    for (const options of [{ certificate: certificates }, { certificates: {} }, { certificates: true }, null]) await misused(() => parseTrustedIssuers(text, options));
  },

  async "a misspelt term is a misuse"(world) {
    await misused(() => new Challenge("n", AUDIENCE, { interactionID: "t" }));
    await misused(() => new Unsolicited(AUDIENCE, new MemoryReplayRecord(), { interactionID: "t" }));
    await misused(() => memoryChallenges(AUDIENCE, countedRandomness(), { lifeTime: 5 }));
    await misused(() => policyOf(world, { claim: ["provider"], skills: ["a"] }));
    await misused(() => checkAgentChallenge({ challenge: challenge(), request: new ClaimRequest([]), service: null }, [TARGET], "https://client.example", []));
  },

  async "a term that another library put into the prototype of every object decides nothing"(world) {
    const text = await issued(world);
    const terms = { issuers: world.issuers, keyBinding: new Unbound("no key binding here"), status: NOT_CHECKED };
    for (const [name, value] of Object.entries({ ...terms, clockSkew: 60, publishedKeys: [], limits: { disclosures: 1 } })) {
      const { [name]: _, ...others } = terms;
      Object.defineProperty(Object.prototype, name, { value, configurable: true });
      try {
        await misused(() => verifyPresentation(text, others, NOW));
      } finally {
        delete Object.prototype[name];
      }
    }
    await verifyPresentation(text, terms, NOW);
  },

  async "a signer that returns anything but a signature is a misuse"(world) {
    const card = await held(world);
    const answers = [new Uint8Array(63), new Uint8Array(65), new ArrayBuffer(64), "a".repeat(64), Array(64).fill(0), null, undefined];
    for (const made of answers) await misused(() => present(card, selectAll(card), challenge(), { publicKey: world.holder.publicKey, sign: async () => made }, NOW));
  },

  async "a compressed problem of an agent that proved nothing is not read"() {
    const headers = { "content-type": "application/problem+json", "content-length": "30" };
    const answer = (more) => new Response('{"rule":"agent-proof.audience"}'.slice(0, 31), { status: 400, headers: { ...headers, ...more } });
    equal(await namedRule(answer({})), "agent-proof.audience");
    const compressed = answer({ "content-encoding": "br" });
    equal([await namedRule(compressed), compressed.bodyUsed], [null, false]);
  },

  async "a record of ids goes on with many ends"() {
    const record = memoryChallenges(AUDIENCE, countedRandomness(), { capacity: 1_000_000 }).used;
    for (let n = 0; n < 130_000; n += 1) if (!record.add(`${n}`, NOW + n, NOW + n - 300)) throw new Error(`${n}`);
    equal(record.add("129999", NOW + 129_999, NOW), false);
  },

  async "a policy and a proof of a log have at most 131,072 characters"() {
    const comment = (size) => `#${"\u{1f600}".repeat(size - 14)}\nquorum none\n`;
    const policy = await parseLogPolicy(comment(131_072));
    equal(policy.quorum, null);
    equal((await refused("limit.bytes", () => parseLogPolicy(comment(131_073)))).where, "log/policy");
    const proof = (size) => "x".repeat(size);
    await refused("log.proof-malformed", () => verifyLogProof("a.b.c~", policy, NOW, proof(131_072)));
    equal((await refused("limit.bytes", () => verifyLogProof("a.b.c~", policy, NOW, proof(131_073)))).where, "log/proof");
  },

  async "a proof of a log that is missing, and arguments of another kind, are told apart"(world) {
    const policy = await parseLogPolicy("quorum none\n");
    await refused("log.proof-missing", async () => verifyLogProof(await presented(world), policy, NOW));
    for (const [text, terms, proof] of [["a.b.c~", "quorum none\n", "x"], [null, policy, "x"], ["a.b.c~", policy, null]]) await misused(() => verifyLogProof(text, terms, NOW, proof));
    await misused(() => parseLogPolicy(null));
  },

  async "a malformed proof in the KB-JWT refuses beside a given proof too"() {
    const policy = await parseLogPolicy("quorum none\n");
    const part = (value) => encodeBase64url(new TextEncoder().encode(JSON.stringify(value)));
    for (const value of [5, null, []]) {
      const kbJwt = `${part({ alg: "ES256", typ: "kb+jwt" })}.${part({ log_proof: value })}.AAAA`;
      for (const proof of [undefined, "x"]) equal((await refused("claim.type", () => verifyLogProof(`a.b.c~${kbJwt}`, policy, NOW, proof))).where, "kb-jwt/log_proof");
    }
  },

  async "witnesses are in the order of code points"() {
    const policy = await parseLogPolicy("quorum none\n");
    const names = ["\u{10000}", "\uff5e", "ab", "a", "\u{10000}b", "b"];
    const counted = policy.counted(names.map((witness) => ({ name: "w", witness, state: "valid", at: 1n })));
    equal(counted.map(([name]) => name).join(" "), "a ab b \uff5e \u{10000} \u{10000}b");
  },

  async "a list of many places that hide all is read in linear time"(world) {
    const name = "n".repeat(20_000);
    const members = { skills: { [name]: Array.from({ length: 4_000 }, () => ({})) } };
    const shown = { members: parseJson(new TextEncoder().encode(JSON.stringify(members)), "card", 8), emptied: members.skills[name].map((_, i) => ["skills", name, i]), format: null };
    equal(undisclosed(shown, new ClaimRequest(["skills", "name"])), ["skills", "name"]);
    equal((await withStatusRefusals(world)).length, 3);
  },
};

/** Calls that could fail open. */
async function withStatusRefusals(world) {
  const token = await listToken(world, {});
  const key = await parsePublicJwk({ ...JSON.parse(world.trust).issuers[ISSUER].keys[0] });
  const calls = [() => verifyStatusListToken(token, URI, key, NOW, { clockSkew: NaN }), () => verifyStatusListToken(token, URI, key, NOW, { clockSkew: 1e9 }), () => verifyStatusListToken(token, null, key, NOW)];
  for (const call of calls) await misused(call);
  const list = await verifyStatusListToken(token, URI, key, NOW);
  equal([-1, NaN, undefined, "x", 1.5].map((index) => list.status(index)), [null, null, null, null, null]);
  return calls;
}

/** The names of the tests, and of those that failed with the reason. */
export async function runBehaviour() {
  const failures = [];
  for (const [name, test] of Object.entries(TESTS)) {
    try {
      await test(await newWorld());
    } catch (problem) {
      failures.push(`${name}: ${problem.stack ?? problem}`);
    }
  }
  return { tried: Object.keys(TESTS).length, failures };
}
