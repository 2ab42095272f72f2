/**
 * Issuers that are trusted by certificate roots: `x5c` (RFC 7515 4.1.6, RFC 5280 6). Give `certificates` to `parseTrustedIssuers` or
 * `verifyTrustList`. As sdcard/jose/certificates.py: nothing is fetched, and the revocation of certificates is not checked.
 */
import { Refused, decodeBase64url, encodeBase64url, isText } from "./json.js";
import { readPublicJwk, refusalOf } from "./keys.js";

/** @import { Json, JsonObject } from "./json.js" */
/** @import { PublicKey } from "./keys.js" */
/** @import { CertificateRoots } from "./trust.js" */

const MOST_CERTIFICATES = 4;
const MOST_BYTES = 16_384;
const MOST_SIGNATURES = 128; // that are checked to find one path

// -- DER (X.690), strictly ---------------------------------------------------------------------------------------------

/** @typedef {{ tag: number, body: Uint8Array<ArrayBuffer>, whole: Uint8Array<ArrayBuffer> }} Element */

const [BOOLEAN, INTEGER, BITS, OCTETS, NULL, OID, SEQUENCE, SET, UTC_TIME, TIME] = [1, 2, 3, 4, 5, 6, 0x30, 0x31, 0x17, 0x18];
const OTHER = 256; // a tag whose number is above 30
const NOTHING = new Uint8Array(0);
const ABSENT = { tag: -1, body: NOTHING, whole: NOTHING };

class Broken extends Error {}

/** @param {unknown} holds */
function demand(holds) {
  if (!holds) throw new Broken();
}

/** @param {Uint8Array} bytes */
const hex = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
/** @param {Uint8Array} one @param {Uint8Array} other */
const same = (one, other) => one.length === other.length && one.every((byte, i) => byte === other[i]);

/** @param {Uint8Array<ArrayBuffer>} bytes */
function elementsOf(bytes) {
  /** @type {Element[]} */
  const found = [];
  for (let at = 0; at < bytes.length; ) {
    const begin = at;
    let tag = bytes[at++];
    if ((tag & 31) === 31) {
      while (bytes[at++] > 127);
      const number = bytes.subarray(begin + 1, at);
      checkBase128(hex(number));
      demand(number.length < 6 && (number.length > 1 || number[0] > 30) && (number.length < 5 || number[0] < 144)); // in 32 bits
      tag = OTHER;
    }
    let length = bytes[at++];
    if (length > 127) {
      const count = length & 127;
      length = 0;
      for (let i = 0; i < count; i++) length = length * 256 + bytes[at++];
      demand(length > 127 && length >= 256 ** (count - 1));
    }
    demand(at + length <= bytes.length);
    found.push({ tag, body: bytes.subarray(at, at + length), whole: bytes.subarray(begin, at + length) });
    at += length;
  }
  return found;
}

/**
 * The elements with these tags, in order. A tag in brackets is optional, and stands for `ABSENT`.
 * @param {Uint8Array<ArrayBuffer>} bytes
 * @param {...(number | [number])} tags
 */
function shape(bytes, ...tags) {
  const elements = elementsOf(bytes);
  let at = 0;
  const found = tags.map((tag) => {
    if (elements[at]?.tag === Number(tag)) return elements[at++];
    demand(Array.isArray(tag));
    return ABSENT;
  });
  demand(at === elements.length);
  return found;
}

/** @param {Element} element @param {number} tag */
function only(element, tag) {
  demand(element.tag === tag);
  return element;
}

/** Numbers to the base 128, each minimal and below 2 ** 128. @param {string} digits hexadecimal */
function checkBase128(digits) {
  const numbers = digits.match(/(?:[89a-f].)*[0-7]./g) ?? [];
  demand(digits !== "" && numbers.join("") === digits && numbers.every((one) => !one.startsWith("80") && (one.length < 38 || /^8[0-3].{36}$/.test(one))));
}

/** @param {Element} element */
function bitString({ body }) {
  const unused = body[0];
  demand(unused <= 7 && (body.length > 1 ? (body[body.length - 1] & ((1 << unused) - 1)) === 0 : unused === 0));
  return body.subarray(1);
}

/** The bytes of an INTEGER. @param {Element} element */
function integer({ body }) {
  const redundant = body[0] === 0 ? body[1] < 128 : body[0] === 255 && body[1] > 127;
  demand(body.length > 0 && !redundant);
  return body;
}

/** The bytes of an INTEGER that is at least 0, without a leading zero. @param {Element} element @param {number} most bytes */
function natural(element, most) {
  const bytes = integer(element);
  const without = bytes[0] === 0 ? bytes.subarray(1) : bytes;
  demand(bytes[0] < 128 && without.length <= most);
  return without;
}

/** @param {Element} element */
function isTrue({ tag, body }) {
  demand(tag < 0 || (body.length === 1 && body[0] === 255)); // FALSE is the default, and not written
  return tag >= 0;
}

/** @param {Uint8Array} bytes */
function ascii(bytes) {
  demand(bytes.every((byte) => byte < 128));
  return String.fromCharCode(...bytes);
}

/** @param {Uint8Array} bytes */
function utf8Text(bytes) {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    throw new Broken();
  }
}

/** An object identifier in hexadecimal digits. @param {Uint8Array} body */
function objectId(body) {
  demand(body.length <= 63);
  checkBase128(hex(body));
  return hex(body);
}

/** The hexadecimal digits of PrintableString, UniversalString and BMPString. @type {Record<number, RegExp>} */
const STRINGS = {
  0x13: /^(?:2[0789b-f]|3[0-9adf]|[46][1-9a-f]|[57][0-9a])*$/,
  0x1c: /^(?:00(?:0[1-9a-f]|10).{4}|0000(?!d[89a-f]).{4})*$/,
  0x1e: /^(?:(?!d[89a-f]).{4}|d[89ab]..d[c-f]..)*$/,
};
const TEXTS = [4, 0x0c, 0x12, 0x13, 0x14, 0x16, 0x17, 0x18, 0x1a, 0x1c, 0x1e];
const UNIQUE_ID = "55042d";

/** @param {Element} name @param {boolean} [isRead] whether its values are texts */
function checkName(name, isRead = false) {
  for (const part of elementsOf(name.body)) {
    const pairs = elementsOf(only(part, SET).body).map((pair) => {
      const [type, value, ...more] = elementsOf(only(pair, SEQUENCE).body);
      const id = objectId(only(type ?? ABSENT, OID).body);
      demand(value && more.length === 0 && (STRINGS[value.tag]?.test(hex(value.body)) ?? true));
      if (isRead) demand(TEXTS.includes(value.tag) || (value.tag === BITS && id === UNIQUE_ID));
      if (isRead && value.tag !== BITS && value.tag < 0x1c) utf8Text(value.body);
      return hex(pair.whole);
    });
    demand(pairs.every((pair, i) => i === 0 || pairs[i - 1] <= pair)); // DER: the members of a SET are sorted
    if (isRead) demand(pairs.length > 0 && new Set(pairs).size === pairs.length);
  }
}

const EC_KEY = "2a8648ce3d0201";
/** The parameters of algorithms: none (ECDSA, DSA, ML-DSA, RFC 8410), or perhaps NULL (RSA, hashes). Those of RSASSA-PSS are a SEQUENCE, and DSA's three numbers. */
const WITHOUT_PARAMETERS = /^(?:2a8648ce3d04030[1-4]|2b65(?:6[ef]|7[01])|6086480165030403(?:0[1-49a-c]|1[1-3]))$/;
const WITH_NULL = /^(?:2a864886f70d01010[15b-e]|2b0e03021[ad]|60864801650304020[1-47-a]|6086480165030403(?:0[d-f]|10))$/;
const [PSS, DSA] = ["2a864886f70d01010a", "2a8648ce380401"];

/** An algorithm with its parameters, in hexadecimal digits. @param {Element} element */
function algorithmId({ body, whole }) {
  const [id, parameters = ABSENT, ...more] = elementsOf(body);
  const name = objectId(only(id ?? ABSENT, OID).body);
  demand(more.length === 0 && (parameters.tag < 0 || !WITHOUT_PARAMETERS.test(name)));
  if (WITH_NULL.test(name)) demand(parameters.tag < 0 || hex(parameters.whole) === "0500");
  if (name === PSS) demand(parameters.tag < 0 || parameters.tag === SEQUENCE);
  if (name === DSA) shape(only(parameters, SEQUENCE).body, INTEGER, INTEGER, INTEGER);
  if (name === EC_KEY) {
    if (parameters.tag === OID) objectId(parameters.body);
    else if (parameters.tag === SEQUENCE) shape(parameters.body, INTEGER, SEQUENCE, SEQUENCE, OCTETS, INTEGER, [INTEGER], [SEQUENCE]);
    else demand(hex(parameters.whole) === "0500");
  }
  return hex(whole);
}

/** Unix seconds; NaN for a GeneralizedTime before 2050, which RFC 5280 4.1.2.5 forbids. @param {Element} element */
function readTime({ tag, body }) {
  const text = ascii(body);
  const match = (tag === UTC_TIME ? /^(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)Z$/ : tag === TIME ? /^(\d{4})(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)Z$/ : /^$/).exec(text);
  if (!match?.[1]) throw new Broken();
  const [year, ...rest] = match.slice(1).map(Number);
  const full = tag === TIME ? year : year + (year < 50 ? 2000 : 1900);
  const iso = `${String(full).padStart(4, "0")}-${match[2]}-${match[3]}T${match[4]}:${match[5]}:${match[6]}.000Z`;
  const date = new Date(iso);
  demand(rest.length === 5 && !Number.isNaN(date.getTime()) && date.toISOString() === iso);
  return tag === TIME && full < 2050 ? NaN : date.getTime() / 1000;
}

// -- certificates (RFC 5280 4) -----------------------------------------------------------------------------------------

/** @typedef {{ kind: number, body: Uint8Array }} GeneralName */
/** @typedef {{ permitted: GeneralName[], excluded: GeneralName[] }} NameConstraints */
/**
 * @typedef {object} Extensions what they say; absent ones say nothing
 * @property {number} [usage] the first eight bits of `keyUsage`
 * @property {boolean} [isAuthority]
 * @property {number} [pathLength]
 * @property {string[]} [purposes]
 * @property {GeneralName[]} [names]
 * @property {NameConstraints} [limits]
 * @property {boolean} [isKeyIdentified] whether `authorityKeyIdentifier` has a key identifier
 */
/**
 * @typedef {object} Certificate
 * @property {Uint8Array<ArrayBuffer>} der
 * @property {Uint8Array<ArrayBuffer>} signed
 * @property {string} algorithm
 * @property {Uint8Array<ArrayBuffer>} signature
 * @property {boolean} isRegular
 * @property {Uint8Array<ArrayBuffer>} issuer
 * @property {Uint8Array<ArrayBuffer>} subject
 * @property {[number, number]} validity
 * @property {{ algorithm: string, key: Uint8Array<ArrayBuffer>, whole: Uint8Array<ArrayBuffer> }} spki
 * @property {Map<string, boolean>} criticality of each extension
 * @property {Extensions} says
 */

const [EMAIL, DNS, DIRECTORY, URI, IP] = [0x81, 0x82, 0xa4, 0x86, 0x87];
const KEY_IDS = "551d0e", USAGE = "551d0f", NAMES = "551d11", BASIC = "551d13", LIMITS = "551d1e", AUTHORITY = "551d23", PURPOSES = "551d25", ACCESS = "2b06010505070101";
const [CLIENT, ANY] = ["2b06010505070302", "551d2500"];

/** @param {Element} element @param {boolean} isLimit @returns {GeneralName} */
function generalName({ tag, body }, isLimit = false) {
  if (tag === EMAIL || tag === DNS || tag === URI) demand(!(utf8Text(body).includes("*") && tag === DNS && isLimit));
  else if (tag === DIRECTORY) checkName(shape(body, SEQUENCE)[0], true);
  else if (tag === IP) demand((!isLimit && [4, 16].includes(body.length)) || isNetwork(body));
  else if (tag === 0x88) objectId(body);
  else {
    const [id, value] = shape(only({ tag, body, whole: body }, 0xa0).body, OID, 0xa0); // of another name
    objectId(id.body);
    demand(elementsOf(value.body).length === 1);
  }
  return { kind: tag, body };
}

/** Whether these are an address and its mask, without a bit of a host. @param {Uint8Array} body */
function isNetwork(body) {
  const bits = Array.from(body, (byte) => byte.toString(2).padStart(8, "0")).join("");
  const [base, mask] = [bits.slice(0, bits.length / 2), bits.slice(bits.length / 2)];
  return [8, 32].includes(body.length) && /^1*0*$/.test(mask) && !base.slice(mask.lastIndexOf("1") + 1).includes("1");
}

/** @param {Element} element */
const generalNames = ({ body }) => elementsOf(body).map((one) => generalName(one));

/** @param {Element} element */
function subtrees({ tag, body }) {
  demand(tag < 0 || body.length > 0);
  return elementsOf(body).map((one) => {
    const [base] = elementsOf(only(one, SEQUENCE).body);
    const [least, most] = shape(one.body.subarray((base ?? ABSENT).whole.length), [0x80], [0x81]);
    demand(least.tag < 0 || natural(least, 8).length > 0); // zero is the default, and not written
    if (most.tag >= 0) natural(most, 8);
    return generalName(base ?? ABSENT, true);
  });
}

/** @type {Record<string, (value: Uint8Array<ArrayBuffer>) => Extensions>} */
const READERS = {
  [KEY_IDS]: (value) => (shape(value, OCTETS), {}),
  [USAGE]: (value) => {
    const [usage = 0, more = 0] = bitString(shape(value, BITS)[0]);
    demand((usage & 0x08) !== 0 || ((usage & 0x01) === 0 && (more & 0x80) === 0)); // enciphering or deciphering "only" qualifies key agreement
    return { usage };
  },
  [NAMES]: (value) => ({ names: generalNames(shape(value, SEQUENCE)[0]) }),
  [BASIC]: (value) => {
    const [authority, length] = shape(shape(value, SEQUENCE)[0].body, [BOOLEAN], [INTEGER]);
    const isAuthority = isTrue(authority);
    demand(isAuthority || length.tag < 0);
    return { isAuthority, ...(length.tag < 0 ? {} : { pathLength: Number(`0x0${hex(natural(length, 8))}`) }) };
  },
  [LIMITS]: (value) => {
    const [permitted, excluded] = shape(shape(value, SEQUENCE)[0].body, [0xa0], [0xa1]).map(subtrees);
    demand(permitted.length + excluded.length > 0);
    return { limits: { permitted, excluded } };
  },
  [AUTHORITY]: (value) => {
    const [key, issuer, serial] = shape(shape(value, SEQUENCE)[0].body, [0x80], [0xa1], [0x82]);
    demand(issuer.tag < 0 ? serial.tag < 0 : serial.tag >= 0);
    generalNames(issuer);
    if (serial.tag >= 0) integer(serial);
    return { isKeyIdentified: key.tag >= 0 };
  },
  [PURPOSES]: (value) => {
    const purposes = elementsOf(shape(value, SEQUENCE)[0].body).map((one) => objectId(only(one, OID).body));
    demand(purposes.length > 0);
    return { purposes };
  },
  [ACCESS]: (value) => {
    for (const one of elementsOf(shape(value, SEQUENCE)[0].body)) {
      const [method, name, ...more] = elementsOf(only(one, SEQUENCE).body);
      objectId(only(method ?? ABSENT, OID).body);
      demand(more.length === 0);
      generalName(name ?? ABSENT);
    }
    return {};
  },
};

/** @param {Uint8Array<ArrayBuffer>} der @returns {Certificate} */
function readCertificate(der) {
  const [tbs, algorithm, signature] = shape(shape(der, SEQUENCE)[0].body, SEQUENCE, SEQUENCE, BITS);
  const parts = shape(tbs.body, [0xa0], INTEGER, SEQUENCE, SEQUENCE, SEQUENCE, SEQUENCE, SEQUENCE, [0x81], [0x82], [0xa3]);
  const [version, serial, sameAlgorithm, issuer, validity, subject, spki, issuerId, subjectId, extensions] = parts;
  demand(version.tag < 0 || hex(version.body) === "020102");
  for (const name of [issuer, subject]) checkName(name);
  for (const id of [issuerId, subjectId]) if (id.tag >= 0) bitString(id);
  algorithmId(sameAlgorithm);
  const [begin, end, ...more] = elementsOf(validity.body);
  demand(end && more.length === 0);
  const [keyAlgorithm, key] = shape(spki.body, SEQUENCE, BITS);
  const [kind, point] = [algorithmId(keyAlgorithm), bitString(key)];
  const number = integer(serial);
  demand(natural(serial, number.length).length > 0); // RFC 5280 4.1.2.2: positive
  const isRegular = version.tag >= 0 && same(algorithm.whole, sameAlgorithm.whole) && number.length <= 21 && issuer.body.length > 0;
  return {
    der, signed: tbs.whole, algorithm: algorithmId(algorithm), signature: bitString(signature), isRegular, issuer: issuer.whole, subject: subject.whole,
    validity: [readTime(begin), readTime(end)], spki: { algorithm: key.body[0] === 0 ? kind : "", key: point, whole: spki.whole }, // a key has whole bytes
    ...readExtensions(extensions),
  };
}

/** @param {Element} element */
function readExtensions({ tag, body }) {
  /** @type {Map<string, boolean>} */
  const criticality = new Map();
  /** @type {Extensions} */
  const says = {};
  for (const one of tag < 0 ? [] : elementsOf(shape(body, SEQUENCE)[0].body)) {
    const [id, critical, value] = shape(only(one, SEQUENCE).body, OID, [BOOLEAN], OCTETS);
    const name = objectId(id.body);
    demand(!criticality.has(name));
    criticality.set(name, isTrue(critical));
    Object.assign(says, Object.hasOwn(READERS, name) ? READERS[name](value.body) : {});
  }
  return { criticality, says };
}

// -- paths (RFC 5280 6) ------------------------------------------------------------------------------------------------

/** Of keys: the curve, or RSA. @type {Record<string, string>} */
const KEYS = { "301306072a8648ce3d020106082a8648ce3d030107": "P-256", "301006072a8648ce3d020106052b81040022": "P-384", "301006072a8648ce3d020106052b81040023": "P-521", "300d06092a864886f70d0101010500": "RSA" };
/** Of signatures: whether by an EC key, and the hash. @type {Record<string, [boolean, string]>} */
const SIGNATURES = {
  "300a06082a8648ce3d040302": [true, "SHA-256"], "300a06082a8648ce3d040303": [true, "SHA-384"], "300a06082a8648ce3d040304": [true, "SHA-512"],
  "300d06092a864886f70d01010b0500": [false, "SHA-256"], "300d06092a864886f70d01010c0500": [false, "SHA-384"], "300d06092a864886f70d01010d0500": [false, "SHA-512"],
};

/** @param {Certificate} certificate @param {number} now whole seconds */
function isCurrent({ isRegular, validity: [begin, end], criticality }, now) {
  return isRegular && begin <= now && now <= end && [...criticality].every(([name, isCritical]) => !isCritical || Object.hasOwn(READERS, name));
}

/** @param {Certificate} certificate */
function isForSignatures({ says: { usage = 0, isAuthority, purposes } }) {
  return (usage & 0x80) !== 0 && (usage & 0x04) === 0 && isAuthority !== true && (purposes === undefined || purposes.includes(ANY));
}

/** @param {Certificate} certificate @param {number} depth authorities below it */
function isAuthority({ says, criticality }, depth) {
  const { usage = 0, pathLength = Infinity, purposes = [ANY], isKeyIdentified = true } = says;
  const isOpen = [KEY_IDS, AUTHORITY, PURPOSES, ACCESS].every((name) => criticality.get(name) !== true);
  return isOpen && says.isAuthority === true && criticality.get(BASIC) === true && depth <= pathLength && (usage & 0x04) !== 0 && isKeyIdentified && (purposes.includes(ANY) || purposes.includes(CLIENT));
}

/** Whether all names are within the limits. Names other than DNS names are not compared, so a limit of their kind permits none. @param {readonly GeneralName[]} names @param {NameConstraints} limits */
function keepsTo(names, { permitted, excluded }) {
  return names.every((name) => {
    const [allowed, barred] = [permitted, excluded].map((list) => list.filter(({ kind }) => kind === name.kind));
    if (allowed.length + barred.length === 0) return true;
    if (name.kind !== DNS) return false;
    const text = ascii(name.body).toLowerCase();
    const base = dnsName(text.startsWith("*.") ? text.slice(2) : text);
    const isUnder = (/** @type {string} */ one, /** @type {string} */ other) => one === other || one.endsWith(`.${other}`);
    const isIn = (/** @type {GeneralName} */ limit) => isUnder(base, dnsName(ascii(limit.body).toLowerCase()));
    const meets = (/** @type {GeneralName} */ limit) => isIn(limit) || (text !== base && ascii(limit.body).toLowerCase().replace(/^[^.]*\./, "") === base);
    return (allowed.length === 0 || allowed.some(isIn)) && !barred.some(meets);
  });
}

/** @param {string} text */
function dnsName(text) {
  demand(text.length <= 253 && text.split(".").every((label) => /^(?!-)[a-z0-9-]{1,63}$(?<!-)/.test(label)));
  return text;
}

/** @param {Certificate} certificate @param {string} where @returns {Promise<PublicKey>} */
async function ecKey({ spki: { algorithm, key } }, where) {
  const size = (key.length - 1) / 2;
  demand(key[0] === 4 && Number.isInteger(size));
  const [x, y] = [key.subarray(1, 1 + size), key.subarray(1 + size)].map(encodeBase64url);
  return readPublicJwk(new Map([["kty", "EC"], ["crv", KEYS[algorithm]], ["x", x], ["y", y]]), where);
}

/** @param {Certificate} issuer @param {Certificate} certificate */
async function isSignedBy(issuer, { algorithm, signed, signature }) {
  const kind = KEYS[issuer.spki.algorithm];
  const [isEc, hash] = SIGNATURES[algorithm] ?? [];
  if (!kind || !hash || isEc === (kind === "RSA")) return false;
  if (!isEc) {
    const key = await crypto.subtle.importKey("spki", issuer.spki.whole, { name: "RSASSA-PKCS1-v1_5", hash }, false, ["verify"]);
    return /** @type {RsaKeyAlgorithm} */ (key.algorithm).modulusLength >= 2048 && crypto.subtle.verify("RSASSA-PKCS1-v1_5", key, signature, signed);
  }
  const { jwk } = await ecKey(issuer, "");
  const size = (issuer.spki.key.length - 1) / 2;
  const pair = new Uint8Array(2 * size);
  for (const [number, part] of shape(shape(signature, SEQUENCE)[0].body, INTEGER, INTEGER).map((one) => natural(one, size)).entries()) {
    pair.set(part, (number + 1) * size - part.length);
  }
  const key = await crypto.subtle.importKey("jwk", jwk, { name: "ECDSA", namedCurve: kind }, false, ["verify"]);
  return crypto.subtle.verify({ name: "ECDSA", hash }, key, pair, signed);
}

/** @implements {CertificateRoots} */
class Roots {
  /** @param {Certificate[]} roots */
  constructor(roots) {
    this.roots = roots;
  }

  /** @type {CertificateRoots["keyOf"]} */
  async keyOf(issuer, header, now, where) {
    const here = `${where}/x5c`;
    if (header.has("jwk") || header.has("jku")) throw new Refused("x5c.format", here, "A header with `x5c` has neither `jwk` nor `jku`.");
    const [leaf, ...others] = readChain(header.get("x5c"), here);
    if (!(await this.leadsFrom(leaf, others, Math.floor(now)))) throw new Refused("x5c.chain", here, "No valid path leads to a root that the trust document lists for the Issuer.");
    if (!isNamed(leaf, issuer)) throw new Refused("x5c.name", `${here}/0`, "Its subjectAltName has neither the URI `iss` nor the DNS name of its host.");
    try {
      return await ecKey(leaf, here);
    } catch {
      throw new Refused("x5c.chain", `${here}/0`, "The key has no supported algorithm.");
    }
  }

  /** @param {Certificate} leaf @param {Certificate[]} others @param {number} now */
  async leadsFrom(leaf, others, now) {
    let left = MOST_SIGNATURES;
    const { roots } = this;
    /** @type {(certificate: Certificate, depth: number, below: readonly GeneralName[]) => Promise<boolean>} */
    const reaches = async (certificate, depth, below) => {
      const { says, issuer, subject, der } = certificate;
      const names = depth > 0 && same(issuer, subject) ? below : [...below, ...(says.names ?? [])];
      if (says.limits && !keepsTo(names, says.limits)) return false;
      if (roots.some((root) => same(root.der, der))) return true;
      if (depth >= MOST_CERTIFICATES) return false;
      for (const above of [...roots, ...others]) {
        const isCandidate = same(above.subject, issuer) && isCurrent(above, now) && isAuthority(above, depth);
        if (isCandidate && left-- > 0 && (await isSignedBy(above, certificate).catch(() => false)) && (await reaches(above, depth + 1, names).catch(() => false))) return true;
      }
      return false;
    };
    return isCurrent(leaf, now) && isForSignatures(leaf) && reaches(leaf, 0, []).catch(() => false);
  }
}

/** A wildcard, a parent domain and the common name do not count. @param {Certificate} leaf @param {string} issuer */
function isNamed({ says: { names = [] } }, issuer) {
  const [uris, hosts] = [URI, DNS].map((kind) => names.filter((one) => one.kind === kind).map(({ body }) => utf8Text(body)));
  const host = /^https:\/\/([^/?#@:[\]\s%]+)(?:[/?#]|$)/i.exec(issuer)?.[1] ?? "";
  return uris.includes(issuer) || (host !== "" && host === host.toLowerCase() && hosts.includes(host));
}

/** @param {Json | undefined} value @param {string} where */
function readChain(value, where) {
  if (!Array.isArray(value) || value.length < 1 || value.length > MOST_CERTIFICATES) throw new Refused("x5c.format", where, `\`x5c\` is an array of 1 to ${MOST_CERTIFICATES} certificates.`);
  const all = value.map((text, number) => {
    if (!isText(text) || text.length > 2 * MOST_BYTES || !/^[A-Za-z0-9+/]*={0,2}$/.test(text) || text.length % 4 !== 0) throw unreadable(where, number);
    try {
      return text === "" ? NOTHING : decodeBase64url(text.replace(/=+$/, "").replaceAll("+", "-").replaceAll("/", "_"), where);
    } catch {
      throw unreadable(where, number);
    }
  });
  if (all.reduce((size, der) => size + der.length, 0) > MOST_BYTES) throw new Refused("x5c.format", where, `The certificates have at most ${MOST_BYTES} bytes together.`);
  return all.map((der, number) => {
    try {
      return readCertificate(der);
    } catch (problem) {
      if (!(problem instanceof Broken)) throw problem;
      throw unreadable(where, number);
    }
  });
}

/** @param {string} where @param {number} number */
const unreadable = (where, number) => new Refused("x5c.format", `${where}/${number}`, "A certificate is a string: canonical base64 of DER.");

/** Reads the certificate roots of trust documents, and verifies the chains of their Issuers. */
export const certificates = {
  /**
   * @param {Json | undefined} value an array of certificates as in `x5c`
   * @param {string} where
   * @returns {CertificateRoots}
   */
  readRoots(value, where) {
    const malformed = new Refused("trust.malformed", where, `Roots are an array of 1 to ${MOST_CERTIFICATES} certificates of authorities, each base64 of DER.`);
    /** @type {Certificate[]} */
    let roots = [];
    try {
      roots = readChain(value, where);
    } catch (problem) {
      refusalOf(problem);
    }
    if (roots.length === 0 || !roots.every(({ says }) => says.isAuthority === true)) throw malformed;
    return new Roots(roots);
  },
};
