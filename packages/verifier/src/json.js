// Refusals, base64url and strict JSON, as sdcard/encoding.py reads them.
// JSON objects are Maps, so a member named "__proto__" is a member like any other. Integers are numbers, or BigInts
// beyond 2^53. Numbers written with a fraction or an exponent are Reals. Every loop is linear in the text.
import { DATA } from "./data.js";

/** @typedef {null | boolean | string | number | bigint | Real | Json[] | JsonObject} Json */
/** @typedef {Map<string, Json>} JsonObject */
/** An id of the rule catalogue. @typedef {keyof typeof import("./rules.js").RULES} Rule */
/** @typedef {{ rule: Rule, where: string, hint: string }} Finding */

/**
 * A document breaks a rule. `rule` is an id of the rule catalogue and `where` the place, as in the Python library.
 * No value of a card or token is part of it.
 */
export class Refused extends Error {
  /**
   * @param {Rule} rule
   * @param {string} where
   * @param {string} [hint]
   * @param {Finding[]} [others] further findings of the same document
   */
  constructor(rule, where, hint = "", others = []) {
    super(`${rule} at ${where}${hint && `: ${hint}`}`);
    this.name = "Refused";
    this.rule = rule;
    this.where = where;
    this.hint = hint;
    /** @type {Finding[]} */
    this.findings = [{ rule, where, hint }, ...others];
  }}

/** A caller broke the contract of a function: a fault of the program, not of a document. */
export class Misuse extends TypeError {
  /** @param {string} message */
  constructor(message) {
    super(message);
    this.name = "Misuse";
  }
}

/** A number that was written with a fraction or an exponent: 1.0 is not 1. */
export class Real {
  /** @param {number} value */
  constructor(value) {
    this.value = value;
  }
}

/** @type {(value: unknown) => value is JsonObject} */
export const isObject = (value) => value instanceof Map;
/** @type {(value: unknown) => value is string} */
export const isText = (value) => typeof value === "string";
/** @type {(value: unknown) => value is number | bigint} */
export const isInteger = (value) => typeof value === "number" || typeof value === "bigint";
/** @type {(value: unknown) => value is number | bigint | Real} */
export const isNumber = (value) => isInteger(value) || value instanceof Real;
/** The number itself, comparable with `<` and `>`. @type {(value: number | bigint | Real) => number | bigint} */
export const numberOf = (value) => (value instanceof Real ? value.value : value);
/** @param {string} text */
export const utf8 = (text) => new TextEncoder().encode(text);

/** A text of another party in UTF-8. @param {string} text @param {string} where */
export function utf8Of(text, where) {
  if (!text.isWellFormed()) throw new Refused("encoding.utf8", where);
  return utf8(text);
}

const LONGEST_SEGMENT = 256;

/**
 * A place beneath another. Long names are cut, because senders choose them.
 * @param {string} where
 * @param {...(string | number)} segments
 */
export function within(where, ...segments) {
  return [where, ...segments.map((segment) => {
    const text = String(segment);
    return text.length > LONGEST_SEGMENT && codePoints(text) > LONGEST_SEGMENT ? `${[...text.slice(0, 2 * LONGEST_SEGMENT)].slice(0, LONGEST_SEGMENT).join("")}…` : text;
  })].join("/");
}

/** The length in code points, as Python counts. @param {string} text */
export function codePoints(text) {
  let count = text.length;
  for (let at = 0; at < text.length - 1; at++) {
    if (/** @type {number} */ (text.codePointAt(at)) > 0xffff) count--;
  }
  return count;
}

// -- base64url and UTF-8 ----------------------------------------------------------------------------------------------

const ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
const VALUES = new Uint8Array(128).fill(255);
for (let value = 0; value < 64; value++) VALUES[ALPHABET.charCodeAt(value)] = value;

/** @param {Uint8Array} bytes */
export function encodeBase64url(bytes) {
  let text = "";
  for (let at = 0; at < bytes.length; at += 3) {
    const three = (bytes[at] << 16) | ((bytes[at + 1] ?? 0) << 8) | (bytes[at + 2] ?? 0);
    const count = Math.min(bytes.length - at, 3) + 1;
    for (let i = 0; i < count; i++) text += ALPHABET[(three >> (18 - 6 * i)) & 63];
  }
  return text;
}

/**
 * Each byte string has one text: no padding, no white space, no spare bits.
 * @param {string} text
 * @param {string} where
 */
export function decodeBase64url(text, where) {
  const bytes = new Uint8Array((text.length * 3) >> 2);
  let bits = 0, count = 0, at = 0;
  for (let i = 0; i < text.length; i++) {
    const value = VALUES[text.charCodeAt(i)] ?? 255;
    if (value > 63) throw new Refused("encoding.base64url", where);
    bits = (bits << 6) | value;
    count += 6;
    if (count >= 8) {
      count -= 8;
      bytes[at++] = bits >> count;
      bits &= (1 << count) - 1;
    }
  }
  if (text.length % 4 === 1 || text === "" || bits !== 0) throw new Refused("encoding.base64url", where);
  return bytes;
}

/**
 * @param {Uint8Array} bytes
 * @param {string} where
 */
export function decodeUtf8(bytes, where) {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    throw new Refused("encoding.utf8", where);
  }
}

// -- reading ----------------------------------------------------------------------------------------------------------

/**
 * @param {Uint8Array} bytes
 * @param {string} where
 * @param {number} depth the deepest nesting that is accepted
 * @returns {Json}
 */
export function parseJson(bytes, where, depth) {
  const text = decodeUtf8(bytes, where);
  checkContainers(text, where, depth, Math.max(DATA.most_containers, Math.floor(bytes.length / DATA.bytes_per_container)));
  return new JsonReader(text, where).read();
}

/**
 * @param {Uint8Array} bytes
 * @param {string} where
 * @param {number} depth
 */
export function parseJsonObject(bytes, where, depth) {
  const value = parseJson(bytes, where, depth);
  if (!isObject(value)) throw new Refused("json.malformed", where, "A JSON object is expected.");
  return value;
}

/**
 * Counts brackets outside of strings, before anything recurses over them.
 * @param {string} text
 * @param {string} where
 * @param {number} depth
 * @param {number} most
 */
function checkContainers(text, where, depth, most) {
  let open = 0, opened = 0, brackets = 0;
  for (let at = 0; at < text.length; at++) {
    const c = text.charCodeAt(at);
    if (c === 34) { // a string: up to the next quote that no backslash escapes
      for (at++; at < text.length && text.charCodeAt(at) !== 34; at++) {
        if (text.charCodeAt(at) === 92) at++;
      }
    } else if (c === 91 || c === 123) {
      if (++open > depth && brackets < 2 * most) throw new Refused("json.depth", where);
      brackets++;
      opened++;
    } else if (c === 93 || c === 125) {
      open--;
      brackets++;
    }
  }
  if (opened > most) throw new Refused("limit.containers", where);
}

/** @type {Map<string | undefined, string>} */
const ESCAPES = new Map(Object.entries({ '"': '"', "\\": "\\", "/": "/", b: "\b", f: "\f", n: "\n", r: "\r", t: "\t" }));
const NUMBER = /-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?/y;
const PLAIN = /[^"\\\0-\x1f]*/y;
const SPACE = /[ \t\n\r]*/y;
const MOST_DIGITS = 4300; // of an integer that Python reads

export class JsonReader {
  /**
   * What to say about a fault; the inspector says more.
   * @param {string} text
   * @param {number} at
   * @param {string} said
   */
  static fault = (text, at, said) => `Character ${at + 1}.`;

  /**
   * @param {string} text
   * @param {string} where
   */
  constructor(text, where) {
    this.text = text;
    this.where = where;
    this.at = 0;
    this.lone = false;
  }

  /** @returns {Json} */
  read() {
    this.space();
    const value = this.value();
    this.space();
    if (this.at !== this.text.length) this.malformed("Extra data");
    if (this.lone) throw new Refused("json.surrogate", this.where);
    return value;
  }

  /**
   * @param {string} said
   * @param {number} [at]
   * @returns {never}
   */
  malformed(said, at = this.at) {
    throw new Refused("json.malformed", this.where, JsonReader.fault(this.text, at, said));
  }

  space() {
    SPACE.lastIndex = this.at;
    SPACE.test(this.text);
    this.at = SPACE.lastIndex;
  }

  /** @returns {Json} */
  value() {
    switch (this.text[this.at]) {
      case "{": return this.object();
      case "[": return this.array();
      case '"': return this.string();
      case "t": return this.word("true", true);
      case "f": return this.word("false", false);
      case "n": return this.word("null", null);
      default: return this.number();
    }
  }

  /**
   * @param {string} word
   * @param {Json} value
   */
  word(word, value) {
    if (!this.text.startsWith(word, this.at)) this.malformed("value");
    this.at += word.length;
    return value;
  }

  object() {
    /** @type {JsonObject} */
    const members = new Map();
    let repeated = false;
    this.at++;
    this.space();
    if (this.text[this.at] === "}") {
      this.at++;
      return members;
    }
    for (;;) {
      if (this.text[this.at] !== '"') this.malformed("name");
      const name = this.string();
      this.space();
      if (this.text[this.at++] !== ":") this.malformed(":", this.at - 1);
      this.space();
      repeated ||= members.has(name);
      members.set(name, this.value());
      this.space();
      const c = this.text[this.at++];
      if (c === "}") break;
      if (c !== ",") this.malformed(",", this.at - 1);
      this.space();
    }
    if (repeated) throw new Refused("json.duplicate-member", this.where);
    return members;
  }

  array() {
    /** @type {Json[]} */
    const elements = [];
    this.at++;
    this.space();
    if (this.text[this.at] === "]") {
      this.at++;
      return elements;
    }
    for (;;) {
      elements.push(this.value());
      this.space();
      const c = this.text[this.at++];
      if (c === "]") return elements;
      if (c !== ",") this.malformed(",", this.at - 1);
      this.space();
    }
  }

  string() {
    const begin = this.at++;
    const parts = [];
    for (;;) {
      PLAIN.lastIndex = this.at;
      PLAIN.test(this.text);
      parts.push(this.text.slice(this.at, PLAIN.lastIndex));
      this.at = PLAIN.lastIndex;
      const c = this.text[this.at];
      if (c === undefined) this.malformed("string", begin);
      if (c !== '"' && c !== "\\") this.malformed("control");
      this.at++;
      if (c === '"') break;
      parts.push(this.escape(begin));
    }
    const result = parts.length === 1 ? parts[0] : parts.join("");
    if (parts.length > 1 && !result.isWellFormed()) this.lone = true; // only an escape can make a lone surrogate
    return result;
  }

  /**
   * @param {number} begin
   * @returns {string}
   */
  escape(begin) {
    const c = this.text[this.at++];
    if (c === undefined) this.malformed("string", begin);
    if (c !== "u") return ESCAPES.get(c) ?? this.malformed("escape", this.at - 2);
    const digits = this.text.slice(this.at, this.at + 4);
    if (!/^[0-9A-Fa-f]{4}$/.test(digits)) this.malformed("escape", this.at - 1);
    this.at += 4;
    return String.fromCharCode(Number.parseInt(digits, 16));
  }

  /** @returns {Json} */
  number() {
    if (["NaN", "Infinity", "-Infinity"].some((word) => this.text.startsWith(word, this.at))) this.inexact();
    NUMBER.lastIndex = this.at;
    const match = NUMBER.exec(this.text);
    if (!match) this.malformed("value");
    this.at = NUMBER.lastIndex;
    const [literal, fraction, exponent] = match;
    if (fraction === undefined && exponent === undefined) return this.integer(literal);
    const value = Number(literal);
    if (!Number.isFinite(value) || !sameDecimal(literal, String(value))) this.inexact();
    return new Real(value);
  }

  /** @param {string} literal */
  integer(literal) {
    if (literal.length > MOST_DIGITS + 1 || literal.replace("-", "").length > MOST_DIGITS) this.inexact();
    const value = Number(literal);
    return Number.isSafeInteger(value) ? value || 0 : BigInt(literal);
  }

  /** @returns {never} */
  inexact() {
    throw new Refused("json.number", this.where);
  }
}

/**
 * Whether two decimal literals are the same number. The second is the shortest text of the double nearest to the first.
 * @param {string} one
 * @param {string} other
 */
function sameDecimal(one, other) {
  const [a, b] = [decimalParts(one), decimalParts(other)];
  if (!a || !b || a.power > 999999999999999999n || a.power < -1999999999999999997n) return false; // Python's decimal
  return a.digits === b.digits && a.exponent === b.exponent && (a.negative === b.negative || a.digits === "");
}

/** @param {string} literal */
function decimalParts(literal) {
  const [mantissa, exponent = "0"] = literal.toLowerCase().split("e");
  const [whole, fraction = ""] = mantissa.replace("-", "").split(".");
  const digits = (whole + fraction).replace(/^0+/, "");
  let end = digits.length;
  while (end > 0 && digits[end - 1] === "0") end--; // a regular expression would be quadratic
  const size = exponent.replace(/^[-+]?0*/, "");
  if (size.length > 30) return null;
  const power = BigInt(exponent.startsWith("-") ? `-${size || 0}` : size || 0) - BigInt(fraction.length);
  return { digits: digits.slice(0, end), power, exponent: end === 0 ? 0n : power + BigInt(digits.length - end), negative: mantissa.startsWith("-") };
}

// -- values -----------------------------------------------------------------------------------------------------------

/**
 * The same value of the same type: 1, 1.0 and true all differ.
 * @param {Json | undefined} one
 * @param {Json | undefined} other
 * @returns {boolean}
 */
export function sameJson(one, other) {
  if (isObject(one)) {
    return isObject(other) && one.size === other.size && [...one].every(([name, value]) => other.has(name) && sameJson(value, other.get(name)));
  }
  if (Array.isArray(one)) {
    return Array.isArray(other) && one.length === other.length && one.every((value, i) => sameJson(value, other[i]));
  }
  if (one instanceof Real) return other instanceof Real && one.value === other.value;
  return one === other;
}

/**
 * One text for each JSON value, the names sorted: for comparing, never for signing.
 * @param {Json} value
 * @returns {string}
 */
export function sortedText(value) {
  if (isObject(value)) {
    const names = [...value.keys()].sort();
    return `{${names.map((name) => `${JSON.stringify(name)}:${sortedText(/** @type {Json} */ (value.get(name)))}`).join(",")}}`;
  }
  if (Array.isArray(value)) return `[${value.map(sortedText).join(",")}]`;
  if (value instanceof Real) return /[.e]/.test(String(value.value)) ? String(value.value) : `${value.value}.0`;
  return typeof value === "bigint" ? String(value) : JSON.stringify(value);
}

/**
 * Ordinary JavaScript values. Objects have no prototype, so "__proto__" is a member like any other.
 * @param {Json} value
 * @returns {any}
 */
export function plainJson(value) {
  if (isObject(value)) {
    const made = Object.create(null);
    for (const [name, inner] of value) made[name] = plainJson(inner);
    return Object.freeze(made);
  }
  if (Array.isArray(value)) return Object.freeze(value.map(plainJson));
  return value instanceof Real ? value.value : value;
}

/**
 * @param {object} given
 * @param {readonly string[]} known
 */
export function checkNames(given, known) {
  if (typeof given !== "object" || given === null) throw new Misuse("the terms are an object");
  const unknown = Object.keys(given).find((name) => !known.includes(name));
  if (unknown !== undefined) throw new Misuse(`there is no term \`${unknown}\`; there are ${known.join(", ")}`);
  const inherited = known.find((name) => name in given && !Object.hasOwn(given, name)); // a polluted prototype decides nothing
  if (inherited !== undefined) throw new Misuse(`the term \`${inherited}\` is inherited; give it in the object itself`);
}

/**
 * @param {string} what
 * @param {unknown} value
 * @returns {string}
 */
export function checkText(what, value) {
  if (typeof value !== "string" || !value.trim() || !value.isWellFormed()) throw new Misuse(`${what} is a text that is not blank`);
  return value;
}
