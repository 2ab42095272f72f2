// Trusted Issuers and their keys. An Issuer is trusted because the Verifier lists it. As sdcard/trust.py.
import { DATA } from "./data.js";
import { checkAddressed, checkAlreadyIssued, checkAlreadyValid, checkInstant, numericDate, required } from "./claims.js";
import { Misuse, Refused, isObject, isText, parseJsonObject, utf8, within } from "./json.js";
import { findKey, readKeySet, refusalOf } from "./keys.js";
import { parseJws, verifyJws } from "./sd-jwt.js";

/** @import { Json, JsonObject } from "./json.js" */
/** @import { Keys, PublicKey } from "./keys.js" */

/** The keys of each trusted Issuer, by `iss` and `kid`. `parseTrustedIssuers` makes it. */
export class TrustedIssuers {
  /**
   * @param {Map<string, Keys>} keys of SD-Cards
   * @param {Map<string, Keys>} statusKeys of status lists
   * @param {number | null} expiresAt Unix seconds, exclusive
   * @param {Refused[]} leftOut Issuers and keys of the document that cannot be used
   */
  constructor(keys, statusKeys, expiresAt, leftOut) {
    this.keys = keys;
    this.statusKeys = statusKeys;
    this.expiresAt = expiresAt;
    this.leftOut = leftOut;
  }

  /** @param {string} issuer */
  lists(issuer) {
    return this.keys.has(issuer);
  }

  /** @param {number} now */
  checkCurrent(now) {
    if (this.expiresAt !== null && checkInstant(now) >= this.expiresAt) {
      throw new Refused("trust.expired", "trust/exp", "Get the present trust document.");
    }
  }

  /**
   * The one key that may have signed an SD-Card. A token cannot add an Issuer or a key.
   * @param {Json | undefined} issuer
   * @param {Json | undefined} kid
   * @param {Json | undefined} alg
   */
  keyFor(issuer, kid, alg) {
    const keys = isText(issuer) ? this.keys.get(issuer) : undefined;
    if (!keys) throw new Refused("issuer.unknown", "issuer-jwt/iss", "Add the Issuer if you trust it.");
    const key = findKey(keys, kid, alg);
    if (!key) throw new Refused("issuer.key-unknown", "issuer-header/kid", "The Issuer is trusted, but this key is not listed.");
    return key;
  }

  /**
   * The one key that may sign a status list of this Issuer.
   * @param {string} issuer
   * @param {Json | undefined} kid
   * @param {Json | undefined} alg
   */
  statusKeyFor(issuer, kid, alg) {
    const key = findKey(this.statusKeys.get(issuer) ?? new Map(), kid, alg);
    if (!key) throw new Refused("issuer.key-unknown", "status-list/kid", "Add the Issuer's status keys.");
    return key;
  }

  /** @param {string} issuer */
  checkHasStatusKeys(issuer) {
    if (!this.statusKeys.get(issuer)?.size) throw new Refused("issuer.key-unknown", "status-list", "The Issuer has no status keys.");
  }
}

/**
 * Reads a trust document: `{"issuers": {"https://registry.example": {"keys": [JWK, …]}}}`, where an Issuer may have
 * `status_keys` too, and the document `exp`. Unusable Issuers and keys are in `leftOut`.
 * @param {string} text
 * @param {typeof DATA.limits} [limits]
 */
export async function parseTrustedIssuers(text, limits = DATA.limits) {
  if (typeof text !== "string") throw new Misuse("a trust document is a JSON text");
  if (!text.isWellFormed()) throw new Refused("encoding.utf8", "trust");
  return readTrustedIssuers(parseJsonObject(utf8(text.replace(/^\ufeff/, "")), "trust", limits.json_depth));
}

/** @param {JsonObject} document */
export async function readTrustedIssuers(document) {
  const issuers = document.get("issuers");
  if (!isObject(issuers) || issuers.size === 0) {
    throw new Refused("trust.malformed", "trust", "A trust document is an object with a member `issuers`, of one Issuer or more.");
  }
  /** @type {Map<string, Keys>} */
  const keys = new Map();
  /** @type {Map<string, Keys>} */
  const statusKeys = new Map();
  /** @type {Refused[]} */
  const leftOut = [];
  for (const [issuer, entry] of issuers) {
    const where = within("trust", "issuers", issuer);
    try {
      if (isObject(entry) && entry.has("x5c_roots")) throw new Refused("trust.malformed", where, "Roots of certificates are not supported.");
      const own = await readKeySet(entry, where);
      const status = isObject(entry) && entry.has("status_keys") ? await readStatusKeys(entry, where) : null;
      keys.set(issuer, own.keys);
      if (status) statusKeys.set(issuer, status.keys);
      for (const one of [...own.leftOut, ...(status?.leftOut ?? [])]) if (leftOut.length < 200) leftOut.push(one);
    } catch (refusal) {
      leftOut.push(refusalOf(refusal));
    }
  }
  if (keys.size === 0) throw leftOut[0];
  const expiresAt = document.has("exp") ? numericDate(document.get("exp"), "trust/exp") : null;
  return new TrustedIssuers(keys, statusKeys, expiresAt, leftOut);
}

/**
 * Without a usable one, no status of the Issuer can be checked. Only what is not an array refuses the Issuer.
 * @param {JsonObject} entry
 * @param {string} where
 */
async function readStatusKeys(entry, where) {
  try {
    return await readKeySet(entry, where, "status_keys");
  } catch (problem) {
    const refusal = refusalOf(problem);
    if (refusal.where === where) throw refusal;
    return { keys: new Map(), leftOut: [refusal] };
  }
}

const MOST_BYTES = 1_048_576;

/**
 * Verifies a signed trust list: a trust document as a compact JWS with `iat` and `exp`, so that a Verifier works offline until then.
 * @param {string} text
 * @param {readonly PublicKey[]} signers the pinned keys; the header names one by its thumbprint
 * @param {number} now
 * @param {typeof DATA.limits} [limits]
 */
export async function verifyTrustList(text, signers, now, limits = DATA.limits) {
  checkInstant(now);
  if (typeof text !== "string") throw new Misuse("a trust list is a string");
  if (text.length > MOST_BYTES) throw new Refused("limit.bytes", "trust");
  if (!/^[\0-\x7f]*$/.test(text)) throw new Refused("jws.format", "trust");
  const jws = parseJws(text, "trust", "trust", limits.json_depth);
  const key = signers.find((one) => one.thumbprint === jws.header.get("kid"));
  if (!key) throw new Refused("trust.signer-unknown", "trust/kid");
  await verifyJws(jws, key, ["sdcard-trust+jwt"]);
  for (const name of ["iat", "exp"]) required(jws.payload, name, "trust");
  checkAlreadyIssued(jws.payload, now + DATA.max_skew, "trust");
  checkAddressed(jws.payload, null, "trust");
  checkAlreadyValid(jws.payload, now + DATA.max_skew, "trust");
  const issuers = await readTrustedIssuers(jws.payload);
  issuers.checkCurrent(now);
  return issuers;
}
