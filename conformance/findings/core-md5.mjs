// @sd-jwt/core 0.19.0 with @sd-jwt/crypto-nodejs 0.19.0: an SD-JWT with MD5 digests verifies (RFC 9901 4.1.1, 7.1 step 2.d).
// Exit status 0: it still does.
import { createHash } from 'node:crypto';
import { SDJwtInstance } from '@sd-jwt/core';
import { ES256, digest } from '@sd-jwt/crypto-nodejs';

const { privateKey, publicKey } = await ES256.generateKeyPair();
const encode = (value) => Buffer.from(JSON.stringify(value)).toString('base64url');
const disclosure = encode(['salt-salt-salt-salt', 'name', 'hidden']);
const payload = { _sd_alg: 'md5', _sd: [createHash('md5').update(disclosure).digest('base64url')] };
const input = `${encode({ alg: 'ES256', typ: 'dc+sd-jwt' })}.${encode(payload)}`;
const token = `${input}.${await (await ES256.getSigner(privateKey))(input)}~${disclosure}~`;

const verifier = await ES256.getVerifier(publicKey);
const verified = await new SDJwtInstance({ hasher: digest, verifier }).verify(token);
console.log('accepted:', verified.payload);
process.exit(verified.payload.name === 'hidden' ? 0 : 1);
