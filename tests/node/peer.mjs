// The npm libraries behind one line of JSON each way: a request on stdin, its answer on stdout.
//
//   {"peer": "core" | "meeco", "op": "issue" | "present" | "verify", …}  →  {"ok": true, …} | {"ok": false, "error": …}
//
// Both libraries leave signatures to their caller. `core` gets what its own package @sd-jwt/crypto-nodejs offers;
// `meeco` gets the callbacks of its README, which are written with `jose`. Nothing else is checked here.
import { createHash, webcrypto } from 'node:crypto';
import { createInterface } from 'node:readline';
import { SDJsonpath, decodeJWT, issueSDJWT, verifySDJWT } from '@meeco/sd-jwt';
import { SDJwtInstance } from '@sd-jwt/core';
import { ES256, ES384, ES512, digest, generateSalt } from '@sd-jwt/crypto-nodejs';
import { CompactSign, importJWK, jwtVerify } from 'jose';

globalThis.crypto ??= webcrypto; // Node 18, which Debian 12 has, does not show it to `jose` by itself

const CURVES = { 'P-256': ES256, 'P-384': ES384, 'P-521': ES512 };

function curve(jwk) {
  const found = CURVES[jwk?.crv];
  if (!found) throw new Error('@sd-jwt/crypto-nodejs has no algorithm for this key');
  return found;
}

const core = {
  async issue({ claims, frame, header, issuer_key: key, hash = 'sha-256' }) {
    const { alg } = curve(key);
    const signer = await curve(key).getSigner(key);
    const library = new SDJwtInstance({ signer, signAlg: alg, hasher: digest, hashAlg: hash, saltGenerator: generateSalt });
    return { text: await library.issue(claims, frame, { header }) };
  },

  async present({ text, select, holder_key: key, kb }) {
    const config = { hasher: digest, saltGenerator: generateSalt };
    if (kb) Object.assign(config, { kbSigner: await curve(key).getSigner(key), kbSignAlg: curve(key).alg });
    return { text: await new SDJwtInstance(config).present(text, select, kb ? { kb: { payload: kb } } : undefined) };
  },

  async verify({ text, issuer_key: key, nonce, audience, now, leeway = 0 }) {
    const library = new SDJwtInstance({
      hasher: digest,
      verifier: await curve(key).getVerifier(key),
      kbVerifier: async (data, signature, payload) =>
        (await curve(payload.cnf?.jwk).getVerifier(payload.cnf.jwk))(data, signature),
    });
    const options = { currentDate: now, skewSeconds: leeway, keyBindingNonce: nonce };
    const { payload, kb } = await library.verify(text, options);
    // The library takes no audience; it hands the KB-JWT's payload to the caller, who must compare.
    if (nonce && kb.payload.aud !== audience) throw new Error('the caller: another audience');
    return { claims: payload };
  },
};

const HASHES = { 'sha-256': 'sha256', 'sha-384': 'sha384', 'sha-512': 'sha512' };
const hasherFor = (name) => (data) => createHash(HASHES[name]).update(data).digest('base64url');
const getHasher = async (name = 'sha-256') => (HASHES[name.toLowerCase()] ? hasherFor(name.toLowerCase()) : undefined);

const meeco = {
  async issue({ claims, frame, header, issuer_key: key, hash = 'sha-256', cnf }) {
    const signer = async (protectedHeader, payload) =>
      (await new CompactSign(new TextEncoder().encode(JSON.stringify(payload)))
        .setProtectedHeader(protectedHeader)
        .sign(await importJWK(key, protectedHeader.alg))).split('.').pop();
    const options = { signer, hash: { alg: hash, callback: hasherFor(hash) }, cnf };
    return { text: await issueSDJWT(header, claims, frame, options) };
  },

  async present({ text, select }) {
    return { text: await SDJsonpath.getJWT(text, select, getHasher) };
  },

  async verify({ text, issuer_key: key, key_binding: bound = false, nonce, audience, now, leeway = 0 }) {
    const at = { currentDate: new Date(now * 1000), clockTolerance: leeway };
    const verifier = async (jwt) => jwtVerify(jwt, await importJWK(key, decodeJWT(jwt).header.alg), at);
    const kbVerifier = async (jwt, holder) => {
      const verified = await jwtVerify(jwt, await importJWK(holder, decodeJWT(jwt).header.alg), at);
      return verified.payload.aud === audience && verified.payload.nonce === nonce;
    };
    return { claims: await verifySDJWT(text, verifier, getHasher, bound ? { kb: { verifier: kbVerifier } } : undefined) };
  },
};

const peers = { core, meeco };

for await (const line of createInterface({ input: process.stdin })) {
  let answer;
  try {
    const { peer, op, ...request } = JSON.parse(line);
    answer = { ok: true, ...(await peers[peer][op](request)) };
  } catch (error) {
    answer = { ok: false, error: String(error?.message ?? error) };
  }
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}
