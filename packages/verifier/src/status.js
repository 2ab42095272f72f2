// Token Status List: the `status` claim (6), and status list tokens (5, 8.3). As sdcard/status_list.py.
import { DATA } from "./data.js";
import { checkAddressed, checkAlreadyIssued, checkAlreadyValid, checkInstant, checkNotExpired, numericDate, required } from "./claims.js";
import { inflate } from "./inflate.js";
import { Misuse, Refused, checkText, codePoints, decodeBase64url, isInteger, isObject, isText } from "./json.js";
import { parseJws, verifyJws } from "./sd-jwt.js";

/** @import { Json, JsonObject } from "./json.js" */
/** @import { PublicKey } from "./keys.js" */
/** @import { Limits } from "./sd-jwt.js" */

/** @typedef {{ uri: string, index: number | bigint }} StatusReference */
/** @typedef {{ bits: number, packed: Uint8Array }} StatusList */
/**
 * @typedef {object} StatusSource
 * @property {(reference: StatusReference, issuer: string, now: number) => Promise<unknown> | unknown} status
 *   the status value of an entry; only the Issuer's own lists count. Throws `Refused("status.unavailable", …)`.
 */

/** @param {Json | undefined} value @returns {StatusReference} */
export function readStatus(value) {
  const entry = isObject(value) ? value.get("status_list") : undefined;
  const [uri, index] = isObject(entry) ? [entry.get("uri"), entry.get("idx")] : [];
  if (isText(uri) && uri && isInteger(index) && index >= 0) return { uri, index };
  throw new Refused("status.malformed", "issuer-jwt/status");
}

/** Refuses every status value except VALID. @param {unknown} value */
export function checkStatusValue(value) {
  if (value === 1) throw new Refused("status.revoked", "issuer-jwt/status");
  if (value === 2) throw new Refused("status.suspended", "issuer-jwt/status");
  if (value !== 0) throw new Refused("status.unavailable", "issuer-jwt/status", value === null ? "The list has no such entry." : "The status value is unknown.");
}

/**
 * @param {string} text
 * @param {Limits} limits
 */
export function parseStatusListToken(text, limits) {
  if (typeof text !== "string") throw new Misuse("a status list token is a string");
  const most = 2 * limits.status_list_bytes;
  if (text.length > 2 * most || codePoints(text) > most) throw new Refused("limit.bytes", "status-list");
  if (!/^[\0-\x7f]*$/.test(text)) throw new Refused("jws.format", "status-list");
  return parseJws(text, "status-list", "status-list", limits.json_depth);
}

/**
 * @param {JsonObject} claims
 * @param {string | null} uri null for a list by itself
 * @param {number} now
 * @param {number} skew seconds that `iat` and `nbf` may be ahead
 */
export function checkListClaims(claims, uri, now, skew) {
  const subject = required(claims, "sub", "status-list");
  if (uri !== null && subject !== uri) throw new Refused("status-list.other", "status-list/sub");
  checkAddressed(claims, null, "status-list");
  checkAlreadyValid(claims, now + skew, "status-list");
  numericDate(required(claims, "iat", "status-list"), "status-list/iat");
  checkAlreadyIssued(claims, now + skew, "status-list");
  checkNotExpired(claims, now, "status-list");
  return readTtl(claims);
}

/** The positive number of seconds in `ttl`; null if absent. @param {JsonObject} claims */
function readTtl(claims) {
  if (!claims.has("ttl")) return null;
  const ttl = numericDate(claims.get("ttl"), "status-list/ttl");
  if (!(ttl > 0)) throw new Refused("claim.value", "status-list/ttl", "A positive number of seconds is expected.");
  return ttl;
}

/**
 * @param {JsonObject} claims
 * @param {Limits} limits
 * @returns {StatusList}
 */
export function readStatusList(claims, limits) {
  const where = "status-list/status_list";
  const value = required(claims, "status_list", "status-list");
  const [bits, text] = isObject(value) ? [value.get("bits"), value.get("lst")] : [];
  if (typeof bits !== "number" || ![1, 2, 4, 8].includes(bits) || !isText(text)) throw new Refused("status-list.malformed", where);
  return { bits, packed: inflate(decodeBase64url(text, `${where}/lst`), `${where}/lst`, limits.status_list_bytes) };
}

/**
 * The status at an index; null beyond the end.
 * @param {StatusList} list
 * @param {number | bigint} index
 */
export function statusAt(list, index) {
  const perByte = 8 / list.bits;
  if (!(index >= 0 && index < list.packed.length * perByte && Number.isInteger(Number(index)))) return null;
  const at = Number(index);
  return (list.packed[Math.floor(at / perByte)] >> ((at % perByte) * list.bits)) & ((1 << list.bits) - 1);
}

/**
 * Verifies a status list token, in the order of Token Status List 8.3.
 * @param {string} text
 * @param {string} uri the list that the SD-Card names: `sub` is exactly this
 * @param {PublicKey} key
 * @param {number} now Unix seconds
 * @param {{ limits?: Limits, clockSkew?: number }} [options]
 */
export async function verifyStatusListToken(text, uri, key, now, { limits = DATA.limits, clockSkew = 0 } = {}) {
  if (!(clockSkew >= 0 && clockSkew <= DATA.max_skew)) throw new Misuse(`a clock skew is 0 to ${DATA.max_skew} seconds`);
  if (typeof uri !== "string") throw new Misuse("the address of a status list is a string");
  const jws = parseStatusListToken(text, limits);
  await verifyJws(jws, key, [DATA.status_typ]);
  const claims = jws.payload;
  const ttl = checkListClaims(claims, uri, checkInstant(now), clockSkew);
  const list = readStatusList(claims, limits);
  const expiresAt = claims.has("exp") ? numericDate(claims.get("exp"), "status-list/exp") : null;
  const issuedAt = numericDate(claims.get("iat"), "status-list/iat");
  return { issuedAt, expiresAt, ttl, size: (list.packed.length * 8) / list.bits, status: (/** @type {number | bigint} */ index) => statusAt(list, index) };
}

// -- the decision -----------------------------------------------------------------------------------------------------

/** Ask `source` for the status of an SD-Card that has one. No answer refuses. */
export class Checked {
  /** @param {StatusSource} source */
  constructor(source) {
    if (typeof source?.status !== "function") throw new Misuse("a status source has a method `status`");
    this.source = source;
  }
}

/** The status is not checked; the reason is part of the result. */
export class Unchecked {
  /** @param {string} reason */
  constructor(reason) {
    this.reason = checkText("the reason why the status is not checked", reason);
  }
}

/** @param {unknown} decision */
export function checkStatusDecision(decision) {
  if (!(decision instanceof Checked || decision instanceof Unchecked)) throw new Misuse("decide about the status: Checked or Unchecked");
}
