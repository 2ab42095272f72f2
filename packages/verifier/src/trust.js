// Trusted Issuers and their keys. An Issuer is trusted because the Verifier lists it. As sdcard/trust.py.
import { DATA } from "./data.js";
import { checkAddressed, checkAlreadyIssued, checkAlreadyValid, checkInstant, numericDate, required } from "./claims.js";
import { Misuse, Refused, checkNames, isObject, isText, parseJsonObject, utf8Of, within } from "./json.js";
import { findKey, readKeySet, refusalOf } from "./keys.js";
import { parseJws, verifyJws } from "./sd-jwt.js";

/** @import { Json, JsonObject } from "./json.js" */
/** @import { Keys, PublicKey } from "./keys.js" */

/**
 * @typedef {object} CertificateRoots root certificates of an Issuer
 * @property {(issuer: string, header: JsonObject, now: number, where: string) => Promise<PublicKey>} keyOf the key of the chain in a header
 */
/** @typedef {{ readRoots(value: Json | undefined, where: string): CertificateRoots }} Certificates `certificates` of `@sd-card/verifier/x5c` */
/** @typedef {{ limits?: typeof DATA.limits, certificates?: Certificates }} TrustOptions without `certificates`, an Issuer with `x5c_roots` is left out */

/** The keys of each trusted Issuer, by `iss` and `kid`. `parseTrustedIssuers` makes it. */
export class TrustedIssuers {
  /**
   * @param {Map<string, Keys>} keys of SD-Cards
   * @param {Map<string, Keys>} statusKeys of status lists
   * @param {number | null} expiresAt Unix seconds, exclusive
   * @param {Refused[]} leftOut Issuers and keys of the document that cannot be used
   * @param {Map<string, CertificateRoots>} [roots] of Issuers without listed keys; their chain signs SD-Cards and status lists
   */
  constructor(keys, statusKeys, expiresAt, leftOut, roots = new Map()) {
    this.keys = keys;
    this.statusKeys = statusKeys;
    this.expiresAt = expiresAt;
    this.leftOut = leftOut;
    this.roots = roots;
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
   * The one key that may have signed an SD-Card. A token cannot add an Issuer or a key, nor choose between keys and `x5c`.
   * @param {Json | undefined} issuer
   * @param {JsonObject} header
   * @param {number} now
   */
  async keyFor(issuer, header, now) {
    const keys = isText(issuer) ? this.keys.get(issuer) : undefined;
    if (!keys) throw new Refused("issuer.unknown", "issuer-jwt/iss", "Add the Issuer if you trust it.");
    const key = findKey(keys, header.get("kid"), header.get("alg")) ?? (await this.certified(String(issuer), header, now, "issuer-header"));
    if (!key) throw new Refused("issuer.key-unknown", "issuer-header/kid", "The Issuer is trusted, but this key is not listed.");
    return key;
  }

  /**
   * The one key that may sign a status list of this Issuer.
   * @param {string} issuer
   * @param {JsonObject} header
   * @param {number} now
   */
  async statusKeyFor(issuer, header, now) {
    const listed = findKey(this.statusKeys.get(issuer) ?? new Map(), header.get("kid"), header.get("alg"));
    const key = listed ?? (await this.certified(issuer, header, now, "status-list"));
    if (!key) throw new Refused("issuer.key-unknown", "status-list/kid", "Add the Issuer's status keys.");
    return key;
  }

  /**
   * Nothing without roots or without a chain.
   * @param {string} issuer
   * @param {JsonObject} header
   * @param {number} now
   * @param {string} where
   */
  async certified(issuer, header, now, where) {
    return header.has("x5c") ? this.roots.get(issuer)?.keyOf(issuer, header, checkInstant(now), where) : undefined;
  }

  /** @param {string} issuer */
  checkHasStatusKeys(issuer) {
    if (!this.statusKeys.get(issuer)?.size && !this.roots.has(issuer)) throw new Refused("issuer.key-unknown", "status-list", "The Issuer has no status keys.");
  }
}

/**
 * Reads a trust document: `{"issuers": {"https://registry.example": {"keys": [JWK, …]}}}`, where an Issuer may have
 * `status_keys` too, and the document `exp`. Unusable Issuers and keys are in `leftOut`. With `certificates`, an Issuer may have
 * `x5c_roots` instead.
 * @param {string} text
 * @param {TrustOptions} [options]
 */
export async function parseTrustedIssuers(text, options = {}) {
  const { limits, certificates } = checkOptions(options);
  if (typeof text !== "string") throw new Misuse("a trust document is a JSON text");
  return readTrustedIssuers(parseJsonObject(utf8Of(text.replace(/^\ufeff/, ""), "trust"), "trust", limits.json_depth), certificates);
}

/** @param {TrustOptions} options */
function checkOptions(options) {
  checkNames(options, ["limits", "certificates"]);
  const { limits = DATA.limits, certificates } = options;
  if (certificates !== undefined && typeof certificates?.readRoots !== "function") throw new Misuse("certificates are those of @sd-card/verifier/x5c");
  return { limits, certificates };
}

/** @param {JsonObject} document @param {Certificates} [certificates] */
export async function readTrustedIssuers(document, certificates) {
  const issuers = document.get("issuers");
  if (!isObject(issuers) || issuers.size === 0) {
    throw new Refused("trust.malformed", "trust", "A trust document is an object with a member `issuers`, of one Issuer or more.");
  }
  /** @type {Map<string, Keys>} */
  const keys = new Map();
  /** @type {Map<string, Keys>} */
  const statusKeys = new Map();
  /** @type {Map<string, CertificateRoots>} */
  const roots = new Map();
  /** @type {Refused[]} */
  const leftOut = [];
  for (const [issuer, entry] of issuers) {
    const where = within("trust", "issuers", issuer);
    try {
      if (isObject(entry) && entry.has("x5c_roots")) {
        roots.set(issuer, readRoots(entry, where, certificates));
        keys.set(issuer, new Map());
        continue;
      }
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
  return new TrustedIssuers(keys, statusKeys, expiresAt, leftOut, roots);
}

/**
 * @param {JsonObject} entry
 * @param {string} where
 * @param {Certificates} [certificates]
 */
function readRoots(entry, where, certificates) {
  if (entry.has("keys") || entry.has("status_keys")) throw new Refused("trust.malformed", where, "An Issuer has keys or `x5c_roots`, not both.");
  if (!certificates) throw new Refused("trust.malformed", `${where}/x5c_roots`, "Give the reader of trust documents `certificates` of @sd-card/verifier/x5c.");
  return certificates.readRoots(entry.get("x5c_roots"), `${where}/x5c_roots`);
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
 * @param {TrustOptions} [options]
 */
export async function verifyTrustList(text, signers, now, options = {}) {
  const { limits, certificates } = checkOptions(options);
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
  const issuers = await readTrustedIssuers(jws.payload, certificates);
  issuers.checkCurrent(now);
  return issuers;
}
