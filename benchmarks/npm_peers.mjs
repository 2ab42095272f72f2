// The npm peers, timed in a process of their own, beside `node:crypto` alone in that process.
//
// One line of JSON in: card, names, keys, rounds. One line out: what each peer issued and presented. Then, when a line
// says so, the least disturbed round of each step in microseconds. Signatures, digests and salts are synchronous
// callbacks on `node:crypto` with key objects built once: what is left is the library's own work.
import { createPrivateKey, createPublicKey, hash as digest, randomBytes, sign, verify } from 'node:crypto';
import { createInterface } from 'node:readline';
import { decodeJWT, decodeSDJWT, issueSDJWT, verifySDJWT } from '@meeco/sd-jwt';
import { SDJwtInstance } from '@sd-jwt/core';

const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const line = async () => JSON.parse((await lines.next()).value);
const job = await line();

const raw = (key) => ({ key, dsaEncoding: 'ieee-p1363' });
const keysOf = (jwk) => ({ private: raw(createPrivateKey({ key: jwk, format: 'jwk' })), public: raw(createPublicKey({ key: jwk, format: 'jwk' })) });
const [issuer, holder] = [keysOf(job.issuer_key), keysOf(job.holder_key)];
const { d: _, ...holderJwk } = job.holder_key;

const signed = (key) => (data) => sign('sha256', Buffer.from(data), key).toString('base64url');
const checked = (key) => (data, signature) => verify('sha256', Buffer.from(data), key, Buffer.from(signature, 'base64url'));
const encoded = (value) => Buffer.from(JSON.stringify(value)).toString('base64url');
const salt = (length) => randomBytes(16).toString('base64url').slice(0, Math.max(length, 22));
const seconds = () => Math.floor(Date.now() / 1000);
const times = () => ({ iat: seconds(), exp: seconds() + job.lifetime });
const card = JSON.parse(job.card);
const claims = () => ({ iss: job.issuer, sub: 'agent:a', vct: job.type, ...times(), ...card });
const kbClaims = () => ({ iat: seconds(), aud: job.audience, nonce: job.nonce });
// Both read a Holder's key in the SD-JWT itself: the callback builds its key object, as ours does.
const jwkKey = (jwk) => raw(createPublicKey({ key: jwk, format: 'jwk' }));

function core() {
  const hasher = (data) => digest('sha256', typeof data === 'string' ? data : Buffer.from(data), 'buffer');
  const library = new SDJwtInstance({
    hasher, saltGenerator: salt, signAlg: 'ES256', hashAlg: 'sha-256', kbSignAlg: 'ES256',
    signer: signed(issuer.private), verifier: checked(issuer.public), kbSigner: signed(holder.private),
    kbVerifier: (data, signature, payload) => checked(jwkKey(payload.cnf.jwk))(data, signature),
  });
  const frame = { _sd: job.selective };
  const shown = Object.fromEntries(job.shown.map((name) => [name, true]));
  return {
    issue: () => library.issue({ ...claims(), cnf: { jwk: holderJwk } }, frame, { header: { typ: 'dc+sd-jwt' } }),
    hold: (text) => text, // it keeps nothing between reading and presenting
    present: (text) => library.present(text, shown, { kb: { payload: kbClaims() } }),
    verify: async (text) => {
      const { payload, kb } = await library.verify(text, { currentDate: seconds(), keyBindingNonce: job.nonce });
      if (kb.payload.aud !== job.audience) throw new Error('another audience'); // left to the caller
      return payload;
    },
  };
}

function meeco() {
  const hasher = (data) => digest('sha256', data, 'base64url');
  const getHasher = () => hasher;
  const signer = (header, payload) => signed(issuer.private)(`${encoded(header)}.${encoded(payload)}`);
  const hash = { alg: 'sha-256', callback: hasher };
  // It compares nothing in a JWT: its caller does, as its README shows.
  const read = (jwt, key) => {
    const end = jwt.lastIndexOf('.');
    if (!checked(key)(jwt.slice(0, end), jwt.slice(end + 1))) throw new Error('signature');
    return decodeJWT(jwt).payload;
  };
  const verifier = (jwt) => read(jwt, issuer.public).exp > seconds();
  const kb = {
    verifier: (jwt, jwk) => {
      const { aud, nonce } = read(jwt, jwkKey(jwk));
      return aud === job.audience && nonce === job.nonce;
    },
  };
  return {
    issue: () => issueSDJWT({ alg: 'ES256', typ: 'dc+sd-jwt' }, claims(), { _sd: job.selective },
      { signer, hash, cnf: { jwk: holderJwk } }),
    hold: (text) => ({ jwt: text.slice(0, text.indexOf('~')), ...decodeSDJWT(text) }),
    // Not with its SDJsonpath, which hashes every Disclosure first, at twice the cost.
    present: ({ jwt, disclosures }) => {
      const chosen = disclosures.filter(({ key }) => job.shown.includes(key)).map(({ disclosure }) => disclosure);
      const shown = [jwt, ...chosen, ''].join('~');
      const binding = { ...kbClaims(), sd_hash: hasher(shown) };
      const input = `${encoded({ typ: 'kb+jwt', alg: 'ES256' })}.${encoded(binding)}`;
      return `${shown}${input}.${signed(holder.private)(input)}`;
    },
    verify: (text) => verifySDJWT(text, verifier, getHasher, { kb }),
  };
}

const peers = { core: core(), meeco: meeco() };
const made = {};
for (const [name, peer] of Object.entries(peers)) {
  const issued = await peer.issue();
  const presented = await peer.present(peer.hold(issued));
  await peer.verify(presented);
  made[name] = { issued, presented };
}
process.stdout.write(`${JSON.stringify(made)}\n`);
await line();

const message = Buffer.alloc(1024, 'm');
const signature = sign('sha256', message, issuer.private);
const sign1 = () => sign('sha256', message, issuer.private);
const verify2 = () => verify('sha256', message, issuer.public, signature) && verify('sha256', message, issuer.public, signature);
const steps = { 'sign before': sign1, 'verify before': verify2 };
for (const [name, peer] of Object.entries(peers)) {
  const { issued, presented } = made[name];
  steps[`${name} issue`] = () => peer.issue();
  const held = peer.hold(issued);
  steps[`${name} present`] = () => peer.present(peer.hold(issued));
  if (held !== issued) steps[`${name} present parsed`] = () => peer.present(held);
  steps[`${name} verify`] = () => peer.verify(presented);
}
Object.assign(steps, { 'sign after': sign1, 'verify after': verify2 });

async function measured(step) {
  const start = process.hrtime.bigint();
  for (let count = 0; count < job.repeats; count += 1) await step();
  return Number(process.hrtime.bigint() - start) / job.repeats / 1000;
}

for (const step of Object.values(steps)) for (let count = 0; count < 500; count += 1) await step(); // compiled by now
const least = {};
for (let round = 0; round < job.rounds; round += 1) {
  for (const [name, step] of Object.entries(steps)) least[name] = Math.min(least[name] ?? Infinity, await measured(step));
}
process.stdout.write(`${JSON.stringify(least)}\n`);
