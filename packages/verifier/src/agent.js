/**
 * For agents: accept an SD-Card, select what is shown, and present it; call other agents, which prove themselves; answer the challenges
 * of clients.
 */
export { AgentSession, AnyAgent, AnyAudience, CalledAgent, ThisAgent, checkAgentChallenge, provedFetch, verifyAgentProof } from "./agent-proof.js";
export { Challenge, memoryChallenges, newChallenge, systemClock, systemRandomness } from "./challenges.js";
export { HeldSdCard, Selection, acceptSdCard, jwkSigner, partialCard, present, selectAll, selectPaths, selectRequested, webCryptoSigner } from "./holder.js";
export { CHALLENGE_HEADER, INTERACTION_HEADER, PROOF_HEADER, checkChallenge, checkChallengeInteraction, encodeChallenge, encodeCredentials, encodeProof, parseAgentChallenge, parseChallenge, parseProof } from "./http.js";
export { Misuse, Refused } from "./json.js";
export { parsePublicJwk } from "./keys.js";
export { presentingFetch } from "./presenting.js";
export { ClaimRequest } from "./requests.js";
export { Checked, Unchecked } from "./status.js";
export { TrustedIssuers, parseTrustedIssuers } from "./trust.js";
