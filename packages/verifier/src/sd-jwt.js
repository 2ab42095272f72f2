// JWS, the forms of an SD-JWT, Disclosures and digests: RFC 7515, RFC 9901 4, 7.1 and 8.
// As sdcard/jose/jws.py and sdcard/sdjwt/.
import { DATA } from "./data.js";
import { Misuse, Refused, codePoints, decodeBase64url, isObject, isText, parseJson, parseJsonObject, utf8, utf8Of, within } from "./json.js";
import { digestText, headerNames } from "./keys.js";

/** @import { Json, JsonObject } from "./json.js" */
/** @import { PublicKey } from "./keys.js" */

/** @typedef {typeof DATA.limits} Limits */
/**
 * @typedef {object} Jws
 * @property {JsonObject} header
 * @property {JsonObject} payload
 * @property {Uint8Array<ArrayBuffer>} signature
 * @property {Uint8Array<ArrayBuffer>} signingInput
 * @property {string} headerWhere
 * @property {string} payloadWhere
 */
/** @typedef {{ issuerJwt: string, disclosures: string[], kbJwt: string | null }} Arrived */
/** @typedef {{ number: number, encoded: string, salt: string, name: string | null, value: Json, digest: string }} Disclosure */
/** @typedef {(string | number)[]} Place */
/** @typedef {{ place: Place, disclosure: Disclosure, parent: Disclosure | null }} Revealed */
/**
 * @typedef {object} Processed the Processed SD-JWT Payload (RFC 9901 7.1), and the place of each Disclosure
 * @property {string} algorithm
 * @property {Disclosure[]} disclosures
 * @property {JsonObject} claims
 * @property {Revealed[]} revealed parents before children
 * @property {{ digest: string, place: Place }[]} hidden digests without a Disclosure
 * @property {Place[]} emptied objects and arrays that are empty because digests were removed
 */

/**
 * @param {string} text
 * @param {string} headerWhere
 * @param {string} payloadWhere
 * @param {number} depth
 * @returns {Jws}
 */
export function parseJws(text, headerWhere, payloadWhere, depth) {
  const [first, second, third] = text.split(".", 4);
  if (!first || !second || !third || text.length !== first.length + second.length + third.length + 2) throw new Refused("jws.format", payloadWhere);
  const header = parseJsonObject(decodeBase64url(first, headerWhere), headerWhere, depth);
  for (const name of ["alg", "typ", "kid"]) {
    if (header.has(name) && !isText(header.get(name))) throw new Refused("jws.header", `${headerWhere}/${name}`);
  }
  const payload = parseJsonObject(decodeBase64url(second, payloadWhere), payloadWhere, depth);
  const signature = decodeBase64url(third, `${payloadWhere}/signature`);
  return { header, payload, signature, signingInput: utf8(`${first}.${second}`), headerWhere, payloadWhere };
}

/**
 * RFC 8725 3.1: the key decides the algorithm, never the header.
 * @param {Jws} jws
 * @param {PublicKey} key
 */
export function checkAlgorithm(jws, key) {
  if (!headerNames(key.algorithm).includes(jws.header.get("alg"))) {
    throw new Refused("jws.alg", `${jws.headerWhere}/alg`, `The key signs with ${key.algorithm}.`);
  }
}

/** @param {Jws} jws */
export function checkNothingCritical(jws) {
  if (jws.header.has("crit")) throw new Refused("jws.crit", `${jws.headerWhere}/crit`);
  if (jws.header.has("b64") && jws.header.get("b64") !== true) throw new Refused("jws.crit", `${jws.headerWhere}/b64`, "The payload is always encoded.");
}

/**
 * @param {Jws} jws
 * @param {PublicKey} key
 */
export async function checkSignature(jws, key) {
  if ((await key.verifies(jws.signingInput, jws.signature)) !== true) throw new Refused("jws.signature", `${jws.payloadWhere}/signature`);
}

/**
 * @param {Jws} jws
 * @param {readonly string[]} types
 */
export function checkType(jws, types) {
  const typ = jws.header.get("typ");
  if (!isText(typ) || !types.includes(typ)) throw new Refused("jws.typ", `${jws.headerWhere}/typ`, `Expected: ${types.toSorted().join(", ")}.`);
}

/**
 * @param {Jws} jws
 * @param {PublicKey} key
 * @param {readonly string[]} types
 */
export async function verifyJws(jws, key, types) {
  checkAlgorithm(jws, key);
  checkNothingCritical(jws);
  await checkSignature(jws, key);
  checkType(jws, types);
}

// -- the forms --------------------------------------------------------------------------------------------------------

/**
 * `kbJwt` is null for an SD-JWT without key binding.
 * @param {string} text
 * @param {Limits} limits
 * @returns {Arrived}
 */
export function parseSdJwt(text, limits) {
  if (typeof text !== "string") throw new Misuse("a presentation is a string");
  if (text.length > 2 * limits.presentation_bytes || codePoints(text) > limits.presentation_bytes) throw new Refused("limit.bytes", "presentation");
  const parsed = text.startsWith("{") ? parseJsonForm(text, limits) : parseCompact(text);
  if (parsed.disclosures.length > limits.disclosures) throw new Refused("limit.disclosures", "presentation");
  return parsed;
}

/** @param {string} text @returns {Arrived} */
function parseCompact(text) {
  const [issuerJwt, ...disclosures] = text.split("~");
  if (disclosures.length === 0) throw new Refused("sd-jwt.format", "presentation", text ? "There is no `~`." : "It is empty.");
  return { issuerJwt, kbJwt: disclosures.pop() || null, disclosures };
}

/**
 * @param {string} text
 * @param {Limits} limits
 * @returns {Arrived}
 */
function parseJsonForm(text, limits) {
  const data = utf8Of(text, "presentation");
  if (data.length > limits.presentation_bytes) throw new Refused("limit.bytes", "presentation");
  const document = parseJsonObject(data, "presentation", limits.json_depth);
  checkAbsent(document, ["disclosures", "kb_jwt"], "presentation", "It belongs in the unprotected header.");
  const payload = textMember(document, "payload", "presentation");
  const [signature, where] = firstSignature(document);
  const header = unprotectedHeader(signature, where);
  const signed = textMember(signature, "protected", where);
  if (header.has("crit")) throw new Refused("jws.crit", `${where}/header/crit`, "An unprotected header is not signed.");
  checkDisjoint(header, signed, `${where}/header`, limits);
  const issuerJwt = `${signed}.${payload}.${textMember(signature, "signature", where)}`;
  const disclosures = header.has("disclosures") ? header.get("disclosures") : [];
  if (!Array.isArray(disclosures)) throw new Refused("sd-jwt.format", `${where}/header/disclosures`, "An array of Disclosures is expected.");
  if (!disclosures.every(isText)) throw new Refused("sd-jwt.format", `${where}/header/disclosures`, "Each Disclosure is a string.");
  return { issuerJwt, disclosures, kbJwt: header.has("kb_jwt") ? textMember(header, "kb_jwt", `${where}/header`) : null };
}

/** @param {JsonObject} document @returns {[JsonObject, string]} */
function firstSignature(document) {
  if (!document.has("signatures")) return [document, "presentation"];
  checkAbsent(document, ["protected", "signature", "header"], "presentation", "In the general form it belongs in `signatures`.");
  const where = "presentation/signatures";
  const signatures = document.get("signatures");
  if (!Array.isArray(signatures) || signatures.length === 0) {
    throw new Refused("sd-jwt.format", where, "An array with one signature or more is expected.");
  }
  const objects = signatures.map((one, number) => objectOf(one, `${where}/${number}`));
  for (const [number, other] of objects.entries()) {
    if (number === 0) continue;
    textMember(other, "signature", `${where}/${number}`);
    const header = unprotectedHeader(other, `${where}/${number}`);
    checkAbsent(header, ["disclosures", "kb_jwt"], `${where}/${number}/header`, "Only the first signature may have it.");
  }
  return [objects[0], `${where}/0`];
}

/**
 * @param {JsonObject} header
 * @param {string} signed
 * @param {string} where
 * @param {Limits} limits
 */
function checkDisjoint(header, signed, where, limits) {
  if (header.size === 0) return;
  const names = parseJsonObject(decodeBase64url(signed, "issuer-header"), "issuer-header", limits.json_depth);
  if ([...header.keys()].some((name) => names.has(name))) {
    throw new Refused("jws.header", where, "A parameter is in the protected header too.");
  }
}

/**
 * @param {JsonObject} signature
 * @param {string} where
 * @returns {JsonObject}
 */
const unprotectedHeader = (signature, where) => (signature.has("header") ? objectOf(signature.get("header"), `${where}/header`) : new Map());

/**
 * @param {Json | undefined} value
 * @param {string} where
 */
function objectOf(value, where) {
  if (!isObject(value)) throw new Refused("sd-jwt.format", where, "A JSON object is expected.");
  return value;
}

/**
 * @param {JsonObject} members
 * @param {string} name
 * @param {string} where
 */
function textMember(members, name, where) {
  const value = members.get(name);
  if (!isText(value) || !value) throw new Refused("sd-jwt.format", `${where}/${name}`, "A string that is not empty is expected.");
  return value;
}

/**
 * @param {JsonObject} members
 * @param {string[]} names
 * @param {string} where
 * @param {string} hint
 */
function checkAbsent(members, names, where, hint) {
  for (const name of names) {
    if (members.has(name)) throw new Refused("sd-jwt.format", `${where}/${name}`, hint);
  }
}

// -- Disclosures and digests ------------------------------------------------------------------------------------------

/**
 * @param {string} encoded
 * @param {number} number
 * @param {number} depth
 * @returns {Disclosure}
 */
function parseDisclosure(encoded, number, depth) {
  const where = `disclosure/${number}`;
  const array = parseJson(decodeBase64url(encoded, where), where, depth);
  if (Array.isArray(array) && isText(array[0])) {
    const [salt, second, third] = array;
    if (array.length === 2) return { number, encoded, salt, name: null, value: second, digest: "" };
    if (array.length === 3 && isText(second)) return { number, encoded, salt, name: second, value: third, digest: "" };
  }
  throw new Refused("disclosure.format", where);
}

/**
 * Replaces each digest by the claim of its Disclosure, or removes it. RFC 9901 7.1, steps 2.d to 5.
 * @param {JsonObject} payload
 * @param {string[]} texts
 * @param {Limits} limits
 * @returns {Promise<Processed>}
 */
export async function processPayload(payload, texts, limits) {
  const algorithm = payload.has("_sd_alg") ? payload.get("_sd_alg") : "sha-256";
  if (!isText(algorithm) || !DATA.digest_algorithms.includes(algorithm)) throw new Refused("sd.alg", "issuer-jwt/_sd_alg");
  const disclosures = texts.map((text, number) => parseDisclosure(text, number, limits.json_depth));
  const digests = await Promise.all(texts.map((text) => digestText(algorithm, text)));
  /** @type {Map<string, Disclosure>} */
  const unreferenced = new Map();
  for (const [number, disclosure] of disclosures.entries()) {
    disclosure.digest = digests[number];
    if (unreferenced.has(disclosure.digest)) throw new Refused("disclosure.repeated", `disclosure/${number}`);
    unreferenced.set(disclosure.digest, disclosure);
  }
  const walk = new Walk(unreferenced, limits);
  const members = new Map([...payload].filter(([name]) => name !== "_sd_alg"));
  const claims = walk.object(members, { place: [], where: "issuer-jwt", holder: null });
  for (const disclosure of unreferenced.values()) throw new Refused("disclosure.unreferenced", `disclosure/${disclosure.number}`);
  return { algorithm, disclosures, claims, revealed: walk.revealed, hidden: walk.hidden, emptied: walk.emptied };
}

/** @typedef {{ place: Place, where: string, holder: Disclosure | null }} Spot */

/** Steps 3 and 4: one walk, and each digest is looked up once. */
class Walk {
  /**
   * @param {Map<string, Disclosure>} unreferenced
   * @param {Limits} limits
   */
  constructor(unreferenced, limits) {
    this.unreferenced = unreferenced;
    this.limits = limits;
    /** @type {Set<string>} */
    this.met = new Set();
    /** @type {Revealed[]} */
    this.revealed = [];
    /** @type {Processed["hidden"]} */
    this.hidden = [];
    /** @type {Place[]} */
    this.emptied = [];
  }

  /**
   * @param {Json} value
   * @param {Spot} spot
   * @returns {Json}
   */
  value(value, spot) {
    if (isObject(value)) {
      if (value.has("_sd_alg")) throw new Refused("sd.reserved-name", spot.where, "`_sd_alg` belongs at the top level.");
      return this.object(value, spot);
    }
    return Array.isArray(value) ? this.array(value, spot) : value;
  }

  /**
   * @param {JsonObject} members
   * @param {Spot} spot
   * @returns {JsonObject}
   */
  object(members, spot) {
    this.checkDepth(spot);
    if (members.has("...")) throw new Refused("sd.placeholder", spot.where);
    const digests = members.has("_sd") ? members.get("_sd") : [];
    if (!Array.isArray(digests) || !digests.every(isText)) throw new Refused("sd.digest-list", spot.where);
    /** @type {JsonObject} */
    const result = new Map();
    for (const [name, value] of members) {
      if (name !== "_sd") result.set(name, isContainer(value) ? this.value(value, this.step(spot, name)) : value);
    }
    for (const digest of digests) this.meet(digest, spot);
    for (const digest of digests) this.insert(digest, result, spot);
    if (digests.length > 0 && result.size === 0) this.emptied.push(spot.place);
    return result;
  }

  /**
   * @param {string} digest
   * @param {JsonObject} result
   * @param {Spot} spot
   */
  insert(digest, result, spot) {
    const disclosure = this.lookUp(digest, spot.place);
    if (!disclosure) return;
    const where = `disclosure/${disclosure.number}`;
    const { name } = disclosure;
    if (name === null) throw new Refused("disclosure.kind", where, "An object's claim needs salt, name and value.");
    if (DATA.reserved_in_disclosures.includes(name)) throw new Refused("disclosure.name-reserved", where);
    if (result.has(name)) throw new Refused("disclosure.claim-exists", where);
    const place = [...spot.place, name];
    this.revealed.push({ place, disclosure, parent: spot.holder });
    result.set(name, this.value(disclosure.value, { place, where, holder: disclosure }));
  }

  /**
   * @param {Json[]} elements
   * @param {Spot} spot
   */
  array(elements, spot) {
    this.checkDepth(spot);
    /** @type {Json[]} */
    const result = [];
    for (const [position, element] of elements.entries()) {
      if (!isContainer(element)) {
        result.push(element);
        continue;
      }
      const here = { ...this.step(spot, position), place: [...spot.place, result.length] };
      if (!isObject(element) || !element.has("...")) {
        result.push(this.value(element, here));
        continue;
      }
      const digest = element.get("...");
      if (element.size !== 1 || !isText(digest)) throw new Refused("sd.placeholder", here.where);
      this.meet(digest, here);
      const disclosure = this.lookUp(digest, spot.place);
      if (!disclosure) continue;
      const where = `disclosure/${disclosure.number}`;
      if (disclosure.name !== null) throw new Refused("disclosure.kind", where, "An array element has a salt and a value only.");
      this.revealed.push({ place: here.place, disclosure, parent: spot.holder });
      result.push(this.value(disclosure.value, { place: here.place, where, holder: disclosure }));
    }
    if (elements.length > 0 && result.length === 0) this.emptied.push(spot.place);
    return result;
  }

  /**
   * Names inside a Disclosure are hidden values, so `where` stays at its number there.
   * @param {Spot} spot
   * @param {string | number} name
   * @returns {Spot}
   */
  step(spot, name) {
    return { place: [...spot.place, name], where: spot.holder ? spot.where : within(spot.where, name), holder: spot.holder };
  }

  /**
   * Refuses a repeated digest, whether or not it has a Disclosure.
   * @param {string} digest
   * @param {Spot} spot
   */
  meet(digest, spot) {
    if (this.met.has(digest)) throw new Refused("digest.repeated", spot.where);
    this.met.add(digest);
    if (this.met.size > this.limits.digests) throw new Refused("limit.digests", spot.where);
  }

  /**
   * @param {string} digest
   * @param {Place} place
   */
  lookUp(digest, place) {
    const disclosure = this.unreferenced.get(digest);
    this.unreferenced.delete(digest);
    if (!disclosure) this.hidden.push({ digest, place });
    return disclosure;
  }

  /** @param {Spot} spot */
  checkDepth(spot) {
    if (spot.place.length >= this.limits.json_depth) throw new Refused("json.depth", spot.where);
  }
}

/** @param {Json} value */
const isContainer = (value) => typeof value === "object" && (value instanceof Map || Array.isArray(value));
