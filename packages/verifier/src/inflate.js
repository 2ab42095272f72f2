// ZLIB (RFC 1950, 1951), bounded. The runtimes' DecompressionStream differ about what is cut off or goes on too long.
import { Refused } from "./json.js";

// Of each code (RFC 1951 3.2.5): how many bits follow, and the least value. Eight lengths, or four distances, have none; then each number
// of bits is there four times, or twice. The longest length is an exception.
const LENGTH_BITS = Array.from({ length: 29 }, (_, i) => (i < 8 || i === 28 ? 0 : (i >> 2) - 1));
const DISTANCE_BITS = Array.from({ length: 30 }, (_, i) => (i < 4 ? 0 : (i >> 1) - 1));
/** @param {number[]} bits @param {number} first */
const sums = (bits, first) => bits.map((count) => (first += 1 << count) - (1 << count));
const LENGTHS = [...sums(LENGTH_BITS.slice(0, 28), 3), 258];
const DISTANCES = sums(DISTANCE_BITS, 1);
const ORDER = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];

/** @typedef {{ counts: Uint16Array, symbols: Uint16Array }} Code */

class Broken extends Error {}

/**
 * @param {Uint8Array} data
 * @param {string} where
 * @param {number} most bytes that are accepted
 */
export function inflate(data, where, most) {
  const inflater = new Inflater(data, most);
  try {
    return inflater.whole();
  } catch (problem) {
    if (!(problem instanceof Broken)) throw problem;
    if (inflater.tooLong) throw new Refused("limit.bytes", where, `A status list has at most ${most} bytes.`);
    throw new Refused("status-list.malformed", where, "This is not a ZLIB stream, or it ends too soon or too late.");
  }
}

class Inflater {
  /**
   * @param {Uint8Array} data
   * @param {number} most
   */
  constructor(data, most) {
    this.data = data;
    this.most = most;
    this.at = 2;
    this.bits = 0;
    this.count = 0;
    this.out = new Uint8Array(Math.min(most, Math.max(1024, 4 * data.length)));
    this.size = 0;
    this.tooLong = false;
  }

  whole() {
    const [method, flags] = this.data;
    if (this.data.length < 6 || (method & 15) !== 8 || method >> 4 > 7 || ((method << 8) | flags) % 31 !== 0 || flags & 32) throw new Broken();
    for (let isLast = 0; !isLast;) {
      isLast = this.take(1);
      this.block(this.take(2));
    }
    const [a, b, c, d] = this.data.subarray(this.at);
    if (this.at + 4 !== this.data.length || adler32(this.out.subarray(0, this.size)) !== ((a << 24) | (b << 16) | (c << 8) | d) >>> 0) throw new Broken();
    return this.out.slice(0, this.size);
  }

  /** @param {number} kind */
  block(kind) {
    if (kind === 0) this.stored();
    else if (kind === 1) this.codes(FIXED_LENGTHS, FIXED_DISTANCES);
    else if (kind === 2) this.dynamic();
    else throw new Broken();
  }

  /** @param {number} count */
  take(count) {
    while (this.count < count) {
      if (this.at >= this.data.length) throw new Broken();
      this.bits |= this.data[this.at++] << this.count;
      this.count += 8;
    }
    const value = this.bits & ((1 << count) - 1);
    this.bits >>>= count;
    this.count -= count;
    return value;
  }

  /** @param {number} byte */
  put(byte) {
    if (this.size >= this.most) {
      this.tooLong = true;
      throw new Broken();
    }
    if (this.size === this.out.length) {
      const wider = new Uint8Array(Math.min(this.most, 2 * this.size));
      wider.set(this.out);
      this.out = wider;
    }
    this.out[this.size++] = byte;
  }

  stored() {
    this.take(this.count & 7);
    const length = this.take(16);
    if (this.take(16) !== (length ^ 0xffff)) throw new Broken();
    for (let i = 0; i < length; i++) this.put(this.take(8));
  }

  /** @param {Code} code */
  symbol({ counts, symbols }) {
    let code = 0, first = 0, index = 0;
    for (let length = 1; length <= 15; length++) {
      code |= this.take(1);
      const count = counts[length];
      if (code - count < first) return symbols[index + (code - first)];
      index += count;
      first = (first + count) << 1;
      code <<= 1;
    }
    throw new Broken();
  }

  /**
   * @param {Code} lengths
   * @param {Code} distances
   */
  codes(lengths, distances) {
    for (;;) {
      const symbol = this.symbol(lengths);
      if (symbol < 256) {
        this.put(symbol);
        continue;
      }
      if (symbol === 256) return;
      if (symbol > 285) throw new Broken();
      const length = LENGTHS[symbol - 257] + this.take(LENGTH_BITS[symbol - 257]);
      const far = this.symbol(distances);
      if (far > 29) throw new Broken();
      const distance = DISTANCES[far] + this.take(DISTANCE_BITS[far]);
      if (distance > this.size) throw new Broken();
      for (let i = 0; i < length; i++) this.put(this.out[this.size - distance]);
    }
  }

  dynamic() {
    const [literals, distances, codes] = [this.take(5) + 257, this.take(5) + 1, this.take(4) + 4];
    if (literals > 286 || distances > 30) throw new Broken();
    const own = new Uint8Array(19);
    for (let i = 0; i < codes; i++) own[ORDER[i]] = this.take(3);
    const lengths = this.lengths(codeOf(own, false), literals + distances);
    if (lengths[256] === 0) throw new Broken();
    this.codes(codeOf(lengths.subarray(0, literals), true), codeOf(lengths.subarray(literals), true));
  }

  /**
   * @param {Code} code
   * @param {number} count
   */
  lengths(code, count) {
    const lengths = new Uint8Array(count);
    for (let at = 0; at < count;) {
      const symbol = this.symbol(code);
      if (symbol < 16) {
        lengths[at++] = symbol;
        continue;
      }
      if (symbol === 16 && at === 0) throw new Broken();
      const value = symbol === 16 ? lengths[at - 1] : 0;
      const times = symbol === 16 ? 3 + this.take(2) : symbol === 17 ? 3 + this.take(3) : 11 + this.take(7);
      if (at + times > count) throw new Broken();
      lengths.fill(value, at, at + times);
      at += times;
    }
    return lengths;
  }
}

/**
 * @param {Uint8Array} lengths
 * @param {boolean} mayBeIncomplete a single code of one bit, as zlib permits
 * @returns {Code}
 */
function codeOf(lengths, mayBeIncomplete) {
  const counts = new Uint16Array(16);
  for (const length of lengths) counts[length]++;
  let left = 1;
  for (let length = 1; length <= 15; length++) {
    left = (left << 1) - counts[length];
    if (left < 0) throw new Broken();
  }
  const used = lengths.length - counts[0];
  if (left > 0 && !(mayBeIncomplete && (used === 0 || (used === 1 && counts[1] === 1)))) throw new Broken();
  const offsets = new Uint16Array(16);
  for (let length = 1; length < 15; length++) offsets[length + 1] = offsets[length] + counts[length];
  const symbols = new Uint16Array(lengths.length);
  lengths.forEach((length, symbol) => {
    if (length !== 0) symbols[offsets[length]++] = symbol;
  });
  counts[0] = 0;
  return { counts, symbols };
}

const FIXED_LENGTHS = codeOf(Uint8Array.from({ length: 288 }, (_, i) => (i < 144 ? 8 : i < 256 ? 9 : i < 280 ? 7 : 8)), true);
const FIXED_DISTANCES = codeOf(new Uint8Array(32).fill(5), true);

/** @param {Uint8Array} bytes */
function adler32(bytes) {
  let a = 1, b = 0;
  for (const byte of bytes) {
    a = (a + byte) % 65521;
    b = (b + a) % 65521;
  }
  return ((b << 16) | a) >>> 0;
}
