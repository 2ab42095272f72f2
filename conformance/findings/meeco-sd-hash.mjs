// @meeco/sd-jwt 1.2.1: a KB-JWT is accepted with other Disclosures than it was made for (RFC 9901 7.3 step 5.g). The library does
// not compare `sd_hash`, and its callback cannot: it gets the KB-JWT and the Holder's key only. Exit status 0: it still does.
import { createHash } from 'node:crypto';
import { issueSDJWT, verifySDJWT } from '@meeco/sd-jwt';
import { CompactSign, exportJWK, generateKeyPair, jwtVerify } from 'jose';

const hash = (data) => createHash('sha256').update(data).digest('base64url');
const [issuer, holder] = [await generateKeyPair('ES256'), await generateKeyPair('ES256')];
const sign = (key, header, payload) =>
  new CompactSign(new TextEncoder().encode(JSON.stringify(payload))).setProtectedHeader(header).sign(key);
const signer = async (header, payload) => (await sign(issuer.privateKey, header, payload)).split('.').pop();
const options = { signer, hash: { alg: 'sha-256', callback: hash }, cnf: { jwk: await exportJWK(holder.publicKey) } };
const issued = await issueSDJWT({ alg: 'ES256' }, { a: 1, b: 2 }, { _sd: ['a', 'b'] }, options);

const [jwt, first] = issued.split('~');
const kbPayload = { iat: Math.floor(Date.now() / 1000), aud: 'verifier', nonce: 'n', sd_hash: hash(`${jwt}~${first}~`) };
const kbJwt = await sign(holder.privateKey, { alg: 'ES256', typ: 'kb+jwt' }, kbPayload);
const verifier = async (text) => jwtVerify(text, issuer.publicKey);
const kb = { verifier: async (text) => !!(await jwtVerify(text, holder.publicKey)) };

const claims = await verifySDJWT(`${issued}${kbJwt}`, verifier, async () => hash, { kb });
console.log('accepted, with one Disclosure more than the Holder signed:', claims);
process.exit(claims.a === 1 && claims.b === 2 ? 0 : 1);
