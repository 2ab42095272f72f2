// This project's package for JavaScript, as a control: `verifyPresentation` and `present` with the profile's defaults.
import * as agent from '../../packages/verifier/src/agent.js';
import { Answering, Challenge, Unbound, Unchecked, parseTrustedIssuers, verifyPresentation } from '../../packages/verifier/src/index.js';
import { serve } from './adapter.mjs';

async function terms(key, skew) {
  const issuers = await parseTrustedIssuers(JSON.stringify({ issuers: { 'https://registry.example': { keys: [key] } } }));
  return { issuers, clockSkew: skew, publishedKeys: [] };
}

await serve({
  async verify({ text, key, nonce, audience, now, skew, past, future }) {
    const challenge = nonce === null ? undefined : new Challenge(nonce, audience, { window: { past, future } });
    const keyBinding = challenge ? new Answering(challenge, { consume: () => true }) : new Unbound('the vector demands none');
    const status = new Unchecked('no other library is asked to check it');
    const card = await verifyPresentation(text, { ...(await terms(key, skew)), keyBinding, status }, now);
    const { issuer: iss, subject: sub, issuedAt: iat, expiresAt: exp, members } = card;
    return { claims: { iss, sub, iat, exp, ...members } };
  },

  async present({ text, show, key, issuer_key: issuerKey, nonce, audience, now, skew }) {
    const signer = await agent.jwkSigner(key);
    const held = await agent.acceptSdCard(text, await terms(issuerKey, skew), signer.publicKey, now);
    const selection = agent.selectPaths(held, show.map((path) => path.join('.')));
    return { text: await agent.present(held, selection, new Challenge(nonce, audience), signer, now) };
  },
});
