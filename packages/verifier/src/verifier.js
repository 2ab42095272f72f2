// Verification of presentations of SD-Cards: RFC 9901 7.1 and 7.3, in the order of sdcard/verifier.py.
import { DATA } from "./data.js";
import { checkAddressed, checkAlreadyIssued, checkAlreadyValid, checkAudience, checkCodes, checkFreshness, checkInstant, checkInteraction, checkLifetime, checkNonce, checkNotExpired, checkNotSelective, checkPresent, checkPurpose, checkSdHash, checkVct, guardedBy, isInstant, numericDate, readAudiences, readConfirmation, readIssuerChecks, refuseMissing, requiredText, textClaim } from "./claims.js";
import { Challenge, checkWindow } from "./challenges.js";
import { formatNamed } from "./formats.js";
import { Misuse, Refused, checkNames, checkText, plainJson } from "./json.js";
import { checkNotPublished } from "./keys.js";
import { ClaimRequest, undisclosed } from "./requests.js";
import { parseJws, parseSdJwt, processPayload, verifyJws } from "./sd-jwt.js";
import { Checked, Unchecked, checkStatusDecision, checkStatusValue, readStatus } from "./status.js";
import { TrustedIssuers } from "./trust.js";

/** @import { JsonObject } from "./json.js" */
/** @import { PublicKey } from "./keys.js" */
/** @import { Arrived, Limits, Processed } from "./sd-jwt.js" */
/** @import { StatusReference } from "./status.js" */
/** @import { ChallengeRecord, ReplayRecord, Window } from "./challenges.js" */

/** The Holder must answer this challenge. `record` lets it be answered once. */
export class Answering {
  /**
   * @param {Challenge} challenge
   * @param {ChallengeRecord} record
   */
  constructor(challenge, record) {
    if (!(challenge instanceof Challenge)) throw new Misuse("a Holder answers a Challenge");
    if (typeof record?.consume !== "function") throw new Misuse("a record of challenges has a method `consume`");
    this.challenge = challenge;
    this.record = record;
  }
}

/** The Holder chose the nonce. `record` stores it while the answer is fresh. */
export class Unsolicited {
  /**
   * @param {string} audience
   * @param {ReplayRecord} record
   * @param {{ window?: Partial<Window>, interactionId?: string | null }} [terms]
   */
  constructor(audience, record, terms = {}) {
    checkNames(terms, ["window", "interactionId"]);
    const { window, interactionId = null } = terms;
    if (typeof record?.firstUse !== "function") throw new Misuse("a record of uses has a method `firstUse`");
    this.audience = checkText("an audience", audience);
    this.record = record;
    this.window = checkWindow(window);
    this.interactionId = interactionId === null ? null : checkText("an interaction id", interactionId);
  }
}

/** No KB-JWT is expected, and a KB-JWT is refused. The reason is part of the result. */
export class Unbound {
  /** @param {string} reason */
  constructor(reason) {
    this.reason = checkText("the reason why no key binding is expected", reason);
  }
}

/**
 * @typedef {object} Acceptance the terms on which an SD-Card is accepted
 * @property {TrustedIssuers} issuers
 * @property {string} [profile] `sd-card` (the default) or `agent-sd-jwt-02`
 * @property {number} [clockSkew] permitted difference of an Issuer's clock, 0 to 60 seconds; 0 when absent
 * @property {number | null} [maxLifetime] the most seconds from `iat` to `exp`; no bound when absent
 * @property {readonly string[]} [publishedKeys] thumbprints of keys whose private half is public, or 10 characters of each
 * @property {Partial<Limits>} [limits]
 * @property {readonly string[]} [requiredChecks] codes of checks that the Issuer must confirm, such as `domain`
 */
/**
 * @typedef {object} Decisions
 * @property {Answering | Unsolicited | Unbound} keyBinding
 * @property {Checked | Unchecked} status
 * @property {ClaimRequest} [requested] the claims that the Holder was asked to show
 */
/** @typedef {Acceptance & Decisions} Expectations a Verifier's demands */
/** @typedef {{ issuers: TrustedIssuers, profile: import("./claims.js").Profile, clockSkew: number, maxLifetime: number | null, publishedKeys: readonly string[], limits: Limits, requiredChecks: readonly string[] }} Terms */

export const TERMS = ["issuers", "profile", "clockSkew", "maxLifetime", "publishedKeys", "limits", "requiredChecks"];

/** @param {Partial<Limits>} [limits] @returns {Limits} */
function checkLimits(limits = {}) {
  checkNames(limits, Object.keys(DATA.limits));
  const checked = { ...DATA.limits, ...limits };
  for (const [name, bound] of Object.entries(checked)) {
    if (!Number.isInteger(bound) || bound < 0) throw new Misuse(`${name} is a whole number from 0 on`);
  }
  if (checked.json_depth > DATA.deepest) throw new Misuse(`json_depth is at most ${DATA.deepest}`);
  return checked;
}

/**
 * @param {Acceptance} given
 * @returns {Terms}
 */
export function checkTerms(given) {
  const { issuers, profile = "sd-card", clockSkew = 0, maxLifetime = null, publishedKeys = DATA.published_keys, requiredChecks = [] } = given;
  if (!(issuers instanceof TrustedIssuers)) throw new Misuse("issuers are TrustedIssuers, as parseTrustedIssuers returns them");
  if (!Object.hasOwn(DATA.profiles, profile)) throw new Misuse(`a profile is one of ${Object.keys(DATA.profiles).join(", ")}`);
  if (typeof clockSkew !== "number" || !(clockSkew >= 0 && clockSkew <= DATA.max_skew)) throw new Misuse(`a clock skew is 0 to ${DATA.max_skew} seconds`);
  if (maxLifetime !== null && !(typeof maxLifetime === "number" && maxLifetime > 0 && isInstant(maxLifetime))) throw new Misuse("a longest lifetime is a number of seconds above 0");
  if (!Array.isArray(publishedKeys) || !publishedKeys.every((one) => typeof one === "string" && one.length >= 10)) throw new Misuse("published keys are thumbprints");
  checkCodes(requiredChecks);
  return { issuers, profile: DATA.profiles[profile], clockSkew, maxLifetime, publishedKeys, limits: checkLimits(given.limits), requiredChecks };
}

/**
 * @typedef {object} IssuedCard a verified SD-Card, without its KB-JWT
 * @property {Arrived} arrived
 * @property {Processed} processed
 * @property {PublicKey} holderKey
 * @property {string} issuer
 * @property {string} subject
 * @property {number} issuedAt
 * @property {number} expiresAt
 * @property {string | null} vct
 * @property {number | null} notBefore
 * @property {readonly string[]} audience
 * @property {string | null} tokenId
 * @property {string | null} declaredFormat
 * @property {readonly string[] | null} issuerChecks
 */

/**
 * RFC 9901 7.1 and the profile, in order.
 * @param {Arrived} arrived
 * @param {Terms} terms
 * @param {number} now
 * @param {string | null} audience the Verifier, which an `aud` claim must name; null for a Holder
 * @returns {Promise<IssuedCard>}
 */
export async function checkIssued(arrived, terms, now, audience) {
  const { issuers, profile, clockSkew, limits } = terms;
  issuers.checkCurrent(now);
  const jws = parseJws(arrived.issuerJwt, "issuer-header", "issuer-jwt", limits.json_depth);
  const key = await issuers.keyFor(jws.payload.get("iss"), jws.header, now);
  checkNotPublished(key, terms.publishedKeys, "issuer-header/kid");
  await verifyJws(jws, key, profile.accepted_types);
  const processed = await processPayload(jws.payload, arrived.disclosures, limits);
  const { claims } = processed;
  checkNotSelective(jws.payload, processed, guardedBy(profile));
  checkPresent(claims, profile.required);
  checkNotExpired(claims, now - clockSkew, "issuer-jwt");
  checkAlreadyValid(claims, now + clockSkew, "issuer-jwt");
  checkAlreadyIssued(claims, now + clockSkew, "issuer-jwt");
  checkAddressed(claims, audience, "issuer-jwt");
  if (terms.maxLifetime !== null) checkLifetime(claims, terms.maxLifetime);
  checkVct(claims, profile);
  const holderKey = await readConfirmation(claims);
  checkNotPublished(holderKey, terms.publishedKeys, "issuer-jwt/cnf/jwk");
  const read = readClaims(claims);
  refuseMissing([], read.issuerChecks, terms.requiredChecks);
  return { arrived, processed, holderKey, ...read };
}

/** @param {JsonObject} claims */
function readClaims(claims) {
  /** @template T @param {string} name @param {() => T} read */
  const ifThere = (name, read) => (claims.has(name) ? read() : null);
  return {
    issuer: textClaim(claims, "iss", "issuer-jwt"),
    subject: textClaim(claims, "sub", "issuer-jwt"),
    issuedAt: numericDate(claims.get("iat"), "issuer-jwt/iat"),
    expiresAt: numericDate(claims.get("exp"), "issuer-jwt/exp"),
    vct: ifThere("vct", () => textClaim(claims, "vct", "issuer-jwt")),
    notBefore: ifThere("nbf", () => numericDate(claims.get("nbf"), "issuer-jwt/nbf")),
    audience: readAudiences(claims, "issuer-jwt"),
    tokenId: ifThere("jti", () => requiredText(claims, "jti", "issuer-jwt")),
    declaredFormat: ifThere("card_format", () => textClaim(claims, "card_format", "issuer-jwt")),
    issuerChecks: readIssuerChecks(claims),
  };
}

/** The claims that are members of the card. @param {JsonObject} claims @returns {JsonObject} */
export const cardMembers = (claims) => new Map([...claims].filter(([name]) => !DATA.reserved_at_top.includes(name)));

/** @typedef {{ holderKey: PublicKey, issuedAt: number, audience: string, nonce: string, interactionId: string | null }} Bound a verified KB-JWT */

/**
 * RFC 9901 7.3 step 5, in order.
 * @param {IssuedCard} issued
 * @param {Answering | Unsolicited} expected
 * @param {number} now
 * @param {Limits} limits
 * @returns {Promise<Bound>}
 */
async function verifyKeyBinding({ arrived, holderKey, processed }, expected, now, limits) {
  const terms = expected instanceof Answering ? expected.challenge : expected;
  const jws = parseJws(/** @type {string} */ (arrived.kbJwt), "kb-header", "kb-jwt", limits.json_depth);
  await verifyJws(jws, holderKey, [DATA.kb_typ]);
  const claims = jws.payload;
  const issuedAt = checkFreshness(claims, terms.window, now);
  const nonce = checkNonce(claims, expected instanceof Answering ? expected.challenge.nonce : null);
  if (expected instanceof Unsolicited) checkPurpose(nonce);
  checkAudience(claims, terms.audience);
  await checkSdHash(claims, arrived, processed.algorithm);
  const interactionId = checkInteraction(claims, terms.interactionId);
  checkNotExpired(claims, now, "kb-jwt", "The KB-JWT has expired.");
  checkAlreadyValid(claims, now, "kb-jwt", "The KB-JWT is not valid yet.");
  return { holderKey, issuedAt, audience: terms.audience, nonce, interactionId };
}

/**
 * @param {Bound} bound
 * @param {Answering | Unsolicited} expected
 * @param {number} now
 */
async function checkSingleUse(bound, expected, now) {
  const use = { holder: bound.holderKey.thumbprint, audience: bound.audience, nonce: bound.nonce };
  checkFirstUse(await (expected instanceof Answering ? expected.record.consume(expected.challenge, now) : expected.record.firstUse(use, bound.issuedAt + DATA.window.past, now)));
}

/** Refuses every answer of a record except true. @param {unknown} first */
export function checkFirstUse(first) {
  if (first !== true) throw new Refused("kb.replayed", "kb-jwt/nonce");
}

/** A verified card: its disclosed members, and what the Issuer and the Holder signed. */
export class VerifiedCard {
  /** @type {import("./requests.js").Shown} */
  #shown;

  /**
   * @param {IssuedCard} issued
   * @param {Bound | Unbound} keyBinding
   * @param {StatusReference | null} statusReference
   * @param {Checked | Unchecked} status
   * @param {ClaimRequest} requested
   */
  constructor(issued, keyBinding, statusReference, status, requested) {
    const members = cardMembers(issued.processed.claims);
    this.issuer = issued.issuer;
    this.subject = issued.subject;
    /** Unix seconds. */
    this.issuedAt = issued.issuedAt;
    this.expiresAt = issued.expiresAt;
    this.notBefore = issued.notBefore;
    this.vct = issued.vct;
    this.audience = issued.audience;
    this.tokenId = issued.tokenId;
    /** Codes of what the Issuer checked before it signed; null if it does not say. */
    this.issuerChecks = issued.issuerChecks;
    /** The key that the SD-Card is bound to. */
    this.holderKey = { algorithm: issued.holderKey.algorithm, jwk: issued.holderKey.jwk, thumbprint: issued.holderKey.thumbprint };
    /** The verified KB-JWT, or `Unbound` with the Verifier's reason. */
    this.keyBinding = keyBinding instanceof Unbound ? keyBinding : { issuedAt: keyBinding.issuedAt, audience: keyBinding.audience, nonce: keyBinding.nonce, interactionId: keyBinding.interactionId };
    /** Why the status was not checked; null if it was. */
    this.statusUnchecked = status instanceof Unchecked ? status.reason : null;
    this.statusReference = statusReference;
    /** Digests without a Disclosure: decoys and withheld members, which cannot be told apart. */
    this.hidden = issued.processed.hidden.length;
    this.declaredFormat = issued.declaredFormat;
    const format = formatNamed(issued.declaredFormat, members);
    /** Such as a2a/1.0. Within a declared family, the disclosed members decide the version. */
    this.format = format?.name ?? issued.declaredFormat;
    /** The disclosed members. Objects have no prototype; an integer beyond 2^53 is a BigInt. @type {Readonly<Record<string, any>>} */
    this.members = plainJson(members);
    this.#shown = { members, emptied: issued.processed.emptied, format };
    /** The requested claims that are not shown: withheld or absent. */
    this.undisclosed = undisclosed(this.#shown, requested);
  }

  /** The disclosed members as exact JSON values, the places that are empty because digests were removed, and the format. */
  get shown() {
    return this.#shown;
  }
}

/**
 * Verifies a presentation, or refuses all of it with the first rule that is broken.
 * @param {string} presentation an SD-JWT or SD-JWT+KB, compact or in a JSON form
 * @param {Expectations} expectations
 * @param {number} now Unix seconds
 * @returns {Promise<VerifiedCard>}
 */
export async function verifyPresentation(presentation, expectations, now) {
  checkNames(expectations, [...TERMS, "keyBinding", "status", "requested"]);
  const { keyBinding, status, requested = new ClaimRequest([]), ...acceptance } = expectations;
  if (!(keyBinding instanceof Answering || keyBinding instanceof Unsolicited || keyBinding instanceof Unbound)) throw new Misuse("decide about key binding: Answering, Unsolicited or Unbound");
  checkStatusDecision(status);
  if (!(requested instanceof ClaimRequest)) throw new Misuse("requested claims are a ClaimRequest");
  const terms = checkTerms(acceptance);
  checkInstant(now);
  const arrived = parseSdJwt(presentation, terms.limits);
  const isUnbound = keyBinding instanceof Unbound;
  if (arrived.kbJwt !== null && isUnbound) throw new Refused("kb.unexpected", "kb-jwt");
  if (arrived.kbJwt === null && !isUnbound) throw new Refused("kb.missing", "presentation");
  const audience = isUnbound ? null : keyBinding instanceof Answering ? keyBinding.challenge.audience : keyBinding.audience;
  const issued = await checkIssued(arrived, terms, now, audience);
  const bound = isUnbound ? keyBinding : await verifyKeyBinding(issued, keyBinding, now, terms.limits);
  const { claims } = issued.processed;
  const reference = claims.has("status") ? readStatus(claims.get("status")) : null;
  if (reference && status instanceof Checked) checkStatusValue(await status.source.status(reference, issued.issuer, now));
  if (!isUnbound && !(bound instanceof Unbound)) await checkSingleUse(bound, keyBinding, now);
  return new VerifiedCard(issued, bound, reference, status, requested);
}
