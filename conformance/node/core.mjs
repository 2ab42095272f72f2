// npm's @sd-jwt/core: `verify` of SDJwtInstance, with the signatures, digests and salts of @sd-jwt/crypto-nodejs.
import { FlattenJSON, GeneralJSON, SDJwtGeneralJSONInstance, SDJwtInstance } from '@sd-jwt/core';
import { ES256, ES384, ES512, digest, generateSalt } from '@sd-jwt/crypto-nodejs';
import { Unsupported, decode, disclosureFrame, presentationFrame, serve } from './adapter.mjs';

const CURVES = { 'P-256': ES256, 'P-384': ES384, 'P-521': ES512 };

// The library leaves signatures to its caller. The key decides the algorithm, never the header.
async function verifies(jwk, data, signature) {
  const algorithm = CURVES[jwk?.crv];
  if (!algorithm || decode(data.split('.')[0]).alg !== algorithm.alg) return false;
  return (await algorithm.getVerifier(jwk))(data, signature);
}

export function functionsOf(Instance) {
  return {
    async verify({ text, key, nonce, now, skew }) {
      const config = {
        hasher: digest,
        verifier: (data, signature) => verifies(key, data, signature),
        kbVerifier: (data, signature, payload) => verifies(payload.cnf?.jwk, data, signature),
      };
      const options = { currentDate: now, skewSeconds: skew, keyBindingNonce: nonce ?? undefined };
      const json = text.startsWith('{') ? JSON.parse(text) : undefined;
      if (json && 'signatures' in json && 'signature' in json) throw new Unsupported('its caller chooses one of the forms');
      if (json?.signatures) {
        const general = new SDJwtGeneralJSONInstance(config);
        return { claims: (await general.verify(GeneralJSON.fromSerialized(json), options)).payload };
      }
      const compact = json ? FlattenJSON.fromSerialized(json).toEncoded() : text;
      return { claims: (await new Instance(config).verify(compact, options)).payload };
    },

    async issue({ claims, hide, header, key }) {
      const signer = await ES256.getSigner(key);
      const config = { signer, signAlg: 'ES256', hasher: digest, hashAlg: 'sha-256', saltGenerator: generateSalt };
      return { text: await new Instance(config).issue(claims, disclosureFrame(hide), { header }) };
    },

    async present({ text, show, key, nonce, audience, now }) {
      const kbSigner = await ES256.getSigner(key);
      const instance = new Instance({ hasher: digest, saltGenerator: generateSalt, kbSigner, kbSignAlg: 'ES256' });
      const kb = { payload: { iat: now, aud: audience, nonce } };
      return { text: await instance.present(text, presentationFrame(show), { kb }) };
    },
  };
}

if (process.argv[1].endsWith('core.mjs')) await serve(functionsOf(SDJwtInstance));
