// Runs vectors of the format sd-card-vectors/1 against npm's @sd-jwt/core and prints where they agree.
// Usage: npm ci && node check.mjs [--json] [DIR]      (DIR: default is the folder above)
// DIR has a manifest, or vectors alone. The format is described in docs/vectors.md.
// What a vector needs and this library lacks is skipped, never guessed. 0.19.0 drops a claim with an empty name.
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { isDeepStrictEqual } from 'node:util';
import { SDJwtInstance } from '@sd-jwt/core';
import { digest, ES256, ES384, ES512 } from '@sd-jwt/crypto-nodejs';

// The library has no check for Holders, so of the kinds it has one.
const KIND = 'verify';
const HAS = new Set(['key-binding', 'ES384', 'ES512', 'sha-384', 'sha-512']);
const BY_CURVE = { 'P-256': ['ES256', ES256], 'P-384': ['ES384', ES384], 'P-521': ['ES512', ES512] };

const decode = (part) => JSON.parse(Buffer.from(part, 'base64url').toString('utf8'));

// The application's part, which the library leaves to it: the key decides the algorithm, never the header.
async function verifies(jwk, data, signature) {
  const [name, algorithm] = BY_CURVE[jwk.crv] ?? [];
  if (!name || decode(data.split('.')[0]).alg !== name) return false;
  return (await algorithm.getVerifier(jwk))(data, signature);
}

// The application's part as well: which key of which Issuer may have signed.
function issuerKey(trust, data) {
  const [header, payload] = data.split('.').map(decode);
  const keys = trust.issuers[payload.iss]?.keys ?? [];
  return keys.length === 1 && header.kid === undefined ? keys[0] : keys.find((key) => key.kid === header.kid);
}

async function run(vector) {
  const binding = vector.expectations.key_binding;
  const instance = new SDJwtInstance({
    hasher: digest,
    verifier: async (data, signature) => {
      const jwk = issuerKey(vector.trust, data);
      return jwk !== undefined && verifies(jwk, data, signature);
    },
    kbVerifier: (data, signature, payload) => verifies(payload.cnf.jwk, data, signature),
  });
  try {
    const { payload } = await instance.verify(vector.document, {
      currentDate: vector.now,
      skewSeconds: vector.expectations.clock_skew ?? 0,
      ...('nonce' in binding ? { keyBindingNonce: binding.nonce } : {}),
    });
    if (vector.expect !== 'accepted') return 'accepts what must be refused';
    return isDeepStrictEqual(payload, vector.claims) ? 'agrees' : 'gives other claims';
  } catch {
    return vector.expect === 'accepted' ? 'refuses what must be accepted' : 'agrees';
  }
}

const here = dirname(fileURLToPath(import.meta.url));
const options = process.argv.slice(2);
const root = options.find((one) => one !== '--json') ?? join(here, '..');
const listed = join(root, 'manifest.json');
const files = existsSync(listed)
  ? JSON.parse(readFileSync(listed, 'utf8')).vectors.map((one) => join(root, one.file))
  : readdirSync(root).filter((name) => name.endsWith('.json')).sort().map((name) => join(root, name));

const folders = {};
const differing = [];
for (const file of files) {
  const vector = JSON.parse(readFileSync(file, 'utf8'));
  if (vector.format !== 'sd-card-vectors/1') throw new Error(`${file} is no vector`);
  const counts = (folders[relative(root, dirname(file))] ??= { agree: 0, differ: 0, skipped: 0 });
  if (vector.kind !== KIND || (vector.needs ?? []).some((need) => !HAS.has(need))) {
    counts.skipped += 1;
    continue;
  }
  const outcome = await run(vector);
  if (outcome === 'agrees') counts.agree += 1;
  else {
    counts.differ += 1;
    differing.push({ file: relative(root, file), outcome, expect: vector.expect, about: vector.about });
  }
}

const total = { agree: 0, differ: 0, skipped: 0 };
for (const counts of Object.values(folders)) for (const name in total) total[name] += counts[name];
if (options.includes('--json')) {
  console.log(JSON.stringify({ ...total, folders, differing }, null, 2));
} else {
  console.table({ ...folders, all: total });
  for (const one of differing) console.log(`${one.file}: ${one.outcome} (${one.expect}: ${one.about})`);
}
