// An Issuer, an agent and a Verifier for tests in any runtime. Times and random bytes are fixed, keys are new.
import { Challenge, acceptSdCard, memoryChallenges, parseTrustedIssuers, webCryptoSigner } from "./package.js";
import { encodeBase64url, utf8 } from "../src/json.js";

export const NOW = 1_800_000_000;
export const ISSUER = "https://registry.example";
export const AUDIENCE = "https://verifier.example";
export const AGENT = "https://agent.example";
export const clock = () => NOW;

const PAIR = { name: "ECDSA", namedCurve: "P-256" };
const encoded = (text) => encodeBase64url(utf8(text));

/** Random bytes that differ at each call and are the same in each run. */
export function countedRandomness() {
  let drawn = 0;
  return (count) => {
    const bytes = new Uint8Array(count);
    new DataView(bytes.buffer).setUint32(0, ++drawn);
    return bytes;
  };
}

export async function newWorld() {
  const [issuerPair, holderPair] = await Promise.all([1, 2].map(() => crypto.subtle.generateKey(PAIR, true, ["sign", "verify"])));
  const [issuer, holder] = await Promise.all([issuerPair, holderPair].map(webCryptoSigner));
  const trust = JSON.stringify({ issuers: { [ISSUER]: { keys: [issuer.publicKey.jwk], status_keys: [issuer.publicKey.jwk] } } });
  const issuers = await parseTrustedIssuers(trust);
  return { issuer, holder, trust, issuers, challenges: memoryChallenges(AUDIENCE, countedRandomness()) };
}

/** A JWS with any texts as header and payload. */
export async function signed(signer, header, payload) {
  const input = `${encoded(header)}.${encoded(payload)}`;
  return `${input}.${encodeBase64url(await signer.sign(utf8(input)))}`;
}

export const claimsOf = (world, more = {}) => ({
  iss: ISSUER, sub: "agent:georoute", iat: NOW - 60, exp: NOW + 3600, vct: "urn:ietf:params:oauth:token-type:sd-agent-card",
  cnf: { jwk: world.holder.publicKey.jwk }, card_format: "a2a", name: "GeoRoute", version: "1.0.0", ...more,
});

export const HEADER = JSON.stringify({ alg: "ES256", typ: "dc+sd-jwt" });

/** An SD-JWT with a claim for each of `hidden`, in a Disclosure. */
export async function issued(world, more = {}, hidden = {}) {
  const disclosures = Object.entries(hidden).map(([name, value], i) => encoded(JSON.stringify([`salt-${i}`, name, value])));
  const digests = await Promise.all(disclosures.map(async (text) => encodeBase64url(new Uint8Array(await crypto.subtle.digest("SHA-256", utf8(text))))));
  const payload = JSON.stringify({ ...claimsOf(world, more), ...(digests.length > 0 ? { _sd: digests } : {}) });
  return `${[await signed(world.issuer, HEADER, payload), ...disclosures].join("~")}~`;
}

export const SKILLS = [{ id: "route", name: "Route" }];
export const held = async (world) => acceptSdCard(await issued(world, {}, { skills: SKILLS, provider: { organization: "Geo", url: "https://geo.example" } }), { issuers: world.issuers }, world.holder.publicKey, NOW);
export const challenge = (nonce = "n-0S6_WzA2Mj") => new Challenge(nonce, AUDIENCE);

/** The certificate of an authority, as in `x5c_roots`. */
export const ROOT = "MIIBdzCCAR2gAwIBAgIISBNJTRN+FjEwCgYIKoZIzj0EAwIwDzENMAsGA1UEAwwEcm9vdDAeFw0yNjEyMTYwODAwMDBaFw0yNzAyMTQwODAwMDBaMA8xDTALBgNVBAMMBHJvb3QwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAASfW3Byib0EJAMMt03/yFZ07zV8ha0EoMAbLf7IRR1w5dKKY0ICZxht4/y8/xS7IlI1NwmL+v3lQOYsyAuZsG2Do2MwYTAPBgNVHRMBAf8EBTADAQH/MB0GA1UdDgQWBBRO+2lJUMQk9u2s2YzvyCV+cjRo7TAfBgNVHSMEGDAWgBRO+2lJUMQk9u2s2YzvyCV+cjRo7TAOBgNVHQ8BAf8EBAMCAQYwCgYIKoZIzj0EAwIDSAAwRQIgBbOh0bm3WptGVslHzleDI1/riyT2ICsvrzAF5U6feFMCIQDLXvOTuL1+ymfHne4J6fGkFKzyQWqRU+Zr9XJp+0FKig==";
