// npm's @meeco/sd-jwt: `verifySDJWT` with the callbacks of its README, which are written with `jose`.
import { createHash } from 'node:crypto';
import { SDJsonpath, decodeJWT, issueSDJWT, verifySDJWT } from '@meeco/sd-jwt';
import { CompactSign, importJWK, jwtVerify } from 'jose';
import { Unsupported, disclosureFrame, serve } from './adapter.mjs';

const HASHES = { 'sha-256': 'sha256', 'sha-384': 'sha384', 'sha-512': 'sha512' };
const hasherFor = (name) => (data) => createHash(HASHES[name]).update(data).digest('base64url');
const getHasher = async (name = 'sha-256') => {
  if (!HASHES[name]) throw new Error('the callback: another _sd_alg');
  return hasherFor(name);
};
const ALGORITHMS = { 'P-256': 'ES256', 'P-384': 'ES384', 'P-521': 'ES512', Ed25519: 'EdDSA' };
const checked = async (jwt, jwk, options) =>
  jwtVerify(jwt, await importJWK(jwk, ALGORITHMS[jwk.crv]), { algorithms: [ALGORITHMS[jwk.crv]], ...options });

await serve({
  async verify({ text, key, nonce, audience, now, skew, past }) {
    const at = { currentDate: new Date(now * 1000), clockTolerance: skew };
    const verifier = (jwt) => checked(jwt, key, at);
    const kbVerifier = async (jwt, holder) => {
      const options = { ...at, maxTokenAge: past, requiredClaims: ['iat', 'sd_hash'] };
      const { payload, protectedHeader } = await checked(jwt, holder, options);
      return protectedHeader.typ === 'kb+jwt' && payload.aud === audience && payload.nonce === nonce;
    };
    const bound = nonce === null ? undefined : { kb: { verifier: kbVerifier } };
    return { claims: await verifySDJWT(text, verifier, getHasher, bound) };
  },

  async issue({ claims, hide, header, key }) {
    const signer = async (protectedHeader, payload) =>
      (await new CompactSign(new TextEncoder().encode(JSON.stringify(payload)))
        .setProtectedHeader(protectedHeader)
        .sign(await importJWK(key, protectedHeader.alg))).split('.').pop();
    const { cnf, ...others } = claims;
    const options = { signer, hash: { alg: 'sha-256', callback: hasherFor('sha-256') }, cnf };
    return { text: await issueSDJWT(header, others, disclosureFrame(hide), options) };
  },

  async present() {
    throw new Unsupported('it makes no KB-JWT');
  },
});
