// Strict base64url and strict JSON: what sdcard/encoding.py accepts, and nothing else.
// JSON objects become Maps, so that no member's name ("__proto__", "constructor") means anything.
// Integers are numbers, or BigInts beyond 2^53; numbers written with a fraction or an exponent are Reals.

class Refused extends Error {
  constructor(rule, where, hint = "") {
    super(`${rule} at ${where}`);
    Object.assign(this, { rule, where, hint });
  }
}

class Real {
  constructor(value) {
    this.value = value;
  }
}

const isObject = (value) => value instanceof Map;
const isText = (value) => typeof value === "string";
const isInteger = (value) => typeof value === "number" || typeof value === "bigint";
const isNumber = (value) => isInteger(value) || value instanceof Real;
const numberOf = (value) => (value instanceof Real ? value.value : value); // comparable with < and >
const utf8 = (text) => new TextEncoder().encode(text);

// What is forgiven to people, as in sdcard/lenient.py: a byte order mark, white space around, lines that were wrapped.
const withoutEnd = (text) => text.replace(/(?<![ \t\r\n])[ \t\r\n]+$/, "");
const lenientDocument = (text) => text.replace(/^\ufeff/, "");
function lenientToken(text) {
  const trimmed = withoutEnd(lenientDocument(text).replace(/^[ \t\r\n]+/, ""));
  return trimmed.startsWith("{") ? trimmed.replace(/=\r?\n/g, "\n").replace(/"(?:[^"\\]|\\[^])*"?/g, joinLines) : joinLines(trimmed);
}
function joinLines(text) {
  const lines = text.split(/[\r\n]+/);
  const last = lines.pop();
  return lines.length === 0 ? text : lines.map((line) => line.replace(/^[ \t]+/, "").replace(/(?<![ \t])[ \t]+$/, "").replace(/=$/, "")).join("") + last.replace(/^[ \t]+/, "");
}

const codePoints = (text) => {
  let count = text.length;
  for (let at = 0; at < text.length - 1; at++) {
    if (text.codePointAt(at) > 0xffff) count--;
  }
  return count;
};

function encodeBase64url(bytes) {
  let text = "";
  for (let at = 0; at < bytes.length; at += 0x8000) {
    text += String.fromCharCode(...bytes.subarray(at, at + 0x8000));
  }
  return btoa(text).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

function decodeBase64url(text, where) {
  if (/^[A-Za-z0-9_-]+$/.test(text) && text.length % 4 !== 1) {
    const bytes = Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (c) => c.charCodeAt(0));
    if (encodeBase64url(bytes) === text) return bytes;
  }
  throw new Refused("encoding.base64url", where);
}

function decodeUtf8(bytes, where) {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    throw new Refused("encoding.utf8", where);
  }
}

function parseJson(bytes, where, depth) {
  const text = decodeUtf8(bytes, where);
  checkContainers(text, where, depth, Math.max(DATA.most_containers, Math.floor(bytes.length / DATA.bytes_per_container)));
  return new JsonReader(text, where).read();
}

function parseJsonObject(bytes, where, depth) {
  const value = parseJson(bytes, where, depth);
  if (!isObject(value)) throw new Refused("json.malformed", where, "A JSON object is expected.");
  return value;
}

// Brackets outside of strings, before anything recurses over them.
function checkContainers(text, where, depth, most) {
  let open = 0, opened = 0, brackets = 0;
  for (let at = 0; at < text.length; at++) {
    const c = text[at];
    if (c === '"') {
      for (at++; at < text.length && text[at] !== '"'; at++) {
        if (text[at] === "\\") at++;
      }
    } else if (c === "[" || c === "{") {
      if (++open > depth && brackets < 2 * most) throw new Refused("json.depth", where);
      brackets++;
      opened++;
    } else if (c === "]" || c === "}") {
      open--;
      brackets++;
    }
  }
  if (opened > most) throw new Refused("limit.containers", where);
}

const ESCAPES = new Map(Object.entries({ '"': '"', "\\": "\\", "/": "/", b: "\b", f: "\f", n: "\n", r: "\r", t: "\t" }));
const NUMBER = /-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?/y;
const MOST_DIGITS = 4300; // of an integer that Python reads

const EXPECTED = {
  "Extra data": "text follows the end of the JSON value", name: "a name in double quotes is expected", ":": "a colon is expected",
  ",": "a comma or a closing bracket is expected", string: "a string has no closing quote", value: "a value is expected",
  control: "a string contains a line break or control character", escape: "JSON has no such escape sequence",
};

// Line, column and kind of what is no JSON. Of the text only punctuation is named.
function jsonFault(whole, place, said) {
  const text = withoutEnd(whole);
  const at = Math.min(place, text.length);
  if (!text) return "It is empty.";
  const before = withoutEnd(text.slice(0, at));
  const where = /^[\]}]/.test(text.slice(at)) && before.endsWith(",") ? before.length - 1 : at;
  const lines = text.slice(0, where).split("\n");
  return `Line ${lines.length}, column ${codePoints(lines.at(-1)) + 1}: ${jsonFaultAt(text, where, said)}.`;
}

function jsonFaultAt(text, at, said) {
  const rest = withoutEnd(text.slice(at));
  if (!rest) return "the text ends too early";
  if (rest.startsWith("\ufeff")) return "remove the byte order mark";
  if (/^(?:#|\/\/|\/\*)/.test(rest)) return "JSON has no comments";
  if (/^['\u2018\u2019\u201c\u201d\u201e]/.test(rest)) return "names and strings need straight double quotes";
  if (/^,[ \t\n\r]*[\]}]/.test(rest)) return "remove the comma before the closing bracket";
  return /^[{}[\]:,]/.test(rest) ? `\`${rest[0]}\` is unexpected: ${EXPECTED[said]}` : EXPECTED[said];
}

class JsonReader {
  constructor(text, where) {
    this.text = text;
    this.where = where;
    this.at = 0;
    this.lone = false;
  }

  read() {
    this.space();
    const value = this.value();
    this.space();
    if (this.at !== this.text.length) this.malformed("Extra data");
    if (this.lone) throw new Refused("json.surrogate", this.where);
    return value;
  }

  malformed(said, at = this.at) {
    throw new Refused("json.malformed", this.where, jsonFault(this.text, at, said));
  }

  space() {
    while (" \t\n\r".includes(this.text[this.at] ?? "x")) this.at++;
  }

  value() {
    const c = this.text[this.at];
    if (c === "{") return this.object();
    if (c === "[") return this.array();
    if (c === '"') return this.string();
    for (const [word, value] of [["true", true], ["false", false], ["null", null]]) {
      if (this.text.startsWith(word, this.at)) {
        this.at += word.length;
        return value;
      }
    }
    return this.number();
  }

  object() {
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
    let result = "";
    const begin = this.at;
    for (let from = ++this.at; ; this.at++) {
      const c = this.text[this.at];
      if (c === undefined) this.malformed("string", begin);
      if (c < " ") this.malformed("control");
      if (c !== '"' && c !== "\\") continue;
      result += this.text.slice(from, this.at++);
      if (c === '"') break;
      result += this.escape(begin);
      from = this.at--;
    }
    if (!result.isWellFormed()) this.lone = true;
    return result;
  }

  escape(begin) {
    const c = this.text[this.at++];
    if (c === undefined) this.malformed("string", begin);
    if (c !== "u") return ESCAPES.get(c) ?? this.malformed("escape", this.at - 2);
    const digits = this.text.slice(this.at, this.at + 4);
    if (!/^[0-9A-Fa-f]{4}$/.test(digits)) this.malformed("escape", this.at - 1);
    this.at += 4;
    return String.fromCharCode(Number.parseInt(digits, 16));
  }

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

  integer(literal) {
    if (literal.replace("-", "").length > MOST_DIGITS) this.inexact();
    const value = Number(literal);
    return Number.isSafeInteger(value) ? value + 0 || 0 : BigInt(literal);
  }

  inexact() {
    throw new Refused("json.number", this.where);
  }
}

// Whether two decimal literals are the same number: the second is the shortest text of the double nearest to the first.
function sameDecimal(one, other) {
  const [a, b] = [one, other].map(decimalParts);
  if (a.power > 999999999999999999n || a.power < -1999999999999999997n) return false; // as far as Python's decimal goes
  return a.digits === b.digits && a.exponent === b.exponent && (a.negative === b.negative || a.digits === "");
}

function decimalParts(literal) {
  const [, sign, whole, fraction = "", exponent = "0"] = /^(-?)([0-9]+)(?:\.([0-9]+))?(?:[eE]([-+]?[0-9]+))?$/.exec(literal);
  const digits = (whole + fraction).replace(/^0+/, "");
  const kept = digits.replace(/0+$/, "");
  const power = BigInt(exponent) - BigInt(fraction.length);
  return { digits: kept, power, exponent: kept === "" ? 0n : power + BigInt(digits.length - kept.length), negative: sign === "-" };
}

// The same value of the same type: 1, 1.0 and true all differ.
function sameJson(one, other) {
  if (isObject(one)) {
    return isObject(other) && one.size === other.size
      && [...one].every(([name, value]) => other.has(name) && sameJson(value, other.get(name)));
  }
  if (Array.isArray(one)) {
    return Array.isArray(other) && one.length === other.length && one.every((value, i) => sameJson(value, other[i]));
  }
  if (one instanceof Real) return other instanceof Real && one.value === other.value;
  return one === other;
}

// One text for each JSON value, the names sorted: for comparing, never for signing.
function sortedText(value) {
  if (isObject(value)) {
    const names = [...value.keys()].sort();
    return `{${names.map((name) => `${JSON.stringify(name)}:${sortedText(value.get(name))}`).join(",")}}`;
  }
  if (Array.isArray(value)) return `[${value.map(sortedText).join(",")}]`;
  if (value instanceof Real) return `${value.value}${Number.isInteger(value.value) ? ".0" : ""}`;
  return typeof value === "bigint" ? String(value) : JSON.stringify(value);
}
