/** For Verifiers that require a proof that a transparency log has an SD-Card. */
export { Misuse, Refused } from "./json.js";
export { LogPolicy, parseLogPolicy, verifyLogProof } from "./log-proofs.js";
