// Public keys: a JWK in, the one algorithm that the key verifies with, and its thumbprint. JWK sets.
// As sdcard/jose/keys.py.
import { DATA } from "./data.js";
import { Misuse, Refused, decodeBase64url, encodeBase64url, isObject, isText, parseJsonObject, utf8, utf8Of, within } from "./json.js";
import { verifiesMlDsa } from "./ml-dsa.js";

/** @import { Json, JsonObject } from "./json.js" */

/**
 * @typedef {object} PublicKey
 * @property {string} algorithm the one algorithm that the key verifies with
 * @property {Record<string, string>} jwk the required members, sorted (RFC 7638)
 * @property {string} thumbprint SHA-256, base64url (RFC 7638)
 * @property {(message: BufferSource, signature: Uint8Array<ArrayBuffer>) => Promise<boolean>} verifies
 */
/** @typedef {Omit<PublicKey, "thumbprint">} UnnamedKey */

/**
 * @param {string} algorithm such as sha-256
 * @param {string} text
 */
export async function digestText(algorithm, text) {
  return encodeBase64url(new Uint8Array(await crypto.subtle.digest(algorithm.toUpperCase(), utf8(text))));
}

/** @param {Uint8Array} bytes */
const bigint = (bytes) => bytes.reduce((number, byte) => (number << 8n) | BigInt(byte), 0n);

/**
 * @param {bigint} base
 * @param {bigint} exponent
 * @param {bigint} modulus
 */
function power(base, exponent, modulus) {
  let result = 1n;
  for (base %= modulus; exponent > 0n; exponent >>= 1n, base = (base * base) % modulus) {
    if (exponent & 1n) result = (result * base) % modulus;
  }
  return result;
}

// y² = x³ − 3x + b over the field of each curve (FIPS 186): not every WebCrypto checks that a point is on its curve.
/** @type {Record<string, [prime: bigint, b: bigint]>} */
const CURVES = {
  "P-256": [2n ** 256n - 2n ** 224n + 2n ** 192n + 2n ** 96n - 1n, 0x5ac635d8aa3a93e7b3ebbd55769886bc651d06b0cc53b0f63bce3c3e27d2604bn],
  "P-384": [2n ** 384n - 2n ** 128n - 2n ** 96n + 2n ** 32n - 1n, 0xb3312fa7e23ee7e4988e056be3f82d19181d9c6efe8141120314088f5013875ac656398d8a2ed19d2a85c8edd3ec2aefn],
  "P-521": [2n ** 521n - 1n, 0x51953eb9618e1c9a1f929a21a0b68540eea2da725b99b315f3b8b489918ef109e156193951ec7e937b1652c0bd3bb1bf073573df883d2c34f1ef451fd46b503f00n],
};

/**
 * RFC 8032 5.1.3: whether 32 bytes are the one encoding of a point of the curve that is not of small order.
 * @param {Uint8Array} bytes
 */
function isUsableEd25519(bytes) {
  const p = 2n ** 255n - 19n;
  const d = ((-121665n * power(121666n, p - 2n, p)) % p + p) % p;
  const y = bigint(bytes.toReversed()) & (2n ** 255n - 1n);
  if (y >= p || DATA.ed25519_small_order.includes(String(y < p - y ? y : p - y))) return false; // of y and −y
  const product = ((y * y - 1n + p) * (d * y * y + 1n)) % p;
  return power(product, (p - 1n) / 2n, p) === 1n;
}

/**
 * Whether most coefficients of t1 (ten bits each, after 32 bytes of rho) are far from zero: see sdcard/jose/algorithms.py.
 * @param {Uint8Array} bytes
 */
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

/**
 * @param {JsonObject} jwk
 * @param {string} name
 * @param {string} where
 */
function jwkText(jwk, name, where) {
  const text = jwk.get(name);
  if (!isText(text)) throw new Refused("key.malformed", `${where}/${name}`, "The member must be a string.");
  return text;
}

/**
 * @param {string} text
 * @param {number} size
 * @param {string} where
 */
function jwkBytes(text, size, where) {
  const bytes = decodeBase64url(text, where);
  if (bytes.length !== size) throw new Refused("key.malformed", where, `The member must encode exactly ${size} bytes.`);
  return bytes;
}

/**
 * @param {Json | undefined} jwk
 * @param {string} where
 * @returns {Promise<PublicKey>}
 */
export async function readPublicJwk(jwk, where) {
  if (!isObject(jwk)) throw new Refused("key.malformed", where, "A JWK is a JSON object.");
  if (DATA.private_members.some((name) => jwk.has(name))) {
    throw new Refused("key.private", where, "Give the public half only, and replace this key: it was shown.");
  }
  const [kty, crv] = [jwk.get("kty"), jwk.get("crv")];
  const curve = kty === "EC" ? DATA.curves.find((one) => one.crv === crv) : undefined;
  let key;
  if (curve) key = await readEc(jwk, curve, where);
  else if (kty === "OKP" && crv === "Ed25519") key = await readEd25519(jwk, where);
  else if (kty === "AKP") key = await readMlDsa(jwk, where);
  else throw new Refused("key.unsupported", where, "Use an EC key on P-256, P-384 or P-521, Ed25519, or ML-DSA.");
  checkPurpose(jwk, key.algorithm, where);
  return { ...key, thumbprint: await digestText("sha-256", JSON.stringify(key.jwk)) };
}

/**
 * Reads a public JWK, as a text or an object.
 * @param {string | object} jwk
 */
export async function parsePublicJwk(jwk) {
  let text;
  try {
    text = typeof jwk === "string" ? jwk : JSON.stringify(jwk);
  } catch {
    throw new Misuse("a JWK is a text, or an object that is JSON");
  }
  return readPublicJwk(parseJsonObject(utf8Of(text ?? "", "key"), "key", DATA.limits.json_depth), "key");
}

/**
 * @param {string} algorithm
 * @param {Record<string, string>} jwk
 * @param {CryptoKey | null} imported
 * @param {AlgorithmIdentifier | EcdsaParams} how
 * @param {(message: BufferSource, signature: Uint8Array<ArrayBuffer>) => Promise<boolean> | boolean} [otherwise]
 * @returns {UnnamedKey}
 */
function newKey(algorithm, jwk, imported, how, otherwise = () => false) {
  const size = DATA.algorithms.find((one) => one.name === algorithm)?.signature_size;
  return {
    algorithm,
    jwk,
    async verifies(message, signature) {
      if (signature.length !== size) return false;
      if (!imported) return otherwise(message, signature);
      return crypto.subtle.verify(how, imported, signature, message).catch(() => false);
    },
  };
}

/**
 * @param {JsonObject} jwk
 * @param {typeof DATA.curves[number]} curve
 * @param {string} where
 */
async function readEc(jwk, curve, where) {
  const [x, y] = ["x", "y"].map((name) => jwkText(jwk, name, where));
  const [a, b] = [[x, "x"], [y, "y"]].map(([text, name]) => bigint(jwkBytes(text, curve.size, `${where}/${name}`)));
  const [prime, constant] = CURVES[curve.crv];
  if (a >= prime || b >= prime) throw new Refused("key.malformed", where, "A coordinate is not below the curve's prime.");
  const isOnCurve = (b * b - (a * a - 3n) * a - constant) % prime === 0n;
  const members = { crv: curve.crv, kty: "EC", x, y };
  const imported = await importOrNothing("jwk", members, { name: "ECDSA", namedCurve: curve.crv });
  if (!isOnCurve || !imported) throw new Refused("key.malformed", where, "The point is not on the curve.");
  return newKey(curve.algorithm, members, imported, { name: "ECDSA", hash: curve.hash });
}

/**
 * @param {JsonObject} jwk
 * @param {string} where
 */
async function readEd25519(jwk, where) {
  const x = jwkText(jwk, "x", where);
  const bytes = jwkBytes(x, 32, `${where}/x`);
  if (!isUsableEd25519(bytes)) throw new Refused("key.malformed", `${where}/x`, "The point is not a valid public key.");
  const imported = await importOrNothing("raw", bytes, { name: "Ed25519" });
  if (!imported) throw new Refused("key.unsupported", where, "This runtime has no Ed25519.");
  return newKey("EdDSA", { crv: "Ed25519", kty: "OKP", x }, imported, { name: "Ed25519" });
}

/**
 * @param {JsonObject} jwk
 * @param {string} where
 */
async function readMlDsa(jwk, where) {
  const alg = jwk.get("alg");
  if (!isText(alg)) throw new Refused("key.malformed", `${where}/alg`, "An AKP key must have `alg`.");
  const known = DATA.ml_dsa.find((one) => one.algorithm === alg);
  if (!known) throw new Refused("key.unsupported", `${where}/alg`, "Use ML-DSA-44, ML-DSA-65 or ML-DSA-87.");
  const pub = jwkText(jwk, "pub", where);
  const bytes = jwkBytes(pub, known.public_size, `${where}/pub`);
  if (!isUsableMlDsa(bytes)) throw new Refused("key.malformed", `${where}/pub`, "Anyone could forge signatures for this key.");
  const members = { alg, kty: "AKP", pub };
  const imported = await importOrNothing("jwk", members, { name: alg });
  return newKey(alg, members, imported, { name: alg }, (message, signature) => verifiesMlDsa(alg, bytes, /** @type {Uint8Array} */ (message), signature));
}

/**
 * Nothing where the runtime refuses the key, or lacks the algorithm.
 * @param {"jwk" | "raw"} format
 * @param {JsonWebKey | BufferSource} key
 * @param {AlgorithmIdentifier | EcKeyImportParams} how
 * @returns {Promise<CryptoKey | null>}
 */
async function importOrNothing(format, key, how) {
  try {
    return await crypto.subtle.importKey(/** @type {any} */ (format), /** @type {any} */ (key), how, false, ["verify"]);
  } catch {
    return null;
  }
}

/**
 * @param {JsonObject} jwk
 * @param {string} algorithm
 * @param {string} where
 */
function checkPurpose(jwk, algorithm, where) {
  if (jwk.has("use") && jwk.get("use") !== "sig") {
    throw new Refused("key.unsupported", `${where}/use`, "The key is not for signatures.");
  }
  const operations = jwk.has("key_ops") ? jwk.get("key_ops") : ["verify"];
  if (!Array.isArray(operations) || !operations.includes("verify")) {
    throw new Refused("key.unsupported", `${where}/key_ops`, "The key is not for verifying.");
  }
  if (jwk.has("alg") && !headerNames(algorithm).includes(jwk.get("alg"))) {
    throw new Refused("key.unsupported", `${where}/alg`, "The key's type signs with another algorithm.");
  }
}

/** The values of `alg` that mean this algorithm. @param {string} algorithm @returns {unknown[]} */
export const headerNames = (algorithm) => DATA.algorithms.find((one) => one.name === algorithm)?.header_names ?? [];

/**
 * @param {PublicKey} key
 * @param {readonly string[]} published beginnings of thumbprints, of 10 characters or more
 * @param {string} where
 */
export function checkNotPublished(key, published, where) {
  if (published.some((thumbprint) => key.thumbprint.startsWith(thumbprint))) {
    throw new Refused("key.published", where, "The private half of this key is in a public document.");
  }
}

// -- sets -------------------------------------------------------------------------------------------------------------

/** `kid` → its keys; several only for different algorithms. @typedef {Map<string, PublicKey[]>} Keys */
/** @typedef {{ keys: Keys, leftOut: Refused[] }} KeySet */

/**
 * The one reader of JWK sets. Entries are independent: what cannot be used is in `leftOut`, and a set with nothing
 * else is refused.
 * @param {Json | undefined} value
 * @param {string} where
 * @param {string} [member]
 * @param {(key: PublicKey, where: string) => void} [check]
 * @returns {Promise<KeySet>}
 */
export async function readKeySet(value, where, member = "keys", check = () => {}) {
  const entries = isObject(value) ? value.get(member) : undefined;
  if (!Array.isArray(entries)) throw new Refused("trust.malformed", where, `A JWKS is an object with an array \`${member}\`.`);
  /** @type {Map<string, Map<string, { key: PublicKey, here: string }>>} */
  const named = new Map();
  /** @type {Refused[]} */
  const leftOut = [];
  for (const [number, entry] of entries.entries()) {
    const here = within(where, member, number);
    try {
      const key = await readPublicJwk(entry, here);
      check(key, here);
      const kid = isObject(entry) && entry.has("kid") ? entry.get("kid") : key.thumbprint;
      if (!isText(kid)) throw new Refused("trust.malformed", `${here}/kid`, "A `kid` is a string.");
      const same = named.get(kid) ?? new Map();
      named.set(kid, same);
      if (!same.has(key.thumbprint)) same.set(key.thumbprint, { key, here });
    } catch (refusal) {
      leftOut.push(refusalOf(refusal));
    }
  }
  const keys = unambiguous(named, leftOut);
  if (leftOut.length > 0 && keys.size === 0) throw leftOut[0];
  return { keys, leftOut };
}

/** The refusal; throws any other error again. @param {unknown} problem */
export function refusalOf(problem) {
  if (problem instanceof Refused) return problem;
  throw problem;
}

/**
 * Leaves out every `kid` that names two keys of one algorithm.
 * @param {Map<string, Map<string, { key: PublicKey, here: string }>>} named
 * @param {Refused[]} leftOut
 */
function unambiguous(named, leftOut) {
  /** @type {Keys} */
  const found = new Map();
  for (const [kid, same] of named) {
    const seen = new Set();
    const repeated = [...same.values()].filter(({ key }) => seen.has(key.algorithm) || !seen.add(key.algorithm));
    const hint = "Another key of this set has the same `kid` and algorithm, so the `kid` names neither.";
    if (repeated.length > 0) for (const { here } of repeated) leftOut.push(new Refused("trust.malformed", `${here}/kid`, hint));
    else found.set(kid, [...same.values()].map(({ key }) => key));
  }
  return found;
}

/**
 * The one key that a header names. Keys are not tried one after another: of alternatives, `alg` chooses.
 * @param {Keys} keys
 * @param {Json | undefined} kid
 * @param {Json | undefined} alg
 */
export function findKey(keys, kid, alg) {
  const named = (kid === undefined && keys.size === 1 ? [...keys.values()][0] : isText(kid) ? keys.get(kid) : undefined) ?? [];
  const fitting = named.length > 1 ? named.filter((key) => headerNames(key.algorithm).includes(alg)) : named;
  return fitting.length === 1 ? fitting[0] : undefined;
}
