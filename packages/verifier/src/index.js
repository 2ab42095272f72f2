/**
 * A strict verifier of SD-Cards: Agent Cards as SD-JWTs (RFC 9901), for servers and pages. What agents need is in
 * `@sd-card/verifier/agent`. Nothing that decides has a default. The clock and randomness are arguments.
 */
export { Challenge, MemoryReplayRecord, StatelessChallenges, memoryChallenges, newChallenge, systemClock, systemRandomness } from "./challenges.js";
export { INTERACTION_HEADER, encodeChallenge, parseCredentials } from "./http.js";
export { Misuse, Refused } from "./json.js";
export { parsePublicJwk } from "./keys.js";
export { protect, sdCardMiddleware } from "./middleware.js";
export { AdmissionPolicy, ClaimRequest } from "./requests.js";
export { FetchedStatusLists } from "./status-lists.js";
export { Checked, Unchecked, verifyStatusListToken } from "./status.js";
export { TrustedIssuers, parseTrustedIssuers, verifyTrustList } from "./trust.js";
export { Answering, Unbound, Unsolicited, VerifiedCard, verifyPresentation } from "./verifier.js";
