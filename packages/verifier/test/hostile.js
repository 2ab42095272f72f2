// Hostile texts at every entrance: nothing but `Refused` comes out, and nothing takes more than linear time. Each text is as long as
// an entrance accepts or longer, so a quadratic step would not end within the time limit of the runner.
import * as everything from "./package.js";
import { AdmissionPolicy, Answering, Misuse, Refused, Unbound, Unchecked, acceptSdCard, parseAgentChallenge, parseChallenge, parseCredentials, parseProof, parsePublicJwk, parseTrustedIssuers, present, protect, selectAll, verifyPresentation, verifyStatusListToken } from "./package.js";
import { encodeBase64url, utf8 } from "../src/json.js";
import { AUDIENCE, HEADER, ISSUER, NOW, ROOT, challenge, claimsOf, clock, held, issued, newWorld, signed } from "./world.js";

const MANY = 700_000;
const LONG = 10_485_760;
const encoded = (text) => encodeBase64url(utf8(text));

/** Name → JSON text that is not acceptable as a value anywhere, or only as any other value. */
export const JSON_TEXTS = {
  "deep arrays": "[".repeat(MANY), "deep arrays, closed": `${"[".repeat(100_000)}${"]".repeat(100_000)}`, "deep objects": '{"a":'.repeat(120_000),
  "many arrays": `[${"[],".repeat(200_000)}[]]`, "an open string": `"${"a".repeat(MANY)}`, "many backslashes": `"${"\\".repeat(MANY)}`,
  "many spaces": " ".repeat(MANY), "spaces and no end": `{"a"${" ".repeat(MANY)}`, "commas": `[${",".repeat(MANY)}`, "line breaks": `[${"\n".repeat(MANY)},]`,
  "a long fraction": `[1.${"0".repeat(MANY)}1]`, "a long whole number": `[${"9".repeat(MANY)}]`, "a long exponent": `[1e${"9".repeat(MANY)}]`,
  "a long exponent of zero": `[0e${"0".repeat(MANY)}1]`, "zeros that end": `[0.${"0".repeat(MANY)}]`, "minus signs": `[${"-".repeat(MANY)}`,
  "a lone surrogate": '["\\ud800"]', "a surrogate in a name": '{"\\udc00":1}', "not a number": "[NaN]", "a byte order mark": "\ufeff{}", "nothing": "",
  "a repeated member": '{"__proto__":1,"__proto__":2}', "names of prototypes": '{"__proto__":{"polluted":true},"constructor":{"prototype":{"polluted":true}}}',
  "null": "null", "a text": '"a"', "an array": "[]", "true": "true",
};

/** Name → text of any kind. */
export const TEXTS = {
  "10 MB of a": "a".repeat(LONG), "10 MB of ~": "~".repeat(LONG), "10 MB of .": ".".repeat(LONG), "10 MB of {": "{".repeat(LONG), "10 MB of spaces": " ".repeat(LONG),
  "many ~": `a.b.c${"~".repeat(MANY)}`, "many .": ".".repeat(MANY), "many =": "=".repeat(MANY), "many commas": "SD-Card ,".repeat(400), "many quotes": `SD-Card a="${"\\\"".repeat(1900)}`,
  "many tokens": `SD-Card ${"a".repeat(3900)}`, "many parameters": `SD-Card ${"a=b,".repeat(900)}`, "many equal signs": `SD-Card a${" ".repeat(1900)}=${" ".repeat(1900)}`,
  "a lone surrogate": "\ud800~", "a surrogate in JSON": '{"payload":"\udc00"}', "emoji": "\u{1f600}".repeat(MANY), "a null character": "\0~", "__proto__": "__proto__", ...JSON_TEXTS,
};

/** Every entrance that takes a text of another party. */
function entrances(world) {
  const acceptance = { issuers: world.issuers };
  const terms = { ...acceptance, keyBinding: new Unbound("hostile"), status: new Unchecked("hostile") };
  const bound = { ...terms, keyBinding: new Answering(challenge(), { consume: () => true }) };
  return {
    verifyPresentation: (text) => verifyPresentation(text, terms, NOW),
    "verifyPresentation, bound": (text) => verifyPresentation(text, bound, NOW),
    acceptSdCard: (text) => acceptSdCard(text, acceptance, world.holder.publicKey, NOW),
    parseTrustedIssuers: (text) => parseTrustedIssuers(text),
    parsePublicJwk: (text) => parsePublicJwk(text),
    verifyStatusListToken: (text) => verifyStatusListToken(text, `${AUDIENCE}/1`, world.issuer.publicKey, NOW),
    parseAgentChallenge: (text) => parseAgentChallenge([text]),
    parseChallenge: (text) => parseChallenge([text]),
    parseProof: (text) => parseProof([text]),
    parseCredentials: (text) => parseCredentials([text]),
  };
}

/** Within these, a text is one part of a token that is otherwise good. */
async function insides(world) {
  const good = await issued(world, {}, { skills: [] });
  const [jwt, disclosure] = good.split("~");
  const [header, payload, signature] = jwt.split(".");
  const presented = await present(await held(world), selectAll(await held(world)), challenge(), world.holder, NOW);
  const withoutKb = presented.slice(0, presented.lastIndexOf("~") + 1);
  const [kbHeader, kbPayload, kbSignature] = presented.slice(withoutKb.length).split(".");
  return {
    "in the header": (text) => [`${encoded(text)}.${payload}.${signature}~${disclosure}~`, false],
    "in the payload": (text) => [`${header}.${encoded(text)}.${signature}~${disclosure}~`, false],
    "in a Disclosure": (text) => [`${jwt}~${encoded(text)}~`, false],
    "in the header of a KB-JWT": (text) => [`${withoutKb}${encoded(text)}.${kbPayload}.${kbSignature}`, true],
    "in a KB-JWT": (text) => [`${withoutKb}${kbHeader}.${encoded(text)}.${kbSignature}`, true],
    "as a JSON form": (text) => [`{"payload":${text},"protected":"${header}","signature":"${signature}"}`, false],
    "as an unprotected header": (text) => [`{"payload":"${payload}","protected":"${header}","signature":"${signature}","header":${text}}`, false],
  };
}

/** Only the form of a header is looked at there, and names that are unknown in an unprotected header are ignored. */
const MAY_PASS = /^(?:parseProof|parseCredentials|parseChallenge), |names of prototypes as an unprotected header$/;

const REASON = "hostile";
const SALT = `${"A".repeat(43)}=`;
const PROOF = `c2sp.org/tlog-proof@v1\nextra ${SALT}\nindex 0\n\n`;

/**
 * Each public name, to ways in which a hostile text enters it. A text of the caller's own may be `Misuse` too. Null: it takes no text.
 * @type {(world: any, card: any) => Record<string, ((text: any) => unknown)[] | null>}
 */
const everyWay = (world, card) => {
  const { issuers, holder, challenges } = world;
  const { certificates, present, selectAll, selectPaths, selectRequested, partialCard, Selection } = everything;
  const own = { issuers, origin: AUDIENCE, agent: new everything.AnyAgent(REASON), status: new Unchecked(REASON) };
  const called = new everything.CalledAgent(own);
  const noQuorum = new everything.LogPolicy([], new Map(), new Map(), null);
  const client = everything.memoryChallenges(AUDIENCE, everything.systemRandomness, { purpose: "called-agent" });
  const session = () => new everything.AgentSession(called, client, clock);
  const asked = (text) => ({ challenge: new everything.Challenge(text, text), request: new everything.ClaimRequest([]), service: null });
  const policy = (more) => new AdmissionPolicy({ issuers, formats: ["a2a/1.0"], requires: { nothing: REASON }, ...more });
  const route = (more) => ({ policy: policy(), audience: AUDIENCE, challenges, status: new Unchecked(REASON), clock, ...more });
  const answering = (header, status = 401) => async () => new Response("", { status, headers: header });
  const headers = (text) => (/^[\x21-\x7e]{1,9000}$/.test(text) ? text : "=");
  const presenting = { origin: AUDIENCE, audience: AUDIENCE, held: card, allowed: selectAll(card), signer: holder, clock };
  const list = (text) => new everything.FetchedStatusLists(issuers, async () => new Response(text));
  const expressOf = (text) => [{ method: text, originalUrl: text, headers: {}, rawHeaders: ["authorization", text, "sd-card-interaction", text] }, { status: () => ({ set: () => ({ end: () => {} }) }) }];
  const passed = async (middleware, text) => middleware(...expressOf(text), (problem) => { if (problem) throw problem; });
  return {
    Challenge: [(text) => new everything.Challenge(text, AUDIENCE), (text) => new everything.Challenge("n", text, { interactionId: text }), (text) => new everything.Challenge("n", AUDIENCE, text)],
    MemoryReplayRecord: [(text) => new everything.MemoryReplayRecord().firstUse({ holder: text, audience: text, nonce: text }, NOW, NOW)],
    StatelessChallenges: [(text) => challenges.check(new everything.Challenge(text, AUDIENCE), NOW), (text) => challenges.consume(new everything.Challenge(text, AUDIENCE), NOW), (text) => challenges.issue(NOW, { interactionId: text, target: { origin: text, method: text, path: text } })],
    memoryChallenges: [(text) => everything.memoryChallenges(text, everything.systemRandomness)], newChallenge: [(text) => everything.newChallenge(text, everything.systemRandomness)],
    systemClock: null, systemRandomness: null, INTERACTION_HEADER: null, CHALLENGE_HEADER: null, PROOF_HEADER: null, Misuse: null, Refused: null,
    encodeChallenge: [(text) => everything.encodeChallenge(new everything.Challenge(text, text), new everything.ClaimRequest([]))],
    parseCredentials: [(text) => everything.parseCredentials([text]), (text) => everything.parseCredentials([text, text])],
    parsePublicJwk: [(text) => parsePublicJwk(text), (text) => parsePublicJwk({ kty: text }), (text) => parsePublicJwk({ ...world.issuer.publicKey.jwk, x: text }), (text) => parsePublicJwk({ kty: "AKP", alg: "ML-DSA-44", pub: text }), (text) => parsePublicJwk({ kty: "OKP", crv: "Ed25519", x: text }), (text) => parsePublicJwk(`{"kty":"EC","${text}":1}`)],
    protect: [(text) => protect(route({ audience: text }), () => new Response()), (text) => protect(route({ origin: text }), () => new Response()), (text) => protect(route(), () => new Response())(new Request(`${AUDIENCE}/x`, { headers: { authorization: headers(text), "sd-card-interaction": headers(text).slice(0, 200) } }))],
    sdCardMiddleware: [(text) => passed(everything.sdCardMiddleware(route()), text)],
    AdmissionPolicy: [(text) => policy({ formats: [text] }), (text) => policy({ requires: { claims: [text] } }), (text) => policy({ requires: { skills: [text] } }), (text) => policy({ alsoRequested: [text] })],
    ClaimRequest: [(text) => new everything.ClaimRequest([text]), (text) => new everything.ClaimRequest([text, text, 1])],
    FetchedStatusLists: [(text) => list(text).status({ uri: `${AUDIENCE}/1`, index: 0 }, ISSUER, NOW), (text) => list("").status({ uri: text, index: text }, text, NOW)],
    Checked: [(text) => new everything.Checked(text)], Unchecked: [(text) => new Unchecked(text)], Unbound: [(text) => new Unbound(text)], AnyAgent: [(text) => new everything.AnyAgent(text)], AnyAudience: [(text) => new everything.AnyAudience(text)],
    ThisAgent: [(text) => new everything.ThisAgent(text, text)], Answering: [(text) => new Answering(text, { consume: () => true })], Unsolicited: [(text) => new everything.Unsolicited(text, { firstUse: () => true })],
    verifyStatusListToken: [(text) => verifyStatusListToken(text, text, world.issuer.publicKey, NOW)],
    TrustedIssuers: [(text) => issuers.keyFor(text, new Map([["kid", text], ["alg", text], ["x5c", text]]), NOW), (text) => issuers.statusKeyFor(text, new Map([["kid", text]]), NOW)],
    parseTrustedIssuers: [(text) => parseTrustedIssuers(text), (text) => parseTrustedIssuers(text, { certificates }), (text) => parseTrustedIssuers(`{"issuers":{"${text}":{"keys":[]}}}`), (text) => parseTrustedIssuers(JSON.stringify({ issuers: { [text]: { x5c_roots: [text] } } }), { certificates })],
    verifyTrustList: [(text) => everything.verifyTrustList(text, [world.issuer.publicKey], NOW, { certificates })], VerifiedCard: null, HeldSdCard: null, webCryptoSigner: null, selectAll: null,
    verifyPresentation: [(text) => verifyPresentation(text, { issuers, keyBinding: new Unbound(REASON), status: new Unchecked(REASON) }, NOW), (text) => verifyPresentation("a~", { issuers, keyBinding: new Unbound(REASON), status: new Unchecked(REASON), profile: text }, NOW)],
    AgentSession: [(text) => session().challenge(text, `${AUDIENCE}/${text}`, text), (text) => session().accept([text], challenge(), NOW)],
    CalledAgent: [(text) => new everything.CalledAgent({ ...own, origin: text }), (text) => new everything.CalledAgent({ ...own, service: text, agent: new everything.ThisAgent("a", "b") }), (text) => called.target(text, `${AUDIENCE}/${text}`)],
    checkAgentChallenge: [(text) => everything.checkAgentChallenge(asked(text), [{ origin: text, method: text, path: text }], [text], [text])],
    provedFetch: [(text) => everything.provedFetch(session(), answering({ "SD-Card-Proof": headers(text) }, 200))(`${AUDIENCE}/x`)],
    verifyAgentProof: [(text) => everything.verifyAgentProof(text, challenge(), { consume: () => true }, called, NOW)],
    Selection: [(text) => present(card, new Selection([text]), challenge(), holder, NOW)],
    acceptSdCard: [(text) => acceptSdCard(text, { issuers }, holder.publicKey, NOW)],
    jwkSigner: [(text) => everything.jwkSigner({ kty: text }), (text) => everything.jwkSigner({ ...holder.publicKey.jwk, d: text })],
    partialCard: [(text) => partialCard(card, new Selection([text]))], present: [(text) => present(card, selectAll(card), text, holder, NOW), (text) => present(card, selectAll(card), challenge(), holder, text)],
    selectPaths: [(text) => selectPaths(card, [text]), (text) => selectPaths(card, ["name", `"${text}"`])], selectRequested: [(text) => selectRequested(card, new everything.ClaimRequest([text]), selectAll(card))],
    checkChallenge: [(text) => everything.checkChallenge(asked(text), text, text)], checkChallengeInteraction: [(text) => everything.checkChallengeInteraction({ ...asked("n"), challenge: challenge() }, [text])],
    encodeCredentials: [(text) => everything.encodeCredentials(text)], encodeProof: [(text) => everything.encodeProof(text)],
    parseAgentChallenge: [(text) => parseAgentChallenge([text]), (text) => parseAgentChallenge([`SD-Card nonce="n", audience="a", requested="${text.slice(0, 3900)}"`])],
    parseChallenge: [(text) => parseChallenge([text]), (text) => parseChallenge([`SD-Card nonce="n", audience="a", service="${text.slice(0, 3900)}"`])],
    parseProof: [(text) => parseProof([text])],
    presentingFetch: [(text) => everything.presentingFetch({ ...presenting, audience: text }, fetch), (text) => everything.presentingFetch({ ...presenting, origin: text }, fetch), (text) => everything.presentingFetch(presenting, answering({ "www-authenticate": `SD-Card ${headers(text)}` }))(`${AUDIENCE}/x`)],
    LogPolicy: null, parseLogPolicy: [(text) => everything.parseLogPolicy(text), (text) => everything.parseLogPolicy(`${text}\n`), (text) => everything.parseLogPolicy(`log ${text}\n`), (text) => everything.parseLogPolicy(`group ${text} all ${text}\nquorum constructor\n`), (text) => everything.parseLogPolicy(`group x constructor ${text}\n`)],
    verifyLogProof: [(text) => everything.verifyLogProof(text, noQuorum, NOW), (text) => everything.verifyLogProof("a.b.c~", noQuorum, NOW, text), (text) => everything.verifyLogProof("a.b.c~", noQuorum, NOW, `${PROOF}${text}`), (text) => everything.verifyLogProof("a.b.c~", noQuorum, NOW, `${PROOF}a\n1\n${SALT}\n\n— ${text} AAAAAAAA\n`)],
    certificates: [(text) => certificates.readRoots([text], "trust"), (text) => certificates.readRoots(text, "trust"), (text) => certificates.readRoots([ROOT], "trust").keyOf(text, new Map([["x5c", [text, text]]]), NOW, "header")],
  };
};

/** Every public name with every text: nothing comes out but a result, `Refused` and `Misuse`. @param {any} world @param {string[]} failures */
async function everyFunction(world, failures) {
  const ways = everyWay(world, await held(world));
  let tried = 0;
  for (const name of Object.keys(everything)) if (!(name in ways)) failures.push(`${name} is public, and no hostile text enters it`);
  for (const [name, calls] of Object.entries(ways)) {
    for (const [number, call] of (calls ?? []).entries()) {
      for (const [kind, text] of Object.entries(TEXTS)) {
        if (/^10 MB of [^a]/.test(kind)) continue; // one text of this size for each way
        tried++;
        try {
          await call(text);
        } catch (problem) {
          if (!(problem instanceof Refused || problem instanceof Misuse)) failures.push(`${name} ${number}, ${kind}: ${problem?.name}: ${String(problem?.message).slice(0, 100)}`);
        }
      }
    }
  }
  return tried;
}

/** The name of each case in which another thing than `Refused` came out. */
export async function runHostile() {
  const world = await newWorld();
  const failures = [];
  let tried = 0;
  const refuses = async (name, work) => {
    tried++;
    try {
      await work();
      if (!MAY_PASS.test(name)) failures.push(`${name}: accepted`);
    } catch (problem) {
      if (!(problem instanceof Refused)) failures.push(`${name}: ${problem?.name}: ${String(problem?.message).slice(0, 100)}`);
    }
  };
  const ways = entrances(world);
  for (const [way, enter] of Object.entries(ways)) {
    for (const [name, text] of Object.entries(TEXTS)) await refuses(`${way}, ${name}`, async () => enter(text));
  }
  for (const [place, put] of Object.entries(await insides(world))) {
    for (const [name, text] of Object.entries(JSON_TEXTS)) {
      const [whole, isBound] = put(text);
      await refuses(`${name} ${place}`, async () => ways[isBound ? "verifyPresentation, bound" : "verifyPresentation"](whole));
    }
  }
  await signedPayloads(world, ways, refuses);
  await mutations(world, ways, failures);
  failures.push(...(await headers(world)), ...(await prototypes(world)));
  tried += await everyFunction(world, failures);
  return { tried, failures };
}

/** Payloads that the Issuer really signed. */
async function signedPayloads(world, ways, refuses) {
  const claims = claimsOf(world);
  const deep = (depth) => JSON.parse(`${"[".repeat(depth)}${"]".repeat(depth)}`);
  const wrong = {
    _sd_alg: ["md5", null, 1, "__proto__"], _sd: [1, "a", {}, [1], ["a", "a"], { length: 1 }], "...": ["a"], iss: [null, [], "__proto__"], exp: [null, "1", -1, 1e300, true], iat: [null, {}],
    nbf: ["x"], aud: [1, [1], {}, "constructor"], cnf: [null, {}, { jwk: {} }, { jwk: [] }, { jwk: { kty: "__proto__" } }, { jwk: { kty: "EC", crv: "constructor" } }], vct: [1, "", "toString"],
    card_format: [1, ""], jti: [1], status: [1, {}, { status_list: { idx: -1, uri: "a" } }, { status_list: { idx: 0.5, uri: "a" } }], name: [deep(70), { _sd: 1 }, [{ "...": 1 }], { _sd_alg: "sha-256" }],
  };
  for (const [name, values] of Object.entries(wrong)) {
    for (const value of values) {
      const text = `${await signed(world.issuer, HEADER, JSON.stringify({ ...claims, [name]: value }))}~`;
      await refuses(`signed ${name}: ${JSON.stringify(value).slice(0, 30)}`, async () => ways.verifyPresentation(text));
    }
  }
  for (const header of ['{"alg":"none"}', '{"alg":"__proto__"}', '{"alg":"ES256","typ":"constructor"}', '{"alg":"ES256","typ":"dc+sd-jwt","crit":[]}', '{"alg":1}']) {
    const text = `${await signed(world.issuer, header, JSON.stringify(claims))}~`;
    await refuses(`signed with ${header}`, async () => ways.verifyPresentation(text));
  }
}

/** A good presentation with characters changed, removed and repeated, each by a fixed series. */
async function mutations(world, ways, failures) {
  const card = await held(world);
  const good = await present(card, selectAll(card), challenge(), world.holder, NOW);
  await ways["verifyPresentation, bound"](good);
  let state = 24;
  const next = (below) => (state = (Math.imul(state, 1_103_515_245) + 12_345) & 0x7fffffff) % below;
  for (let round = 0; round < 400; round++) {
    const [at, kind] = [next(good.length), next(4)];
    const other = "AZaz09-_~.=\ud800\u00e9"[next(13)];
    const text = kind === 0 ? good.slice(0, at) : kind === 1 ? good.slice(0, at) + other + good.slice(at + 1) : kind === 2 ? good.slice(0, at) + other + good.slice(at) : good.slice(at) + good.slice(0, at);
    if (text === good) continue;
    try {
      await ways["verifyPresentation, bound"](text);
      failures.push(`mutation ${round} of a good presentation is accepted`);
    } catch (problem) {
      if (!(problem instanceof Refused)) failures.push(`mutation ${round}: ${problem}`);
    }
  }
}

/** Headers of a request: each is answered with a problem document. */
async function headers(world) {
  const policy = new AdmissionPolicy({ issuers: world.issuers, formats: ["a2a/1.0"], requires: { nothing: "hostile headers" } });
  const guarded = protect({ policy, audience: AUDIENCE, challenges: world.challenges, status: new Unchecked("hostile"), clock }, () => new Response("reached"));
  const failures = [];
  for (const value of ["SD-Card", "SD-Card a", "SD-Card ~", "Bearer a", "SD-Card a, SD-Card b", `SD-Card ${"~".repeat(7000)}`, `SD-Card ${"a".repeat(9000)}`, "=", ",", "SD-Card \u00e9"]) {
    const response = await guarded(new Request(`${AUDIENCE}/tasks`, { headers: { authorization: value } }));
    const { rule } = await response.json();
    if (![400, 401, 431].includes(response.status) || typeof rule !== "string") failures.push(`Authorization: ${value.slice(0, 20)}: ${response.status}`);
  }
  return failures;
}

/** Names of JavaScript's own members are names like others. */
async function prototypes(world) {
  const more = JSON.parse('{"__proto__": {"polluted": true}, "constructor": 1, "toString": "x", "hasOwnProperty": null}');
  const payload = JSON.stringify(claimsOf(world)).replace("{", `${JSON.stringify(more).slice(0, -1)},`);
  const text = `${await signed(world.issuer, HEADER, payload)}~`;
  const card = await entrances(world).verifyPresentation(text);
  const names = ["__proto__", "constructor", "toString", "hasOwnProperty"];
  const wrong = names.filter((name) => !Object.keys(card.members).includes(name)).map((name) => `the member ${name} is not there`);
  return {}.polluted === undefined && Object.getPrototypeOf(card.members) === null && card.members.__proto__.polluted === true ? wrong : [...wrong, "a prototype was changed"];
}
