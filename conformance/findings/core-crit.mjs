// @sd-jwt/core 0.19.0: `crit` with an unknown parameter is ignored, in the SD-JWT and in the KB-JWT (RFC 7515 4.1.11).
// Exit status 0: it still is.
import { SDJwtInstance } from '@sd-jwt/core';
import { ES256, digest, generateSalt } from '@sd-jwt/crypto-nodejs';

const { privateKey, publicKey } = await ES256.generateKeyPair();
const [signer, verifier] = [await ES256.getSigner(privateKey), await ES256.getVerifier(publicKey)];
const instance = new SDJwtInstance({ hasher: digest, signer, signAlg: 'ES256', verifier, saltGenerator: generateSalt });
const header = { crit: ['https://example.com/must-be-understood'], 'https://example.com/must-be-understood': true };
const token = await instance.issue({ name: 'x' }, undefined, { header });
console.log('accepted:', (await instance.verify(token)).header);
