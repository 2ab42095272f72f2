// Every step of verification, in the order of sdcard/verifier.py; each passes, refuses, or is not checked here.
// Unlike the core, the page goes on after a refusal, so that a person sees everything at once.

const STOPPED = "A step before it was refused.";
const ENCODING = ["encoding.base64url", "encoding.utf8"];
const JSON_RULES = ["json.malformed", "json.duplicate-member", "json.number", "json.surrogate", "json.depth", "limit.containers"];
const KEY_RULES = ["key.private", "key.unsupported", "key.malformed"];

class Report {
  constructor(families) {
    this.families = families;
    this.steps = [];
    this.refusal = null;
  }

  // What `work` gives, or undefined. `whyNot` says why the step cannot be taken; empty when it can.
  async step(group, title, rules, work, whyNot = "") {
    const step = { group, title, rules, state: "passed", rule: null, where: "", hint: "" };
    this.steps.push(step);
    try {
      if (whyNot) throw new NotChecked(whyNot);
      return await work();
    } catch (problem) {
      if (problem instanceof NotChecked) {
        Object.assign(step, { state: "unchecked", hint: problem.message });
      } else if (problem instanceof Refused) {
        Object.assign(step, { state: "refused", rule: problem.rule, where: problem.where, hint: problem.hint });
        this.refusal ??= step;
      } else {
        throw problem;
      }
      return undefined;
    }
  }

  // One row for each rule of each step, and one for each rule of these families that no step is about.
  rows() {
    const rows = this.steps.flatMap((step) => step.rules.map((rule) => this.row(step, rule)));
    const about = new Set(rows.map((row) => row.rule));
    const others = Object.keys(DATA.rules).filter((rule) => this.families.includes(rule.split(".")[0]) && !about.has(rule));
    const why = (rule) => DATA.not_here[rule] ?? "This page has no part in it.";
    return [...rows, ...others.map((rule) => ({ group: "Elsewhere", rule, state: "unchecked", where: "", hint: why(rule) }))];
  }

  row(step, rule) {
    if (step.state === "refused" && step.rule !== rule) {
      return { group: step.group, rule, state: "unchecked", where: "", hint: `Not reached: ${step.rule} came first.` };
    }
    return { group: step.group, rule, state: step.state, where: step.where, hint: step.hint };
  }
}

const SD_JWT_FAMILIES = [
  ...["encoding", "json", "limit", "key", "jws", "sd-jwt", "kb", "sd", "digest", "disclosure", "claim", "time", "audience", "cnf"],
  ...["trust", "issuer", "profile", "status", "status-list", "presentation"],
];

// options: now, keys, profile, skew, maxLifetime (null: any), keyBinding (null: not decided; "unbound"; or audience, nonce,
// interactionId, past, future, each null where it is not decided), holderKey, statusToken, statusKeys, logPolicy, logProof, limits,
// published.
function optionsOf(given) {
  return {
    keys: "", profile: "sd-card", skew: 0, maxLifetime: null, keyBinding: null, holderKey: "", statusToken: "", statusKeys: "", logPolicy: "", logProof: "",
    published: DATA.published_keys, ...given, limits: { ...DATA.limits, ...given.limits },
  };
}

async function inspectSdJwt(text, given) {
  const options = optionsOf(given);
  const report = new Report(SD_JWT_FAMILIES);
  const found = { kind: "sd-jwt", report, options };
  await readParts(text, options, report, found);
  await checkIssued(options, report, found);
  if (options.holderKey && !found.arrived?.kbJwt) await checkHolder(options, report, found);
  if (found.arrived?.kbJwt) await checkKeyBinding(options, report, found);
  await checkLog(options, report, found);
  if (!options.holderKey) await checkStatus(options, report, found);
  return found;
}

async function readParts(text, options, report, found) {
  const depth = options.limits.json_depth;
  const trustRules = ["trust.malformed", "claim.type", "claim.value", ...KEY_RULES, ...ENCODING, ...JSON_RULES];
  const noKeys = options.keys ? "" : "Paste the Issuer's keys.";
  found.trust = await report.step("Your keys", "The keys you chose", trustRules, () => parseTrust(options.keys, depth), noKeys);
  if (found.trust?.leftOut?.length > 0) report.steps.at(-1).hint = `Left out: ${saidOf(found.trust.leftOut)}.`;
  found.arrived = await report.step(
    "Form", "Issuer's JWT, Disclosures and KB-JWT come apart",
    ["limit.bytes", "sd-jwt.format", "limit.disclosures", ...(text.startsWith("{") ? ["jws.header", "jws.crit", ...ENCODING, ...JSON_RULES] : [])],
    () => parseSdJwt(text, options.limits),
  );
  await report.step("Form", "Key binding is as you expect", ["kb.missing", "kb.unexpected"], () => {
    const unbound = options.keyBinding === "unbound" || options.holderKey;
    if (found.arrived.kbJwt && unbound) throw new Refused("kb.unexpected", "kb-jwt");
    if (!found.arrived.kbJwt && !unbound) throw new Refused("kb.missing", "presentation");
  }, !found.arrived ? STOPPED : options.keyBinding || options.holderKey ? "" : "Say whether you expect key binding.");
  await report.step("Your keys", "What you trust has not expired", ["trust.expired"], () => {
    found.trust.named?.checkCurrent(options.now);
  }, found.trust ? "" : noKeys || STOPPED);
}

async function checkIssued(options, report, found) {
  const { limits, published } = options;
  const profile = DATA.profiles[options.profile];
  const group = "Issuer's signature";
  const jws = await report.step(
    group, "The Issuer's JWT reads", ["jws.format", "jws.header", ...ENCODING, ...JSON_RULES],
    () => parseJws(found.arrived.issuerJwt, "issuer-header", "issuer-jwt", limits.json_depth), found.arrived ? "" : STOPPED,
  );
  found.jws = jws;
  const unread = jws ? "" : STOPPED;
  const noTrust = unread || (found.trust ? "" : options.keys ? STOPPED : "Paste the Issuer's keys.");
  const issuerRules = found.trust && !found.trust.named ? ["issuer.key-unknown", "key.published"] : ["issuer.unknown", "issuer.key-unknown", "key.published"];
  const key = await report.step(group, "Whose key it is", issuerRules, async () => {
    const chosen = await keyFor(found.trust, jws.payload.get("iss"), jws.header, options.now);
    checkNotPublished(chosen, published, "issuer-header/kid");
    return chosen;
  }, noTrust);
  found.issuerKey = key;
  const noKey = noTrust || (key ? "" : STOPPED);
  await checkJws(report, group, jws, key, noKey, unread, profile.accepted_types ?? null);
  const processed = await report.step(
    "Disclosures", "Every Disclosure has its digest, and every digest its place",
    ["sd.alg", "disclosure.format", "disclosure.repeated", "sd.digest-list", "sd.placeholder", "sd.reserved-name", "digest.repeated", "limit.digests",
      "disclosure.kind", "disclosure.name-reserved", "disclosure.claim-exists", "disclosure.unreferenced", ...ENCODING, ...JSON_RULES],
    () => processPayload(jws.payload, found.arrived.disclosures, limits), unread,
  );
  found.processed = processed;
  await checkClaims(options, profile, report, found, processed ? "" : STOPPED);
}

async function checkJws(report, group, jws, key, noKey, unread, types) {
  await report.step(group, "The algorithm is the key's", ["jws.alg"], () => checkAlgorithm(jws, key), noKey);
  await report.step(group, "Nothing critical is unknown", ["jws.crit"], () => checkNothingCritical(jws), unread);
  await report.step(group, "The signature verifies", ["jws.signature"], async () => {
    checkAlgorithm(jws, key);
    await checkSignature(jws, key);
  }, noKey || (report.steps.at(-2).state === "refused" ? STOPPED : ""));
  await report.step(group, "The type is the expected one", ["jws.typ"], () => checkType(jws, types), unread || (types ? "" : "This profile expects no type."));
}

async function checkClaims(options, profile, report, found, whyNot) {
  const claims = found.processed?.claims;
  const payload = found.jws?.payload;
  const { now, skew, keyBinding } = options;
  const group = "Claims and times";
  const noProfile = whyNot || (profile.required ? "" : "Choose the SD-Card profile to check this.");
  const audience = keyBinding?.audience ?? null;
  const step = (title, rules, work, why = whyNot) => report.step(group, title, rules, work, why);
  await step("Nothing that decides can be hidden", ["claim.not-in-clear"],
    () => checkNotSelective(payload, found.processed, guardedBy(profile)), noProfile);
  await step("What is needed is there", ["claim.missing"], () => checkPresent(payload, profile.required), noProfile);
  await step("It has not expired", ["time.expired", "claim.type", "claim.value"], () => checkNotExpired(claims, now - skew, "issuer-jwt"));
  await step("It is valid already", ["time.not-yet-valid", "claim.type", "claim.value"], () => checkAlreadyValid(claims, now + skew, "issuer-jwt"));
  await step("It was issued already", ["time.issued-in-future", "claim.type", "claim.value"], () => checkAlreadyIssued(claims, now + skew, "issuer-jwt"));
  if (options.maxLifetime !== null) {
    await step("It does not live for too long", ["time.lifetime", "claim.type", "claim.value"], () => checkLifetime(claims, options.maxLifetime));
  }
  const undecided = claims?.has("aud") && keyBinding === null && !options.holderKey ? "Say who you are, as the audience." : "";
  await step("It is for you", ["audience.mismatch", "claim.type"], () => checkAddressed(claims, audience, "issuer-jwt"), whyNot || undecided);
  await step("It is of the right kind", ["profile.vct", "claim.type", "claim.value"], () => checkVct(claims, profile), noProfile);
  const unbound = whyNot || (profile.required || found.arrived.kbJwt ? "" : "No key binding is there.");
  found.holderKey = await step("The Holder's key can be one", ["cnf.malformed", ...KEY_RULES, "encoding.base64url"], () => readConfirmation(claims), unbound);
  const noHolder = unbound || (found.holderKey ? "" : STOPPED);
  await step("Its private half is not public", ["key.published"], () => checkNotPublished(found.holderKey, options.published, "issuer-jwt/cnf/jwk"),
    noHolder || (profile.required ? "" : "Choose the SD-Card profile to check this."));
  await step("Who, for which agent, and when", ["claim.type", "claim.value"], () => {
    for (const name of ["iss", "sub"]) textClaim(claims, name, "issuer-jwt");
    for (const name of ["iat", "exp"]) numericDate(claims.get(name), `issuer-jwt/${name}`);
    if (claims.has("card_format")) textClaim(claims, "card_format", "issuer-jwt");
    readIssuerChecks(claims);
  }, noProfile);
}

async function checkHolder(options, report, found) {
  const group = "Status";
  const claims = found.processed?.claims;
  await report.step(group, "The status names a list", ["status.malformed"], () => (claims.has("status") ? readStatus(claims.get("status")) : null), claims ? "" : STOPPED);
  await report.step("Key binding", "It is bound to your key", ["cnf.other-key"], async () => {
    const mine = await readPublicJwk(parseJsonObject(utf8(options.holderKey), "key", options.limits.json_depth), "key");
    if (mine.thumbprint !== found.holderKey.thumbprint) throw new Refused("cnf.other-key", "issuer-jwt/cnf/jwk");
  }, found.holderKey ? "" : STOPPED);
}

async function checkKeyBinding(options, report, found) {
  const expected = { audience: null, nonce: null, interactionId: null, ...DATA.window, ...options.keyBinding };
  const step = (title, rules, work, why) => report.step("Key binding", title, rules, work, why);
  const unexpected = options.keyBinding === "unbound" || options.holderKey ? "No KB-JWT was expected." : "";
  found.kb = await step("The KB-JWT reads", ["jws.format", "jws.header", ...ENCODING, ...JSON_RULES],
    () => parseJws(found.arrived.kbJwt, "kb-header", "kb-jwt", options.limits.json_depth), unexpected);
  const unread = unexpected || (found.kb ? "" : STOPPED);
  await checkJws(report, "Key binding", found.kb, found.holderKey, unread || (found.holderKey ? "" : STOPPED), unread, [DATA.kb_typ]);
  await checkKbClaims(options, expected, step, found, unread);
}

async function checkKbClaims(options, expected, step, found, unread) {
  const claims = found.kb?.payload;
  const { now } = options;
  const needs = ["claim.missing", "claim.type"];
  await step("It is fresh", ["kb.stale", "kb.from-future", "claim.value", ...needs], () => checkFreshness(claims, expected, now), unread);
  await step("Its nonce can be one", ["claim.value", ...needs], () => checkNonce(claims, null), unread);
  await step("It answers your challenge", ["kb.nonce-mismatch"], () => checkNonce(claims, expected.nonce), unread || (expected.nonce === null ? "Give the nonce that you asked to be signed." : ""));
  await step("Its audience can be one", needs, () => checkAudience(claims, null), unread);
  await step("It is for you", ["kb.audience-mismatch"], () => checkAudience(claims, expected.audience), unread || (expected.audience === null ? "Say who you are, as the audience." : ""));
  const unhashed = unread || (found.arrived === undefined ? "Paste the whole presentation." : found.processed ? "" : STOPPED);
  await step("It was made for exactly these Disclosures", ["kb.sd-hash", ...needs], () => checkSdHash(claims, found.arrived, found.processed.algorithm), unhashed);
  await step("Its interaction id can be one", ["claim.type"], () => checkInteraction(claims, null), unread);
  await step("It belongs to your interaction", ["kb.interaction-id"], () => checkInteraction(claims, expected.interactionId), unread || (expected.interactionId === null ? "No interaction id was given." : ""));
  await step("It has not expired", ["time.expired", "claim.type", "claim.value"], () => checkNotExpired(claims, now, "kb-jwt", "The KB-JWT has expired."), unread);
  await step("It is valid already", ["time.not-yet-valid", "claim.type", "claim.value"], () => checkAlreadyValid(claims, now, "kb-jwt", "The KB-JWT is not valid yet."), unread);
}

async function checkStatus(options, report, found) {
  const group = "Status";
  const claims = found.processed?.claims;
  const none = !claims ? STOPPED : claims.has("status") ? "" : "The card refers to no status list.";
  const noToken = options.statusToken ? "" : "Paste the status list token.";
  const reference = await report.step(group, "The status names a list", ["status.malformed"], () => readStatus(claims.get("status")), none);
  found.statusReference = reference;
  const unread = none || noToken || (reference ? "" : STOPPED);
  const list = await checkListToken(options, report, found, options.statusToken, reference?.uri ?? null, unread);
  found.statusValue = await report.step(group, "The entry says VALID", ["status.revoked", "status.suspended", "status.unavailable"], () => {
    const value = statusAt(list, reference.index);
    found.statusValue = value;
    checkStatusValue(value);
    return value;
  }, unread || (list ? "" : STOPPED)) ?? found.statusValue;
}

// A status list token, alone or for a card; gives the list.
async function checkListToken(options, report, found, text, uri, whyNot) {
  const group = "Status";
  const jws = await report.step(group, "The status list token reads", ["jws.format", "jws.header", "limit.bytes", ...ENCODING, ...JSON_RULES],
    () => parseStatusListToken(text, options.limits), whyNot);
  found.statusJws = jws;
  const unread = whyNot || (jws ? "" : STOPPED);
  const key = await report.step(group, "The key of status lists", ["issuer.key-unknown", ...KEY_RULES, "trust.malformed"], () => statusKey(options, found, jws), unread);
  const noKey = unread || (key ? "" : whyNone(report));
  await checkJws(report, group, jws, key, noKey, unread, [DATA.status_typ]);
  await report.step(group, "It is the right list, and current", ["status-list.other", "audience.mismatch", "time.not-yet-valid", "time.issued-in-future", "time.expired", "claim.missing", "claim.type", "claim.value"],
    () => checkListClaims(jws.payload, uri, options.now, 0), unread);
  return report.step(group, "The list unpacks", ["status-list.malformed", "limit.bytes", "encoding.base64url", "claim.missing"],
    () => readStatusList(jws.payload, options.limits), unread);
}

// Why the step before gave nothing.
const whyNone = (report) => (report.steps.at(-1).state === "refused" ? STOPPED : report.steps.at(-1).hint);

async function statusKey(options, found, jws) {
  const [kid, alg] = [jws.header.get("kid"), jws.header.get("alg")];
  const given = options.statusKeys ? await parseTrust(options.statusKeys, options.limits.json_depth) : found.trust;
  if (given?.alone && options.statusKeys) return given.alone;
  if (given && !given.named && options.statusKeys) return pick(given.keys, kid, "status-list/kid", "This key is not among those you gave.", alg);
  const named = !given?.named ? undefined : found.kind === "status-list" ? statusKeysOfAll(given.named, kid) : given.named.statusKeys.get(found.processed?.claims.get("iss"));
  if (!named && !options.statusKeys) throw new NotChecked("Paste the key of status lists.");
  return pick(named ?? new Map(), kid, "status-list/kid", "Add the Issuer's status keys.", alg);
}

// A status list token does not say whose it is: its `kid` has to.
function statusKeysOfAll(named, kid) {
  const sets = [...named.statusKeys.values()].filter((keys) => keys.size > 0);
  const having = sets.filter((keys) => (kid === undefined ? keys.size === 1 : keys.has(kid)));
  if (having.length > 1) throw new NotChecked("Several Issuers have a key of this name: paste the one key.");
  return having[0] ?? new Map();
}

// -- a KB-JWT or a status list token by itself ------------------------------------------------------------------------

async function inspectKbJwt(text, given) {
  const options = optionsOf(given);
  const report = new Report(["encoding", "json", "limit", "key", "jws", "kb", "claim", "time"]);
  const found = { kind: "kb-jwt", report, options };
  const group = "Key binding";
  const step = (title, rules, work, why) => report.step(group, title, rules, work, why);
  found.kb = await step("The KB-JWT reads", ["jws.format", "jws.header", "limit.bytes", ...ENCODING, ...JSON_RULES], () => {
    if (codePoints(text) > options.limits.presentation_bytes) throw new Refused("limit.bytes", "kb-jwt");
    return parseJws(text, "kb-header", "kb-jwt", options.limits.json_depth);
  });
  const unread = found.kb ? "" : STOPPED;
  const key = await step("The Holder's key", [...KEY_RULES, "trust.malformed", "issuer.key-unknown"], async () => {
    const trust = await parseTrust(options.keys, options.limits.json_depth);
    if (trust.named) throw new NotChecked("A trust document names Issuers: paste the Holder's JWK, as a key you trust.");
    return trust.alone ?? pick(trust.keys, found.kb.header.get("kid"), "kb-header/kid", "This key is not among those you gave.", found.kb.header.get("alg"));
  }, unread || (options.keys ? "" : "Paste the Holder's key, as a key you trust."));
  found.holderKey = key;
  await checkJws(report, group, found.kb, key, unread || (key ? "" : whyNone(report)), unread, [DATA.kb_typ]);
  const expected = { audience: null, nonce: null, interactionId: null, ...DATA.window, ...(options.keyBinding === "unbound" ? null : options.keyBinding) };
  await checkKbClaims(options, expected, step, found, unread);
  return found;
}

async function inspectStatusList(text, given) {
  const options = optionsOf(given);
  const report = new Report(["encoding", "json", "limit", "key", "jws", "status-list", "claim", "time"]);
  const found = { kind: "status-list", report, options };
  if (!options.statusKeys && options.keys) options.statusKeys = options.keys;
  found.list = await checkListToken(options, report, found, text, null, "");
  return found;
}
