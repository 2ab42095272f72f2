// Challenges, presentations and proofs in HTTP headers (RFC 9110 11), and problem documents (RFC 9457). As sdcard/http_auth.py.
import { Challenge } from "./challenges.js";
import { DATA } from "./data.js";
import { Misuse, Refused, isText, parseJson, utf8 } from "./json.js";
import { ClaimRequest } from "./requests.js";

/** A challenge as it arrived, and what is requested with it. It is not authenticated. @typedef {{ challenge: Challenge, request: ClaimRequest, service: string | null }} ReceivedChallenge */

export const SCHEME = "SD-Card";
export const INTERACTION_HEADER = "SD-Card-Interaction";
export const CHALLENGE_HEADER = "SD-Card-Challenge";
export const PROOF_HEADER = "SD-Card-Proof";
export const PROBLEM = "application/problem+json";
const RETRY_AFTER = 5;
/** Characters of a presentation, and of a challenge. */
export const MAX_CREDENTIALS = 8000;
const MAX_CHALLENGE = 4000;

const TOKEN = "[!#$%&'*+\\-.^_`|~0-9A-Za-z]+";
const QUOTED = '"(?:[\\t \\x21\\x23-\\x5b\\x5d-\\x7e]|\\\\[\\t \\x21-\\x7e])*"';
const PARAMETER = new RegExp(`(${TOKEN})[ \\t]*=[ \\t]*(${TOKEN}|${QUOTED})(?=[ \\t]*(?:,|$))`, "y");
const NAMED = new RegExp(`(${TOKEN})(?= |[ \\t]*(?:,|$))`, "y");
const TOKEN68 = / +([A-Za-z0-9\-._~+/]+=*)(?=[ \t]*(?:,|$))/y;
const GAP = /[ \t,]*/y;
const PRESENTATION = /^[A-Za-z0-9\-._~]+$/;
const CREDENTIALS = new RegExp(`^(${TOKEN})(?: +([^]*))?$`);
const AUTHORIZATION = "request/headers/authorization";

/** Whether a text can be an audience in a header. @param {string} text */
export const isHeaderText = (text) => /^[\x21-\x7e](?:[\x20-\x7e]{0,254}[\x21-\x7e])?$/.test(text);
/** @param {unknown} value */
export const isInteractionId = (value) => isText(value) && /^[!-~]{1,128}$/.test(value);

/**
 * The value of `WWW-Authenticate`, or of `SD-Card-Challenge` to an agent.
 * @param {Challenge} challenge
 * @param {ClaimRequest} request
 */
export function encodeChallenge(challenge, request) {
  const { nonce, audience, interactionId, target } = challenge;
  if (!isHeaderText(nonce) || !isHeaderText(audience)) throw new Misuse("in a header, a nonce or audience has 1 to 256 printable ASCII characters");
  if (interactionId !== null && !isInteractionId(interactionId)) throw new Misuse("in a header, an interaction id has 1 to 128 visible ASCII characters");
  const requested = request.entries.length > 0 ? asciiJson(request.entries.map(String)) : null;
  const parameters = { nonce, audience, interaction_id: interactionId, service: target?.service ?? null, requested };
  const written = Object.entries(parameters).filter(([, value]) => value !== null).map(([name, value]) => `${name}="${String(value).replace(/["\\]/g, "\\$&")}"`);
  const text = `${SCHEME} ${written.join(", ")}`;
  if (text.length > MAX_CHALLENGE) throw new Misuse(`a challenge has at most ${MAX_CHALLENGE} characters: request less`);
  return text;
}

/** @param {string[]} value */
const asciiJson = (value) => JSON.stringify(value).replace(/[\x7f-\uffff]/g, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`);

/** @param {string} hint */
const malformed = (hint) => new Refused("challenge.malformed", "challenge", hint);

/**
 * Our challenge in all values of `WWW-Authenticate`; null without one.
 * @param {readonly string[]} values
 * @returns {ReceivedChallenge | null}
 */
export function parseChallenge(values) {
  const within = values.filter((value) => value.toLowerCase().includes(SCHEME.toLowerCase()));
  if (within.length === 0) return null;
  if (within.reduce((size, value) => size + value.length, 0) > MAX_CHALLENGE) throw malformed("It is too long.");
  const ours = within.flatMap(challengesIn).filter(([scheme]) => scheme === SCHEME.toLowerCase());
  if (ours.length > 1) throw malformed("There is more than one.");
  return ours.length === 1 ? received(ours[0][1]) : null;
}

/**
 * The challenge to the called agent in all values of `SD-Card-Challenge`.
 * @param {readonly string[]} values
 */
export function parseAgentChallenge(values) {
  if (values.length !== 1) throw malformed("There is more than one.");
  const found = parseChallenge(values);
  if (!found) throw malformed(`It is \`${SCHEME}\` and parameters.`);
  return found;
}

/** @param {string} value */
function challengesIn(value) {
  /** @type {[string, Map<string, string>][]} */
  const found = [];
  /** @param {RegExp} pattern @param {number} at */
  const match = (pattern, at) => {
    pattern.lastIndex = at;
    return pattern.exec(value);
  };
  const end = (/** @type {RegExp} */ pattern, /** @type {number} */ at) => at + (match(pattern, at)?.[0].length ?? 0);
  for (let at = end(GAP, 0); at < value.length; at = end(GAP, at)) {
    const parameter = match(PARAMETER, at);
    const scheme = match(NAMED, at);
    const last = found[found.length - 1];
    if (parameter && last) {
      const name = parameter[1].toLowerCase();
      if (last[1].has(name)) throw malformed("A parameter is repeated.");
      last[1].set(name, parameter[2].startsWith('"') ? parameter[2].slice(1, -1).replace(/\\([^])/g, "$1") : parameter[2]);
      at += parameter[0].length;
    } else if (scheme) {
      found.push([scheme[1].toLowerCase(), new Map()]);
      at = end(TOKEN68, at + scheme[0].length);
    } else {
      throw malformed("It is a scheme and parameters.");
    }
  }
  return found;
}

/** @param {Map<string, string>} parameters @returns {ReceivedChallenge} */
function received(parameters) {
  const [nonce, audience] = [parameters.get("nonce") ?? "", parameters.get("audience") ?? ""];
  const [interactionId, service] = [parameters.get("interaction_id") ?? null, parameters.get("service") ?? null];
  for (const [name, text] of Object.entries({ nonce, audience, ...(service === null ? {} : { service }) })) {
    if (!isHeaderText(text)) throw new Refused("challenge.malformed", `challenge/${name}`, "1 to 256 printable characters.");
  }
  if (interactionId !== null && !isInteractionId(interactionId)) throw new Refused("challenge.malformed", "challenge/interaction_id", "1 to 128 visible characters.");
  const where = "challenge/requested";
  const requested = parseJson(utf8(parameters.get("requested") ?? "[]"), where, 1);
  if (!Array.isArray(requested)) throw new Refused("challenge.malformed", where, "It is a JSON array of claim paths.");
  return { challenge: new Challenge(nonce, audience, { interactionId }), request: ClaimRequest.parse(requested, where), service };
}

/**
 * Refuses a challenge that a Holder must not answer, and returns it.
 * @param {ReceivedChallenge} found
 * @param {string} audience the server's, as the Holder knows it
 * @param {string | null} interactionId the interaction that the request belongs to, if any
 */
export function checkChallenge({ challenge }, audience, interactionId) {
  if (challenge.nonce.startsWith(DATA.agent_nonce)) throw new Refused("kb.purpose", "challenge/nonce");
  if (challenge.audience !== audience) throw new Refused("challenge.other-audience", "challenge/audience");
  if (challenge.interactionId !== interactionId) throw new Refused("challenge.other-interaction", "challenge/interaction_id");
  return challenge;
}

/**
 * Refuses a request whose interaction is not the one in its challenge.
 * @param {ReceivedChallenge} found
 * @param {readonly string[]} values all values of `SD-Card-Interaction`
 */
export function checkChallengeInteraction(found, values) {
  if (values.length > 0 && (values.length > 1 || values[0] !== found.challenge.interactionId)) throw new Refused("challenge.other-interaction", "challenge/interaction_id");
}

/**
 * The presentation in all values of `SD-Card-Proof`.
 * @param {readonly string[]} values
 */
export function parseProof(values) {
  if (values.length === 0) {
    throw new Refused("agent-proof.missing", "presentation", `The agent does not prove itself, or a proxy on the way drops ${CHALLENGE_HEADER} or ${PROOF_HEADER}: have it forward both.`);
  }
  if (values.length > 1) throw new Refused("agent-proof.malformed", "presentation", `${PROOF_HEADER} is there more than once.`);
  if (values[0].length > MAX_CREDENTIALS) throw new Refused("limit.bytes", "presentation", "Request less of the card.");
  if (!PRESENTATION.test(values[0])) throw new Refused("agent-proof.malformed", "presentation", "A proof is a compact presentation.");
  return values[0];
}

/** The value of `SD-Card-Proof`. @param {string} presentation */
export function encodeProof(presentation) {
  if (!PRESENTATION.test(presentation)) throw new Misuse("in a header, a presentation is compact");
  if (presentation.length > MAX_CREDENTIALS) throw new Refused("limit.bytes", AUTHORIZATION, "It does not fit into a header: show less of the card.");
  return presentation;
}

/** The value of `Authorization`. @param {string} presentation */
export const encodeCredentials = (presentation) => `${SCHEME} ${encodeProof(presentation)}`;

/**
 * The presentation in all values of `Authorization`.
 * @param {readonly string[]} values
 */
export function parseCredentials(values) {
  if (values.length > 1) throw new Refused("request.malformed", AUTHORIZATION, "There is one such header.");
  const [value] = values;
  if (value === undefined) throw new Refused("presentation.missing", AUTHORIZATION);
  if (value.length > SCHEME.length + 1 + MAX_CREDENTIALS) throw new Refused("limit.bytes", AUTHORIZATION, "Show less of the card.");
  const given = CREDENTIALS.exec(value);
  if (!given) throw new Refused("request.malformed", AUTHORIZATION, `It is \`${SCHEME}\` and a presentation.`);
  if (given[1].toLowerCase() !== SCHEME.toLowerCase()) throw new Refused("presentation.missing", AUTHORIZATION, `The scheme is \`${SCHEME}\`.`);
  if (given[2] === undefined || !PRESENTATION.test(given[2])) throw new Refused("request.malformed", AUTHORIZATION, `It is \`${SCHEME}\` and a compact presentation.`);
  return given[2];
}

/**
 * A refusal as an HTTP response. It names rules and places, never a value.
 * @param {Refused} refusal
 * @param {number} status
 * @param {Challenge | null} challenge
 * @param {ClaimRequest} request
 */
export function problemAnswer(refusal, status, challenge, request) {
  const findings = refusal.findings.map((one) => ({ rule: one.rule, level: "error", where: one.where, hint: one.hint }));
  const { rule, where } = refusal;
  const document = { type: `urn:sd-card:rule:${rule}`, title: rule, status, detail: refusal.hint || rule, rule, where, findings };
  /** @type {Record<string, string>} */
  const headers = { "content-type": PROBLEM, "cache-control": "no-store" };
  if (challenge) headers["www-authenticate"] = encodeChallenge(challenge, request);
  if (status === 503) headers["retry-after"] = String(RETRY_AFTER);
  return { status, headers, body: JSON.stringify(document) };
}

/**
 * The rule that a problem document of another party names; null without one. It is not authenticated.
 * @param {Response} response
 */
export async function namedRule(response) {
  const length = response.headers.get("content-length") ?? "";
  const type = (response.headers.get("content-type") ?? "").split(";")[0].trim().toLowerCase();
  if (response.headers.has("content-encoding")) return null; // 16 kB could inflate to any size
  if (response.status < 400 || type !== PROBLEM || !/^[0-9]{1,5}$/.test(length) || Number(length) > 16_384) return null;
  try {
    const rule = (await response.json()).rule;
    return isText(rule) && /^[a-z-]{1,40}\.[a-z-]{1,40}$/.test(rule) ? rule : null;
  } catch {
    return null;
  }
}
