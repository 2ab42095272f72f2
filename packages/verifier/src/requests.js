// Claim requests, what a card shows of them, and admission. As sdcard/claim_request.py, requesting.py and admission.py.
import { checkCodes, refuseMissing } from "./claims.js";
import { FORMATS, newScope, readEntry } from "./formats.js";
import { Misuse, Refused, checkNames, codePoints, isObject, isText, within } from "./json.js";
import { ClaimPath } from "./paths.js";
import { TrustedIssuers } from "./trust.js";

/** @import { Json, JsonObject } from "./json.js" */
/** @import { Format, Scope } from "./formats.js" */
/** @import { Place } from "./sd-jwt.js" */
/** @import { VerifiedCard } from "./verifier.js" */

/** @typedef {{ members: JsonObject, emptied: Place[], format: Format | null }} Shown what a card discloses */

const MOST_ENTRIES = 32;
const MOST_CHARACTERS = 128;

/** The claims that a Verifier asks for: paths such as `provider`, or groups such as `endpoints`. No entry has an index. */
export class ClaimRequest {
  /** @param {readonly string[]} texts */
  constructor(texts) {
    let entries;
    try {
      entries = parseEntries(texts, "challenge/requested");
    } catch (problem) {
      throw problem instanceof Refused ? new Misuse(`a request lists claim paths: ${problem.hint}`) : problem;
    }
    /** @type {readonly ClaimPath[]} */
    this.entries = entries;
  }

  /** Reads the texts of a challenge. @param {readonly Json[]} texts @param {string} where */
  static parse(texts, where) {
    return new ClaimRequest(parseEntries(texts, where).map(String));
  }
}

/**
 * @param {readonly unknown[]} texts
 * @param {string} where
 */
function parseEntries(texts, where) {
  const entries = texts.map((text, number) => {
    if (!isText(text) || codePoints(text) > MOST_CHARACTERS) throw new Refused("challenge.malformed", `${where}/${number}`, `A requested claim is a text of at most ${MOST_CHARACTERS} characters.`);
    return ClaimPath.parse(text, `${where}/${number}`);
  });
  const problem = problemOf(entries);
  if (problem) throw new Refused("challenge.malformed", where, problem);
  return entries;
}

/** @param {ClaimPath[]} entries */
function problemOf(entries) {
  if (entries.length > MOST_ENTRIES || entries.some((entry) => codePoints(String(entry)) > MOST_CHARACTERS)) {
    return `A request has at most ${MOST_ENTRIES} claim paths of at most ${MOST_CHARACTERS} characters.`;
  }
  if (entries.some((entry) => entry.segments[0] === null)) return "A requested path begins with a member's name.";
  if (entries.some((entry) => entry.segments.some((segment) => typeof segment === "number"))) return "A requested path has member names and `*`, and no index.";
  return new Set(entries.map((entry) => entry.key)).size < entries.length ? "A claim is requested once." : "";
}

// -- what is shown ----------------------------------------------------------------------------------------------------

/**
 * The places of an entry in cards of a format; the path itself without one.
 * @param {ClaimPath} entry
 * @param {Format | null} format
 * @returns {Scope}
 */
export function scopeOf(entry, format) {
  const [first] = entry.segments;
  if (format === null || (entry.segments.length > 1 && !(isText(first) && format.groups.has(first)))) return newScope("", [entry], [], false);
  return readEntry(String(entry), format, "challenge/requested");
}

/**
 * Whether the card shows something there. A group is shown if its main claim is, such as an id of `skills`.
 * @param {Shown} shown
 * @param {ClaimPath} entry
 */
function isShown(shown, entry) {
  const scope = scopeOf(entry, shown.format);
  let { paths } = scope;
  if (scope.isGroup && shown.format) {
    const facts = [...shown.format.facts.values()].flat().filter((fact) => scope.paths.some((path) => path.includes(fact)));
    if (facts.length > 0) paths = facts;
  }
  const step = (/** @type {Json | undefined} */ value, /** @type {string | number} */ name) =>
    isObject(value) ? value.get(String(name)) : Array.isArray(value) ? value[Number(name)] : undefined;
  const emptied = new Set(shown.emptied.map((place) => place.reduce(step, /** @type {Json | undefined} */ (shown.members))));
  return paths.some((path) => path.parts(shown.members).some(([, value]) => isSomething(value, emptied)));
}

/**
 * An emptied object or array shows nothing.
 * @param {Json} value
 * @param {Set<Json | undefined>} emptied
 * @returns {boolean}
 */
function isSomething(value, emptied) {
  if (emptied.has(value)) return false;
  if (isObject(value) && value.size > 0) return [...value.values()].some((inner) => isSomething(inner, emptied));
  if (Array.isArray(value) && value.length > 0) return value.some((inner) => isSomething(inner, emptied));
  return true;
}

/**
 * The requested claims that are not shown: withheld or absent.
 * @param {Shown} shown
 * @param {ClaimRequest} request
 */
export const undisclosed = (shown, request) => request.entries.filter((entry) => !isShown(shown, entry)).map(String);

// -- SPIFFE IDs, as sdcard/spiffe.py ----------------------------------------------------------------------------------

const SPIFFE_ID = /^(?=.{1,2048}$)spiffe:\/\/[a-z0-9._-]{1,255}(\/(?!\.\.?(\/|$))[\w.-]+)+$/;

/**
 * Whether a value is a SPIFFE ID that an entry names.
 * @param {Json | undefined} value
 * @param {readonly string[]} entries
 */
const isCovered = (value, entries) =>
  isText(value) && SPIFFE_ID.test(value) && entries.some((one) => value === one || (one.endsWith("/") && value.startsWith(one)));

// -- admission --------------------------------------------------------------------------------------------------------

/**
 * @typedef {object} Demands of a route; all but `alsoRequested` are decisions
 * @property {TrustedIssuers} issuers
 * @property {readonly string[]} formats accepted values of `format`, such as a2a/1.0
 * @property {{ claims?: readonly string[], skills?: readonly string[], checks?: readonly string[], spiffeIds?: readonly string[] } | { nothing: string }} requires
 *   claims and ids of skills that must be shown, codes of checks that the Issuer must confirm, and SPIFFE IDs of which one
 *   must be shown, where a last slash stands for all ids beneath; or the reason why nothing is required
 * @property {readonly string[]} [alsoRequested] optional claims that the route asks for
 */

/** The verified cards that a route admits. It only requires claims to be shown, so hiding a claim never helps a caller. */
export class AdmissionPolicy {
  /** @param {Demands} demands */
  constructor({ issuers, formats, requires, alsoRequested = [] }) {
    if (!(issuers instanceof TrustedIssuers)) throw new Misuse("issuers are TrustedIssuers");
    if (!Array.isArray(formats) || formats.length === 0 || !formats.every((name) => FORMATS.has(name))) throw new Misuse(`formats are some of ${[...FORMATS.keys()].join(", ")}`);
    const given = /** @type {{ claims?: readonly string[], skills?: readonly string[], checks?: readonly string[], spiffeIds?: readonly string[], nothing?: string }} */ (requires ?? {});
    checkNames(given, ["claims", "skills", "checks", "spiffeIds", "nothing"]);
    const { claims = [], skills = [], checks = [], spiffeIds = [], nothing } = given;
    const isNothing = claims.length + skills.length + checks.length + spiffeIds.length === 0;
    if (isNothing !== (typeof nothing === "string" && nothing.trim() !== "")) throw new Misuse("decide what is required: claims, skills, checks, spiffeIds, or { nothing: \"why\" }");
    if (!skills.every((skill) => isText(skill) && skill) || !spiffeIds.every((one) => SPIFFE_ID.test(one.endsWith("/") ? `${one}a` : one))) throw new Misuse("skills and spiffeIds are ids");
    checkCodes(checks);
    this.issuers = issuers;
    this.formats = formats;
    this.skills = skills;
    this.checks = checks;
    this.spiffeIds = spiffeIds;
    this.required = new ClaimRequest(claims);
    const ids = skills.length > 0 ? formats.toSorted().flatMap((name) => skillPaths(FORMATS.get(name) ?? null).map(String)) : [];
    /** What Holders are asked to show. */
    this.request = new ClaimRequest([...new Set([...this.required.entries.map(String), ...ids, ...(spiffeIds[0] ? ["spiffe_id"] : []), ...new ClaimRequest(alsoRequested).entries.map(String)])]);
  }

  /**
   * Refuses a verified card that is not admitted, with all reasons.
   * @param {VerifiedCard} card
   */
  check(card) {
    const found = [];
    if (!this.issuers.lists(card.issuer)) found.push(new Refused("issuer.unknown", "issuer-jwt/iss"));
    if (!this.formats.includes(card.format ?? "")) found.push(new Refused("policy.format", "issuer-jwt/card_format", `Admitted: ${this.formats.toSorted().join(", ")}.`));
    for (const entry of this.required.entries) {
      if (!isShown(card.shown, entry)) found.push(new Refused("policy.claim-missing", within("card", ...entry.segments.map((one) => one ?? "*"))));
    }
    const paths = skillPaths(FORMATS.get(card.format ?? "") ?? null);
    const shown = paths.flatMap((path) => path.parts(card.shown.members).map(([, value]) => value));
    const where = within("card", ...(paths[0]?.segments ?? []).map((one) => one ?? "*"));
    for (const skill of this.skills) {
      if (!shown.includes(skill)) found.push(new Refused("policy.skill-missing", where, `Required: ${skill}.`));
    }
    if (this.spiffeIds.length > 0 && !isCovered(card.shown.members.get("spiffe_id"), this.spiffeIds)) found.push(new Refused("policy.spiffe-id-missing", "card/spiffe_id"));
    refuseMissing(found, card.issuerChecks, this.checks);
  }
}

/** @param {Format | null} format @returns {ClaimPath[]} */
const skillPaths = (format) => format?.facts.get("skill") ?? [];
