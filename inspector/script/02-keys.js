// Public keys: JWK in, the one algorithm each key verifies with, its thumbprint. As sdcard/jose/keys.py, key_sets.py and trust.py.

async function digestText(algorithm, text) {
  return encodeBase64url(new Uint8Array(await crypto.subtle.digest(algorithm.toUpperCase(), utf8(text))));
}

const bigint = (bytes) => bytes.reduce((number, byte) => (number << 8n) | BigInt(byte), 0n);

function power(base, exponent, modulus) {
  let result = 1n;
  for (base %= modulus; exponent > 0n; exponent >>= 1n, base = (base * base) % modulus) {
    if (exponent & 1n) result = (result * base) % modulus;
  }
  return result;
}

// RFC 8032 5.1.3: whether 32 bytes are the one encoding of a point of the curve that is not of small order.
function isUsableEd25519(bytes) {
  const p = 2n ** 255n - 19n;
  const d = ((-121665n * power(121666n, p - 2n, p)) % p + p) % p;
  const y = bigint(bytes.toReversed()) & (2n ** 255n - 1n);
  if (y >= p || DATA.ed25519_small_order.includes(String(y))) return false;
  const product = ((y * y - 1n + p) * (d * y * y + 1n)) % p;
  return power(product, (p - 1n) / 2n, p) === 1n;
}

// Whether most coefficients of t1 (ten bits each, after 32 bytes of rho) are far from zero: see sdcard/jose/algorithms.py.
function isUsableMlDsa(bytes) {
  const packed = bytes.subarray(32);
  const count = Math.floor((packed.length * 8) / 10);
  let far = 0;
  for (let i = 0; i < count; i++) {
    const bit = i * 10;
    const at = bit >> 3;
    const value = ((packed[at] | (packed[at + 1] << 8) | ((packed[at + 2] ?? 0) << 16)) >> (bit & 7)) & 1023;
    const upper = value >> 5;
    if (upper !== 0 && upper !== 31) far++;
  }
  return 2 * far > count;
}

function jwkText(jwk, name, where) {
  const text = jwk.get(name);
  if (!isText(text)) throw new Refused("key.malformed", `${where}/${name}`, "The member must be a string.");
  return text;
}

function jwkBytes(text, size, where) {
  const bytes = decodeBase64url(text, where);
  if (bytes.length !== size) throw new Refused("key.malformed", where, `The member must encode exactly ${size} bytes.`);
  return bytes;
}

async function parsePublicJwk(jwk, where) {
  if (!isObject(jwk)) throw new Refused("key.malformed", where, "A JWK is a JSON object.");
  if (DATA.private_members.some((name) => jwk.has(name))) {
    throw new Refused("key.private", where, "Give the public half only, and replace this key: it was shown.");
  }
  const [kty, crv] = [jwk.get("kty"), jwk.get("crv")];
  const curve = isText(crv) && kty === "EC" ? DATA.curves.find((one) => one.crv === crv) : undefined;
  let key;
  if (curve) key = await parseEc(jwk, curve, where);
  else if (kty === "OKP" && crv === "Ed25519") key = await parseEd25519(jwk, where);
  else if (kty === "AKP") key = await parseMlDsa(jwk, where);
  else throw new Refused("key.unsupported", where, "Use an EC key on P-256, P-384 or P-521, Ed25519, or ML-DSA.");
  checkPurpose(jwk, key, where);
  const names = Object.keys(key.jwk).sort();
  key.thumbprint = await digestText("sha-256", JSON.stringify(Object.fromEntries(names.map((name) => [name, key.jwk[name]]))));
  return key;
}

async function parseEc(jwk, curve, where) {
  const [x, y] = ["x", "y"].map((name) => jwkText(jwk, name, where));
  const [a, b] = [[x, "x"], [y, "y"]].map(([text, name]) => bigint(jwkBytes(text, curve.size, `${where}/${name}`)));
  const prime = BigInt(curve.prime);
  if (a >= prime || b >= prime) throw new Refused("key.malformed", where, "A coordinate is not below the curve's prime.");
  const members = { crv: curve.crv, kty: "EC", x, y };
  const how = { name: "ECDSA", namedCurve: curve.crv };
  try {
    const key = await crypto.subtle.importKey("jwk", members, how, false, ["verify"]);
    return { algorithm: curve.algorithm, jwk: members, key, how: { name: "ECDSA", hash: curve.hash } };
  } catch {
    throw new Refused("key.malformed", where, "The point is not on the curve.");
  }
}

async function parseEd25519(jwk, where) {
  const x = jwkText(jwk, "x", where);
  const bytes = jwkBytes(x, 32, `${where}/x`);
  if (!isUsableEd25519(bytes)) throw new Refused("key.malformed", `${where}/x`, "The point is not a valid public key.");
  const how = { name: "Ed25519" };
  const key = await importOrNothing("raw", bytes, how);
  return { algorithm: "EdDSA", jwk: { crv: "Ed25519", kty: "OKP", x }, key, how };
}

async function parseMlDsa(jwk, where) {
  const alg = jwk.get("alg");
  if (!isText(alg)) throw new Refused("key.malformed", `${where}/alg`, "An AKP key must have `alg`.");
  const known = DATA.ml_dsa.find((one) => one.algorithm === alg);
  if (!known) throw new Refused("key.unsupported", `${where}/alg`, "Use ML-DSA-44, ML-DSA-65 or ML-DSA-87.");
  const pub = jwkText(jwk, "pub", where);
  const bytes = jwkBytes(pub, known.public_size, `${where}/pub`);
  if (!isUsableMlDsa(bytes)) throw new Refused("key.malformed", `${where}/pub`, "Anyone could forge signatures for this key.");
  const members = { alg, kty: "AKP", pub };
  const how = { name: alg };
  return { algorithm: alg, jwk: members, key: await importOrNothing("jwk", members, how), how };
}

// Nothing where this browser lacks the algorithm; its signatures are then not checked here.
async function importOrNothing(format, key, how) {
  try {
    return await crypto.subtle.importKey(format, key, how, false, ["verify"]);
  } catch {
    return null;
  }
}

function checkPurpose(jwk, key, where) {
  if ((jwk.get("use") ?? (jwk.has("use") ? null : "sig")) !== "sig") {
    throw new Refused("key.unsupported", `${where}/use`, "The key is not for signatures.");
  }
  const operations = jwk.has("key_ops") ? jwk.get("key_ops") : ["verify"];
  if (!Array.isArray(operations) || !operations.includes("verify")) {
    throw new Refused("key.unsupported", `${where}/key_ops`, "The key is not for verifying.");
  }
  if (jwk.has("alg") && !headerNames(key.algorithm).includes(jwk.get("alg"))) {
    throw new Refused("key.unsupported", `${where}/alg`, "The key's type signs with another algorithm.");
  }
}

const headerNames = (algorithm) => DATA.algorithms.find((one) => one.name === algorithm).header_names;

// Whether the signature is this key's; undefined where this browser cannot tell.
async function verifies(key, message, signature) {
  if (signature.length !== DATA.algorithms.find((one) => one.name === key.algorithm).signature_size) return false;
  return key.key ? crypto.subtle.verify(key.how, key.key, signature, message) : undefined;
}

function checkNotPublished(key, published, where) {
  if (published.includes(key.thumbprint)) {
    throw new Refused("key.published", where, "The private half of this key stands in a public document.");
  }
}

// The one reader of JWK sets, as sdcard/jose/key_sets.py: `kid` → its keys, several only for different algorithms.
// Entries are independent: what cannot be used is in `leftOut`, and a set with nothing else is refused.
async function parseKeySet(value, where, member = "keys", check = () => {}) {
  const entries = isObject(value) ? value.get(member) : undefined;
  if (!Array.isArray(entries)) throw new Refused("trust.malformed", where, `A JWKS is an object with an array \`${member}\`.`);
  const keys = new Map();
  const leftOut = [];
  for (const [number, entry] of entries.entries()) {
    const here = `${where}/${member}/${number}`;
    try {
      const key = await parsePublicJwk(entry, here);
      check(key, here);
      const kid = entry.has("kid") ? entry.get("kid") : key.thumbprint;
      if (!isText(kid)) throw new Refused("trust.malformed", `${here}/kid`, "A `kid` is a string.");
      if (!keys.has(kid)) keys.set(kid, new Map());
      if (!keys.get(kid).has(key.thumbprint)) keys.get(kid).set(key.thumbprint, { key, here });
    } catch (refusal) {
      if (!(refusal instanceof Refused)) throw refusal;
      leftOut.push(refusal);
    }
  }
  const found = unambiguous(keys, leftOut);
  if (leftOut.length > 0 && found.size === 0) throw leftOut[0];
  found.leftOut = leftOut;
  return found;
}

// Leaves out every `kid` that names two keys of one algorithm.
function unambiguous(keys, leftOut) {
  const found = new Map();
  for (const [kid, named] of keys) {
    const seen = new Set();
    const repeated = [...named.values()].filter(({ key }) => seen.has(key.algorithm) || !seen.add(key.algorithm));
    const hint = "Another key of this set has the same `kid` and algorithm, so the `kid` names neither.";
    if (repeated.length > 0) leftOut.push(...repeated.map(({ here }) => new Refused("trust.malformed", `${here}/kid`, hint)));
    else found.set(kid, [...named.values()].map(({ key }) => key));
  }
  return found;
}

const saidOf = (refusals) => refusals.map((one) => `${one.rule} at ${one.where}`).join(", ");

// What a person pastes as keys: a trust document, issuer metadata, a JWK set, or one JWK.
// `issuer` is null where the keys come without one: then they count as keys of the Issuer that the card names.
async function parseTrust(text, depth, check = () => {}) {
  const document = parseJsonObject(utf8(text), "trust", depth);
  if (document.has("kty")) {
    const key = await parsePublicJwk(document, "trust");
    check(key, "trust");
    const kid = document.has("kid") ? document.get("kid") : key.thumbprint;
    return { named: null, keys: new Map([[kid, [key]]]), alone: key };
  }
  if (document.has("keys")) {
    const keys = await parseKeySet(document, "trust", "keys", check);
    return { named: null, keys, leftOut: keys.leftOut };
  }
  if (document.has("issuer")) {
    if (!document.has("jwks")) throw new Refused("trust.malformed", "trust/jwks", "This metadata has no keys in it. Paste its `jwks_uri`'s document.");
    const keys = await parseKeySet(document.get("jwks"), "trust/jwks");
    return { named: new Map([[document.get("issuer"), { keys, statusKeys: new Map() }]]), leftOut: keys.leftOut };
  }
  return parseTrustDocument(document);
}

async function parseTrustDocument(document) {
  const issuers = document.get("issuers");
  if (!isObject(issuers) || issuers.size === 0) {
    throw new Refused("trust.malformed", "trust", "Paste a JWK, a JWK set, issuer metadata, or a trust document with `issuers`.");
  }
  const named = new Map();
  const leftOut = [];
  for (const [issuer, entry] of issuers) {
    const where = `trust/issuers/${issuer}`;
    try {
      const keys = await parseKeySet(entry, where);
      const statusKeys = entry.has("status_keys") ? await parseStatusKeys(entry, where) : new Map();
      named.set(issuer, { keys, statusKeys });
      leftOut.push(...keys.leftOut, ...(statusKeys.leftOut ?? []));
    } catch (refusal) {
      if (!(refusal instanceof Refused)) throw refusal;
      leftOut.push(refusal);
    }
  }
  if (named.size === 0) throw leftOut[0];
  const expires = document.has("exp") ? numericDate(document.get("exp"), "trust/exp") : null;
  return { named, expires, leftOut };
}

// Without a usable one, no status of the Issuer can be checked; only what is no array refuses the Issuer.
async function parseStatusKeys(entry, where) {
  try {
    return await parseKeySet(entry, where, "status_keys");
  } catch (refusal) {
    if (!(refusal instanceof Refused) || refusal.where === where) throw refusal;
    return Object.assign(new Map(), { leftOut: [refusal] });
  }
}

function keyFor(trust, issuer, kid, alg) {
  const listed = trust.named ? (isText(issuer) ? trust.named.get(issuer)?.keys : undefined) : trust.keys;
  if (!listed) throw new Refused("issuer.unknown", "issuer-jwt/iss", "Add the Issuer if you trust it.");
  return trust.alone ?? pick(listed, kid, "issuer-header/kid", "The Issuer is trusted, but this key is not listed.", alg);
}

// The one key that a header names. Keys are not tried one after another: of alternatives, `alg` chooses.
function findKey(keys, kid, alg) {
  const named = (kid === undefined && keys.size === 1 ? [...keys.values()][0] : isText(kid) ? keys.get(kid) : undefined) ?? [];
  const fitting = named.length > 1 ? named.filter((key) => headerNames(key.algorithm).includes(alg)) : named;
  return fitting.length === 1 ? fitting[0] : undefined;
}

function pick(keys, kid, where, hint, alg) {
  const key = findKey(keys, kid, alg);
  if (!key) throw new Refused("issuer.key-unknown", where, hint);
  return key;
}
