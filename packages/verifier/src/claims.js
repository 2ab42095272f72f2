// Checks of claims: RFC 7519 4.1, RFC 9901 7.1 step 6 and 7.3, RFC 7800. As sdcard/jose/claims.py, acceptance.py and
// key_binding.py.
import { DATA } from "./data.js";
import { Misuse, Refused, codePoints, isNumber, isObject, isText, numberOf } from "./json.js";
import { digestText, readPublicJwk } from "./keys.js";

/** @import { Json, JsonObject } from "./json.js" */
/** @import { Arrived, Processed } from "./sd-jwt.js" */

/** @typedef {typeof DATA.profiles["sd-card"]} Profile */
/** @typedef {number | bigint} Seconds */

/** @param {unknown} value */
const isInYears = (value) => /** @type {any} */ (value) >= 0 && /** @type {any} */ (value) < DATA.max_instant + 1;
/** @param {Json | undefined} value */
export const isInstant = (value) => isNumber(value) && isInYears(numberOf(value));

/** `now`, if it is a number of Unix seconds from 1970 to 9999. @param {unknown} value */
export function checkInstant(value) {
  if (typeof value !== "number" || !isInYears(value)) throw new Misuse("`now` is a number of Unix seconds, from 1970 to 9999");
  return value;
}

/**
 * @param {Json | undefined} value
 * @param {string} where
 * @returns {number}
 */
export function numericDate(value, where) {
  if (!isNumber(value)) throw new Refused("claim.type", where, "A NumericDate is a JSON number.");
  if (!isInstant(value)) throw new Refused("claim.value", where, "A NumericDate is within the years 1970 to 9999.");
  return Number(numberOf(value));
}

/**
 * @param {JsonObject} claims
 * @param {string} name
 * @param {string} where
 */
export function textClaim(claims, name, where) {
  const value = claims.get(name);
  if (!isText(value)) throw new Refused("claim.type", `${where}/${name}`, "The claim must be a string.");
  if (!value) throw new Refused("claim.value", `${where}/${name}`, "The claim must not be empty.");
  return value;
}

/**
 * @param {JsonObject} claims
 * @param {string} name
 * @param {string} where
 * @returns {Json}
 */
export function required(claims, name, where) {
  const value = claims.get(name);
  if (value === undefined) throw new Refused("claim.missing", `${where}/${name}`);
  return value;
}

/**
 * @param {JsonObject} claims
 * @param {string} name
 * @param {string} where
 */
export function requiredText(claims, name, where) {
  const value = required(claims, name, where);
  if (!isText(value)) throw new Refused("claim.type", `${where}/${name}`, "The claim must be a single string.");
  return value;
}

// -- the Issuer's JWT -------------------------------------------------------------------------------------------------

/** Names of claims that no Holder may hide. @param {Profile} profile */
export const guardedBy = (profile) => [...new Set([...profile.required, ...DATA.never_selective])];

/**
 * RFC 9901 9.7, SD-JWT VC 2.2.2.2: a Holder cannot hide what decides whether a token is valid.
 * @param {JsonObject} payload
 * @param {Processed} processed
 * @param {string[]} guarded
 */
export function checkNotSelective(payload, processed, guarded) {
  const disclosed = processed.revealed.map((one) => String(one.place[0])).filter((name) => guarded.includes(name));
  const hiding = guarded.filter((name) => holdsDigests(payload.get(name) ?? null)).sort();
  for (const name of [...disclosed, ...hiding]) throw new Refused("claim.not-in-clear", `issuer-jwt/${name}`);
}

/** @param {Json} value @returns {boolean} */
function holdsDigests(value) {
  if (isObject(value)) return DATA.reserved_anywhere.some((name) => value.has(name)) || holdsDigests([...value.values()]);
  return Array.isArray(value) && value.some(holdsDigests);
}

/**
 * @param {JsonObject} claims
 * @param {string[]} names
 */
export function checkPresent(claims, names) {
  for (const name of names.toSorted()) required(claims, name, "issuer-jwt");
}

/**
 * @param {JsonObject} claims
 * @param {number} now
 * @param {string} where
 * @param {string} [hint]
 */
export function checkNotExpired(claims, now, where, hint) {
  if (claims.has("exp") && now >= numericDate(claims.get("exp"), `${where}/exp`)) throw new Refused("time.expired", `${where}/exp`, hint);
}

/**
 * @param {JsonObject} claims
 * @param {number} now
 * @param {string} where
 * @param {string} [hint]
 */
export function checkAlreadyValid(claims, now, where, hint) {
  if (claims.has("nbf") && now < numericDate(claims.get("nbf"), `${where}/nbf`)) throw new Refused("time.not-yet-valid", `${where}/nbf`, hint);
}

/**
 * @param {JsonObject} claims
 * @param {number} now
 * @param {string} where
 */
export function checkAlreadyIssued(claims, now, where) {
  if (claims.has("iat") && now < numericDate(claims.get("iat"), `${where}/iat`)) throw new Refused("time.issued-in-future", `${where}/iat`);
}

/**
 * @param {JsonObject} claims
 * @param {number} longest
 */
export function checkLifetime(claims, longest) {
  const [expires, issued] = ["exp", "iat"].map((name) => numericDate(claims.get(name), `issuer-jwt/${name}`));
  if (expires - issued > longest) throw new Refused("time.lifetime", "issuer-jwt/exp", `At most ${longest} s are accepted.`);
}

/**
 * @param {JsonObject} claims
 * @param {string} where
 * @returns {string[]}
 */
export function readAudiences(claims, where) {
  const value = claims.get("aud");
  const audiences = value === undefined ? [] : Array.isArray(value) ? value : [value];
  if (!audiences.every(isText)) throw new Refused("claim.type", `${where}/aud`);
  return audiences;
}

/**
 * @param {JsonObject} claims
 * @param {string | null} audience
 * @param {string} where
 */
export function checkAddressed(claims, audience, where) {
  if (claims.has("aud") && !readAudiences(claims, where).includes(/** @type {string} */ (audience))) throw new Refused("audience.mismatch", `${where}/aud`);
}

/**
 * @param {JsonObject} claims
 * @param {Profile} profile
 */
export function checkVct(claims, profile) {
  if (claims.has("vct") && !profile.accepted_vcts.includes(textClaim(claims, "vct", "issuer-jwt"))) {
    throw new Refused("profile.vct", "issuer-jwt/vct", `Profile: ${profile.name}.`);
  }
}

/** RFC 7800 3.1: one key, in one form. @param {JsonObject} claims */
export async function readConfirmation(claims) {
  const cnf = claims.get("cnf");
  const jwk = isObject(cnf) ? cnf.get("jwk") : undefined;
  if (!isObject(cnf) || !isObject(jwk) || jwk.size === 0) throw new Refused("cnf.malformed", "issuer-jwt/cnf");
  const others = DATA.unchecked_confirmations;
  if (others.some((name) => cnf.has(name))) {
    throw new Refused("cnf.malformed", "issuer-jwt/cnf", `Remove ${others.join(", ")} from cnf: each could name a second key.`);
  }
  if (cnf.has("kid") && !isText(cnf.get("kid"))) throw new Refused("cnf.malformed", "issuer-jwt/cnf", "A `kid` is a string.");
  const key = await readPublicJwk(jwk, "issuer-jwt/cnf/jwk");
  if (cnf.has("jkt") && cnf.get("jkt") !== key.thumbprint) {
    throw new Refused("cnf.malformed", "issuer-jwt/cnf", "`jkt` is not the thumbprint of the key in `jwk`.");
  }
  return key;
}

const MOST_CHECKS = 16;
const CHECKS = "issuer-jwt/issuer_checks";

/** A list of codes of checks, each once. @param {unknown} codes @returns {codes is readonly string[]} */
const areChecks = (codes) =>
  Array.isArray(codes) && codes.length <= MOST_CHECKS && codes.every((code) => isText(code) && /^[a-z][a-z0-9-]{0,31}$/.test(code)) && new Set(codes).size === codes.length;

/** @param {unknown} codes */
export function checkCodes(codes) {
  if (!areChecks(codes)) throw new Misuse(`checks are at most ${MOST_CHECKS} codes such as domain, each once`);
}

/** What the Issuer checked, also codes of other registries; null without the claim. @param {JsonObject} claims */
export function readIssuerChecks(claims) {
  const codes = claims.get("issuer_checks");
  if (codes === undefined) return null;
  if (!Array.isArray(codes) || !codes.every(isText)) throw new Refused("claim.type", CHECKS, "The claim must be a list of strings.");
  if (!areChecks(codes)) throw new Refused("claim.value", CHECKS, `It has at most ${MOST_CHECKS} codes such as domain, each once.`);
  return codes;
}

/**
 * Refuses for all these reasons, and for each required check that the Issuer does not confirm.
 * @param {Refused[]} found
 * @param {readonly string[] | null} confirmed an Issuer without the claim confirms nothing
 * @param {readonly string[]} required
 */
export function refuseMissing(found, confirmed, required) {
  const missing = required.toSorted().filter((code) => !confirmed?.includes(code));
  const [first, ...others] = [...found, ...missing.map((code) => new Refused("policy.check-missing", CHECKS, `Required: ${code}.`))];
  if (first) throw new Refused(first.rule, first.where, first.hint, others.flatMap((one) => one.findings));
}

// -- the KB-JWT -------------------------------------------------------------------------------------------------------

/**
 * @param {JsonObject} claims
 * @param {{ past: number, future: number }} window
 * @param {number} now
 */
export function checkFreshness(claims, window, now) {
  const issued = numericDate(required(claims, "iat", "kb-jwt"), "kb-jwt/iat");
  if (issued < now - window.past) throw new Refused("kb.stale", "kb-jwt/iat");
  if (issued > now + window.future) throw new Refused("kb.from-future", "kb-jwt/iat");
  return issued;
}

/**
 * @param {JsonObject} claims
 * @param {string | null} expected null where the Holder chose it
 */
export function checkNonce(claims, expected) {
  const nonce = requiredText(claims, "nonce", "kb-jwt");
  if (!nonce || codePoints(nonce) > DATA.max_nonce_length) {
    throw new Refused("claim.value", "kb-jwt/nonce", `A nonce has 1 to ${DATA.max_nonce_length} characters.`);
  }
  if (expected !== null && nonce !== expected) throw new Refused("kb.nonce-mismatch", "kb-jwt/nonce");
  return nonce;
}

/** A nonce for a called agent counts in no other role (RFC 9901 9.5). @param {string} nonce */
export function checkPurpose(nonce) {
  if (nonce.startsWith(DATA.agent_nonce)) throw new Refused("kb.purpose", "kb-jwt/nonce");
}

/**
 * @param {JsonObject} claims
 * @param {string | null} expected
 */
export function checkAudience(claims, expected) {
  const audience = requiredText(claims, "aud", "kb-jwt");
  if (expected !== null && audience !== expected) throw new Refused("kb.audience-mismatch", "kb-jwt/aud");
}

/** What the `sd_hash` of a presentation covers. @param {{ issuerJwt: string, disclosures: readonly string[] }} shown */
export const boundText = ({ issuerJwt, disclosures }) => `${[issuerJwt, ...disclosures].join("~")}~`;

/**
 * @param {JsonObject} claims
 * @param {Arrived} arrived
 * @param {string} algorithm
 */
export async function checkSdHash(claims, arrived, algorithm) {
  if (requiredText(claims, "sd_hash", "kb-jwt") !== (await digestText(algorithm, boundText(arrived)))) {
    throw new Refused("kb.sd-hash", "kb-jwt/sd_hash");
  }
}

/**
 * @param {JsonObject} claims
 * @param {string | null} expected
 */
export function checkInteraction(claims, expected) {
  const given = claims.has("interaction_id") ? requiredText(claims, "interaction_id", "kb-jwt") : null;
  if (expected !== null && given !== expected) throw new Refused("kb.interaction-id", "kb-jwt/interaction_id");
  return given;
}
