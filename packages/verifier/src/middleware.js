// Servers that demand an admitted SD-Card. As sdcard/web/authenticate.py.
import { DATA } from "./data.js";
import { Challenge, checkWindow } from "./challenges.js";
import { INTERACTION_HEADER, MAX_CREDENTIALS, encodeChallenge, isHeaderText, isInteractionId, parseCredentials, problemAnswer } from "./http.js";
import { Misuse, Refused, checkNames, checkText, codePoints, isText } from "./json.js";
import { AdmissionPolicy } from "./requests.js";
import { parseJws, parseSdJwt } from "./sd-jwt.js";
import { checkStatusDecision } from "./status.js";
import { Answering, Unbound, checkFirstUse, checkTerms, verifyPresentation } from "./verifier.js";

/** @import { RequestTarget, StatelessChallenges, Window } from "./challenges.js" */
/** @import { Checked, Unchecked } from "./status.js" */
/** @import { VerifiedCard } from "./verifier.js" */

/**
 * @typedef {object} RouteDecisions what a route demands; the first five have no default
 * @property {AdmissionPolicy} policy
 * @property {string} audience who we are: what a Holder must have signed for
 * @property {StatelessChallenges} challenges for this audience
 * @property {Checked | Unchecked} status
 * @property {() => number} clock Unix seconds
 * @property {Partial<Window>} [window] how old a challenge and its answer may be
 * @property {string} [profile]
 * @property {number | null} [maxLifetime]
 * @property {string} [origin] our own `https://host`, when it is not the audience
 */
/** @typedef {{ status: number, headers: Record<string, string>, body: string }} Answer */

/** @type {Record<string, number>} */
const STATUS = {
  "request.malformed": 400, "limit.bytes": 431,
  "kb.record-unavailable": 503, "status.unavailable": 503, "issuer.metadata-unavailable": 503, "trust.expired": 503,
  "issuer.unknown": 403, "issuer.key-unknown": 403, "status.revoked": 403, "status.suspended": 403,
};
const LIMITS = { presentation_bytes: MAX_CREDENTIALS };

/** @param {Refused} refusal */
const statusOf = ({ rule }) => (rule.startsWith("policy.") ? 403 : (STATUS[rule] ?? 401));

/** One route. */
class Guard {
  /** @param {RouteDecisions} decisions */
  constructor(decisions) {
    const { policy, audience, challenges, status, clock, window, profile = "sd-card", maxLifetime = null, origin = audience, ...others } = decisions;
    checkNames(others, []);
    if (!(policy instanceof AdmissionPolicy)) throw new Misuse("a route has an AdmissionPolicy");
    if (!isText(audience) || !isHeaderText(audience)) throw new Misuse("an audience is printable ASCII");
    if (challenges?.audience !== audience || challenges.purpose !== "presentation") throw new Misuse("the challenges are for this audience, with the purpose `presentation`");
    checkStatusDecision(status);
    if (typeof clock !== "function") throw new Misuse("a clock is a function that returns Unix seconds");
    checkTerms({ issuers: policy.issuers, profile, maxLifetime });
    this.terms = { status, profile, maxLifetime };
    this.policy = policy;
    this.audience = audience;
    this.challenges = challenges;
    this.clock = clock;
    this.window = checkWindow(window);
    this.origin = checkText("an origin", origin);
    encodeChallenge(new Challenge("n".repeat(DATA.max_nonce_length), audience, { interactionId: '"'.repeat(128) }), policy.request);
  }

  /**
   * The card of the caller, or the answer to it.
   * @param {string} method
   * @param {string} path without the query
   * @param {(name: string) => readonly string[]} header all values of a header
   * @returns {Promise<VerifiedCard | Answer>}
   */
  async admit(method, path, header) {
    const target = { origin: this.origin, method: method.toUpperCase(), path };
    let interactionId = null, isRequest = false;
    try {
      interactionId = readInteraction(header(INTERACTION_HEADER));
      isRequest = true;
      return await this.verify(parseCredentials(header("authorization")), target, interactionId);
    } catch (problem) {
      if (!(problem instanceof Refused)) throw problem;
      return this.answer(problem, isRequest ? { target, interactionId } : null);
    }
  }

  /**
   * Checks the challenge's MAC first, and marks the challenge as used last.
   * @param {string} presentation
   * @param {RequestTarget} target
   * @param {string | null} interactionId
   */
  async verify(presentation, target, interactionId) {
    const { policy, challenges } = this;
    const now = this.clock();
    policy.issuers.checkCurrent(now);
    const nonce = readNonce(presentation);
    const challenge = new Challenge(nonce ?? "none", this.audience, { window: this.window, interactionId, target });
    if (nonce !== null) await challenges.check(challenge, now);
    const keyBinding = new Answering(challenge, { consume: () => true });
    const card = await verifyPresentation(presentation, { ...this.terms, issuers: policy.issuers, keyBinding, requested: policy.request, limits: LIMITS }, now);
    const named = card.keyBinding instanceof Unbound ? null : card.keyBinding.interactionId;
    if (named !== null && !isInteractionId(named)) throw new Refused("claim.value", "kb-jwt/interaction_id", "An interaction id has 1 to 128 visible ASCII characters.");
    policy.check(card);
    checkFirstUse(await challenges.consume(challenge, now));
    return card;
  }

  /**
   * @param {Refused} refusal
   * @param {{ target: RequestTarget, interactionId: string | null } | null} request
   * @returns {Promise<Answer>}
   */
  async answer(refusal, request) {
    const status = statusOf(refusal);
    const challenge = status === 401 && request ? await this.challenges.issue(this.clock(), { window: this.window, ...request }) : null;
    return problemAnswer(refusal, status, challenge, this.policy.request);
  }
}

/** @param {readonly string[]} values */
function readInteraction(values) {
  if (values.length > 1 || !values.every(isInteractionId)) throw new Refused("request.malformed", "request/headers/sd-card-interaction", "There is one such header, of 1 to 128 visible ASCII characters.");
  return values[0] ?? null;
}

/** The nonce of a KB-JWT, to find its challenge; null without one. @param {string} text */
function readNonce(text) {
  const limits = { ...DATA.limits, ...LIMITS };
  try {
    const { kbJwt } = parseSdJwt(text, limits);
    const nonce = kbJwt === null ? null : parseJws(kbJwt, "kb-header", "kb-jwt", limits.json_depth).payload.get("nonce");
    return isText(nonce) && nonce.trim() && codePoints(nonce) <= DATA.max_nonce_length ? nonce : null;
  } catch (problem) {
    if (problem instanceof Refused) return null;
    throw problem;
  }
}

/**
 * Protects a handler of a Fetch-style server (Deno, Bun, Workers, a page). It gets the request without `Authorization`, the
 * caller's card, and whatever the server passes on.
 * @template {any[]} Rest
 * @param {RouteDecisions} decisions
 * @param {(request: Request, card: VerifiedCard, ...rest: Rest) => Promise<Response> | Response} handler
 * @returns {(request: Request, ...rest: Rest) => Promise<Response>}
 */
export function protect(decisions, handler) {
  const guard = new Guard(decisions);
  return async (request, ...rest) => {
    const header = (/** @type {string} */ name) => {
      const value = request.headers.get(name);
      return value === null ? [] : [value];
    };
    if (request.bodyUsed) throw new Misuse("protect a request whose body was not read");
    const found = await guard.admit(request.method, new URL(request.url).pathname, header);
    if ("body" in found) return new Response(found.body, found);
    const passed = new Request(request);
    passed.headers.delete("authorization"); // not by an option of the constructor: Bun ignores headers that are empty
    return handler(passed, found, ...rest);
  };
}

/**
 * Middleware for Express. The route finds the caller's card in `request.sdCard`, and no `Authorization` header.
 * @param {RouteDecisions} decisions
 * @returns {(request: any, response: any, next: (problem?: unknown) => void) => Promise<void>}
 */
export function sdCardMiddleware(decisions) {
  const guard = new Guard(decisions);
  return async (request, response, next) => {
    try {
      const raw = /** @type {string[]} */ (request.rawHeaders);
      const header = (/** @type {string} */ name) => raw.filter((_, i) => i % 2 === 1 && raw[i - 1].toLowerCase() === name.toLowerCase());
      const found = await guard.admit(request.method, request.originalUrl.split("?")[0], header);
      if ("body" in found) {
        response.status(found.status).set(found.headers).end(found.body);
        return;
      }
      request.sdCard = found;
      delete request.headers.authorization;
      if (request.headersDistinct) delete request.headersDistinct.authorization; // which Node makes of rawHeaders
      request.rawHeaders = raw.filter((_, i) => raw[i - (i % 2)].toLowerCase() !== "authorization");
    } catch (problem) {
      next(problem);
      return;
    }
    next();
  };
}
