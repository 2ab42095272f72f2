// The called agent proves itself (SD-Card 5.2): docs/agent-proof.md. As sdcard/agent_proof.py and sdcard/web/proved_client.py.
import { DATA } from "./data.js";
import { Challenge, StatelessChallenges, checkWindow } from "./challenges.js";
import { checkInstant } from "./claims.js";
import { CHALLENGE_HEADER, INTERACTION_HEADER, PROOF_HEADER, encodeChallenge, namedRule, parseProof } from "./http.js";
import { Misuse, Refused, checkNames, checkText } from "./json.js";
import { digestText } from "./keys.js";
import { ClaimRequest } from "./requests.js";
import { checkStatusDecision } from "./status.js";
import { canonicalOrigin, checkOrigin, checkSecretUrl } from "./urls.js";
import { Answering, TERMS, checkTerms, verifyPresentation } from "./verifier.js";

/** @import { RequestTarget, Window } from "./challenges.js" */
/** @import { ReceivedChallenge } from "./http.js" */
/** @import { Checked, Unchecked } from "./status.js" */
/** @import { Acceptance, VerifiedCard } from "./verifier.js" */

const LABEL = "sd-card-agent-proof/1";
const NONCE = /^agent-proof\.([A-Za-z0-9_-]{22,200})\.([A-Za-z0-9_-]{43})$/;
const PATH = /^[!-~]{1,2048}$/;
const MOST_STANDING = 300;

/**
 * The digest that the nonce of a challenge to an agent ends with: SHA-256 over canonical JSON.
 * @param {Challenge} challenge
 * @param {RequestTarget} target
 * @param {ClaimRequest} request
 */
function termsDigest({ audience, interactionId }, { origin, method, path, service = null }, request) {
  return digestText("sha-256", JSON.stringify([LABEL, audience, origin, method, path, service, interactionId, request.entries.map(String)]));
}

// -- the agent that answers -------------------------------------------------------------------------------------------

/** The decision to answer every client. */
export class AnyAudience {
  /** @param {string} reason */
  constructor(reason) {
    this.reason = checkText("the reason why every audience is answered", reason);
  }
}

/**
 * Refuses a challenge that this agent must not sign, and returns the one to answer.
 * @param {ReceivedChallenge} received
 * @param {readonly RequestTarget[]} targets the request, as the agent's own configuration names it
 * @param {readonly string[] | AnyAudience} audiences the clients that are answered
 * @param {readonly string[]} services origins of the Services through which the agent answers
 */
export async function checkAgentChallenge({ challenge, request, service }, targets, audiences, services) {
  if (!(audiences instanceof AnyAudience || Array.isArray(audiences)) || !Array.isArray(services)) throw new Misuse("audiences and services are arrays");
  const match = NONCE.exec(challenge.nonce);
  if (!match) throw new Refused("kb.purpose", "challenge/nonce");
  if (!(audiences instanceof AnyAudience) && !audiences.includes(challenge.audience)) throw new Refused("agent-proof.audience", "challenge/audience");
  if (service !== null && !services.includes(service)) throw new Refused("agent-proof.service", "challenge/service");
  for (const target of targets) {
    if ((await termsDigest(challenge, { ...target, service }, request)) === match[2]) return challenge.with({ target: { ...target, service } });
  }
  throw new Refused("agent-proof.target", "challenge/nonce");
}

// -- the client that asks ---------------------------------------------------------------------------------------------

/** The agent that a client means: `iss` and `sub` of its SD-Card. */
export class ThisAgent {
  /**
   * @param {string} issuer
   * @param {string} subject
   */
  constructor(issuer, subject) {
    this.issuer = checkText("an Issuer", issuer);
    this.subject = checkText("a subject", subject);
  }
}

/** The decision to accept any agent of a trusted Issuer at an origin. */
export class AnyAgent {
  /** @param {string} reason */
  constructor(reason) {
    this.reason = checkText("the reason why any agent is accepted", reason);
  }
}

/**
 * @typedef {object} AgentDecisions
 * @property {string} origin the agent's `https://host`
 * @property {ThisAgent | AnyAgent} agent
 * @property {Checked | Unchecked} status
 * @property {ClaimRequest} [requested] the claims that the agent is asked to show
 * @property {string | null} [service] the URL of the Service that relays, if any
 * @property {number} [standing] seconds for which a proof lets the origin receive tasks, 1 to 300
 * @property {Partial<Window>} [window]
 */

/** The demands of a client on an agent that it calls. */
export class CalledAgent {
  /** @param {Acceptance & AgentDecisions} demands */
  constructor({ origin, agent, status, requested = new ClaimRequest([]), service = null, standing = MOST_STANDING, window, ...acceptance }) {
    checkNames(acceptance, TERMS);
    checkTerms(acceptance);
    checkOrigin(origin);
    if (!(agent instanceof ThisAgent || agent instanceof AnyAgent)) throw new Misuse("decide about the agent: ThisAgent or AnyAgent");
    checkStatusDecision(status);
    if (!(requested instanceof ClaimRequest)) throw new Misuse("requested claims are a ClaimRequest");
    if (!Number.isInteger(standing) || standing < 1 || standing > MOST_STANDING) throw new Misuse(`a standing lasts for 1 to ${MOST_STANDING} seconds`);
    if (service !== null) {
      checkSecretUrl(service, "a Service");
      if (!`${service}/`.startsWith(`${canonicalOrigin(service)}/`) || service.includes("?")) throw new Misuse("a Service is an origin in lower case and perhaps a path");
      if (agent instanceof AnyAgent) throw new Misuse("through a Service, name the agent: ThisAgent");
    }
    this.acceptance = Object.freeze({ ...acceptance });
    this.origin = origin;
    this.agent = agent;
    this.status = status;
    this.requested = requested;
    this.service = service;
    this.standing = standing;
    this.window = checkWindow(window);
    Object.freeze(this);
  }

  /**
   * The target of a request to a URL of the agent, or of the Service for it.
   * @param {string} method
   * @param {string} url without the query
   * @returns {RequestTarget}
   */
  target(method, url) {
    const base = this.service === null ? this.origin : this.service.replace(/\/$/, "");
    const path = url.slice(base.length);
    if (!url.startsWith(`${base}/`) || !PATH.test(path)) {
      throw new Refused("agent-proof.target", "request/url", "The request goes to another origin.");
    }
    return { origin: this.origin, method, path, service: this.service === null ? null : canonicalOrigin(this.service) };
  }
}

/**
 * Refuses the SD-Card of another agent than the one that was meant.
 * @param {VerifiedCard} card
 * @param {ThisAgent | AnyAgent} agent
 */
function checkAgent(card, agent) {
  if (agent instanceof AnyAgent) return;
  if (card.issuer !== agent.issuer) throw new Refused("agent-proof.other-agent", "issuer-jwt/iss");
  if (card.subject !== agent.subject) throw new Refused("agent-proof.other-agent", "issuer-jwt/sub");
}

/**
 * Verifies the answer of a called agent in every respect, or refuses it.
 * @param {string} proof the presentation that came with the response
 * @param {Challenge} challenge what the request carried
 * @param {import("./challenges.js").ChallengeRecord} record lets each challenge be answered once
 * @param {CalledAgent} called
 * @param {number} now
 */
export async function verifyAgentProof(proof, challenge, record, called, now) {
  const { acceptance, status, requested, agent } = called;
  const card = await verifyPresentation(proof, { ...acceptance, status, requested, keyBinding: new Answering(challenge, record) }, now);
  checkAgent(card, agent);
  return card;
}

/** State of one client about one agent that it calls. */
export class AgentSession {
  /**
   * @param {CalledAgent} called
   * @param {StatelessChallenges} challenges for the client's audience, with the purpose `called-agent` and no other use
   * @param {() => number} clock Unix seconds
   */
  constructor(called, challenges, clock) {
    if (!(called instanceof CalledAgent)) throw new Misuse("a session is about a CalledAgent");
    if (challenges.purpose !== "called-agent") throw new Misuse("challenges to a called agent have the purpose `called-agent`");
    this.called = called;
    this.challenges = challenges;
    this.clock = clock;
    /** The card that the agent showed last. @type {VerifiedCard | null} */
    this.card = null;
    this.agent = called.agent;
    /** @type {number | null} */
    this.provedAt = null;
    this.refusedAt = -Infinity;
  }

  /** Whether the agent proved itself recently enough to receive a task. */
  hasStanding() {
    const now = this.clock();
    return this.provedAt !== null && this.provedAt <= now && now < this.provedAt + this.called.standing;
  }

  /**
   * A challenge for a request, and the value of its header.
   * @param {string} method
   * @param {string} url without the query
   * @param {string | null} [interactionId]
   */
  async challenge(method, url, interactionId = null) {
    const { called } = this;
    const target = called.target(method, url);
    const made = await this.challenges.issue(this.clock(), { window: called.window, interactionId, target });
    const challenge = made.with({ nonce: `${DATA.agent_nonce}${made.nonce}.${await termsDigest(made, target, called.requested)}` });
    return { challenge, value: encodeChallenge(challenge, called.requested), askedAt: this.clock() };
  }

  /** @param {Challenge} challenge @param {number} now */
  async consume(challenge, now) {
    const match = NONCE.exec(challenge.nonce);
    return match !== null && this.challenges.consume(challenge.with({ nonce: match[1] }), now);
  }

  /**
   * Verifies the proof of a response. A missing or wrong one ends the standing.
   * @param {readonly string[]} proofs every value of the header
   * @param {Challenge} challenge
   * @param {number} askedAt when the request was made
   */
  async accept(proofs, challenge, askedAt) {
    try {
      const card = await verifyAgentProof(parseProof(proofs), challenge, this, this.called, checkInstant(this.clock()));
      checkAgent(card, this.agent);
      this.agent = new ThisAgent(card.issuer, card.subject); // the agent that proved itself first stays the agent
      this.card = card;
      if (askedAt >= this.refusedAt) this.provedAt = askedAt;
      return card;
    } catch (problem) {
      this.provedAt = null;
      this.refusedAt = this.clock();
      throw problem;
    }
  }
}

/**
 * A `fetch` that sends tasks only to an agent that proved itself. Redirects are not followed.
 * @param {AgentSession} session
 * @param {typeof fetch} fetcher
 * @returns {(input: RequestInfo | URL, init?: RequestInit) => Promise<Response>}
 */
export function provedFetch(session, fetcher) {
  /** @param {Request} request */
  const send = async (request) => {
    const { origin, pathname } = new URL(request.url);
    const { challenge, value, askedAt } = await session.challenge(request.method.toUpperCase(), origin + pathname, request.headers.get(INTERACTION_HEADER));
    request.headers.set(CHALLENGE_HEADER, value);
    const response = await fetcher(request);
    const proof = response.headers.get(PROOF_HEADER);
    try {
      await session.accept(proof === null ? [] : [proof], challenge, askedAt);
    } catch (problem) {
      throw await explained(problem, response);
    }
    return response;
  };
  return async (input, init) => {
    const request = new Request(input, { ...init, redirect: "manual" });
    session.called.target(request.method, request.url.split(/[?#]/)[0]);
    if (!session.hasStanding()) await (await send(firstContact(request))).body?.cancel();
    return send(request);
  };
}

/** A request without content, credentials or query. @param {Request} request */
function firstContact(request) {
  const { origin, pathname } = new URL(request.url);
  const interaction = request.headers.get(INTERACTION_HEADER);
  return new Request(origin + pathname, { method: "OPTIONS", redirect: "manual", credentials: "omit", headers: interaction === null ? {} : { [INTERACTION_HEADER]: interaction } });
}

/**
 * Names the rule of the agent in the refusal of a missing proof; then drops the response.
 * @param {unknown} problem
 * @param {Response} response
 */
async function explained(problem, response) {
  const rule = problem instanceof Refused && problem.rule === "agent-proof.missing" ? await namedRule(response) : null;
  if (!response.bodyUsed) await response.body?.cancel();
  return rule === null ? problem : new Refused("agent-proof.missing", "presentation", `The response says why: ${rule}.`);
}
