/**
 * A strict verifier of SD-Cards: Agent Cards as SD-JWTs (RFC 9901).
 *
 * Nothing that decides has a default. The clock and randomness are arguments.
 */
export { AgentSession, AnyAgent, AnyAudience, CalledAgent, ThisAgent, checkAgentChallenge, provedFetch, verifyAgentProof } from "./agent-proof.js";
export { Challenge, MemoryReplayRecord, StatelessChallenges, memoryChallenges, newChallenge, systemRandomness } from "./challenges.js";
export { HeldSdCard, Selection, acceptSdCard, parsePublicJwk, partialCard, present, selectAll, selectPaths, selectRequested, webCryptoSigner } from "./holder.js";
export { CHALLENGE_HEADER, INTERACTION_HEADER, PROOF_HEADER, checkChallengeInteraction, encodeChallenge, encodeCredentials, encodeProof, parseAgentChallenge, parseChallenge, parseCredentials, parseProof } from "./http.js";
export { Misuse, Refused } from "./json.js";
export { presentingFetch, protect, sdCardMiddleware, systemClock } from "./middleware.js";
export { AdmissionPolicy, ClaimRequest } from "./requests.js";
export { FetchedStatusLists } from "./status-lists.js";
export { Checked, Unchecked, verifyStatusListToken } from "./status.js";
export { TrustedIssuers, parseTrustedIssuers } from "./trust.js";
export { Answering, Unbound, Unsolicited, VerifiedCard, verifyPresentation } from "./verifier.js";
