// ML-DSA verification (FIPS 204, algorithms 3 and 8) for runtimes whose WebCrypto lacks it. It has no secrets, so time does not
// matter. Keccak is FIPS 202, with each lane in two halves of 32 bits.

const Q = 8380417;
/** @type {Record<string, { k: number, l: number, tau: number, beta: number, gamma1Bits: number, parts: number, omega: number, hash: number }>} */
const SETS = {
  "ML-DSA-44": { k: 4, l: 4, tau: 39, beta: 78, gamma1Bits: 17, parts: 44, omega: 80, hash: 32 },
  "ML-DSA-65": { k: 6, l: 5, tau: 49, beta: 196, gamma1Bits: 19, parts: 16, omega: 55, hash: 48 },
  "ML-DSA-87": { k: 8, l: 7, tau: 60, beta: 120, gamma1Bits: 19, parts: 16, omega: 75, hash: 64 },
};

/**
 * The caller has checked the sizes of key and signature.
 * @param {string} name
 * @param {Uint8Array} key
 * @param {Uint8Array} message
 * @param {Uint8Array} signature
 */
export function verifiesMlDsa(name, key, message, signature) {
  const set = SETS[name];
  const z = unpackZ(signature.subarray(set.hash), set);
  const hints = unpackHints(signature.subarray(signature.length - set.omega - set.k), set);
  if (!z || !hints) return false;
  const seed = signature.subarray(0, set.hash);
  const c = toNtt(sampleInBall(seed, set.tau));
  const mu = shake(256, [shake(256, [key]).read(64), Uint8Array.of(0, 0), message]).read(64);
  const packed = [];
  for (let row = 0; row < set.k; row++) packed.push(highBits(approximate(key, row, z, c, set), hints[row], set));
  const again = shake(256, [mu, ...packed]).read(set.hash);
  return again.every((byte, i) => byte === seed[i]);
}

/**
 * A row of A·z − c·t1·2^d.
 * @param {Uint8Array} key
 * @param {number} row
 * @param {Float64Array[]} z
 * @param {Float64Array} c
 * @param {{ l: number }} set
 */
function approximate(key, row, z, c, set) {
  const packed = key.subarray(32 + 320 * row, 352 + 320 * row);
  const t1 = toNtt(Float64Array.from(unpack(packed, 10), (value) => (value * 8192) % Q));
  const sum = new Float64Array(256);
  for (let column = 0; column < set.l; column++) {
    const a = uniform(key.subarray(0, 32), column, row);
    for (let i = 0; i < 256; i++) sum[i] = (sum[i] + a[i] * z[column][i]) % Q;
  }
  for (let i = 0; i < 256; i++) sum[i] = (sum[i] + (Q - c[i]) * t1[i]) % Q;
  return fromNtt(sum);
}

/**
 * @param {Uint8Array} bytes
 * @param {number} width
 */
function unpack(bytes, width) {
  const values = new Float64Array(256);
  for (let i = 0; i < 256; i++) {
    const bit = i * width;
    let value = 0;
    for (let part = 3; part >= 0; part--) value = value * 256 + (bytes[(bit >> 3) + part] ?? 0);
    values[i] = Math.floor(value / 2 ** (bit & 7)) % 2 ** width;
  }
  return values;
}

/**
 * @param {Uint8Array} bytes
 * @param {{ l: number, beta: number, gamma1Bits: number }} set
 */
function unpackZ(bytes, { l, beta, gamma1Bits }) {
  const width = gamma1Bits + 1;
  const most = 2 ** gamma1Bits;
  const z = [];
  for (let i = 0; i < l; i++) {
    const values = unpack(bytes.subarray(32 * width * i, 32 * width * (i + 1)), width).map((value) => most - value);
    if (values.some((value) => Math.abs(value) >= most - beta)) return null;
    z.push(toNtt(values.map((value) => (value + Q) % Q)));
  }
  return z;
}

/**
 * Algorithm 21: each set of hints has one encoding.
 * @param {Uint8Array} bytes
 * @param {{ k: number, omega: number }} set
 */
function unpackHints(bytes, { k, omega }) {
  const hints = [];
  let index = 0;
  for (let row = 0; row < k; row++) {
    const end = bytes[omega + row];
    if (end < index || end > omega) return null;
    const own = new Uint8Array(256);
    for (let first = index; index < end; index++) {
      if (index > first && bytes[index - 1] >= bytes[index]) return null;
      own[bytes[index]] = 1;
    }
    hints.push(own);
  }
  return bytes.subarray(index, omega).some((byte) => byte !== 0) ? null : hints;
}

/**
 * UseHint and w1Encode (algorithms 40 and 28).
 * @param {Float64Array} values
 * @param {Uint8Array} hints
 * @param {{ parts: number }} set
 */
function highBits(values, hints, { parts }) {
  const step = (Q - 1) / parts; // 2·γ2
  const width = parts === 44 ? 6 : 4;
  const packed = new Uint8Array(32 * width);
  for (let i = 0; i < 256; i++) {
    let low = values[i] % step;
    if (low > step / 2) low -= step;
    let high = (values[i] - low) / step;
    if (values[i] - low === Q - 1) [high, low] = [0, low - 1];
    if (hints[i]) high = (high + (low > 0 ? 1 : parts - 1)) % parts;
    const bit = i * width;
    packed[bit >> 3] |= high << (bit & 7);
    if ((bit & 7) + width > 8) packed[(bit >> 3) + 1] |= high >> (8 - (bit & 7));
  }
  return packed;
}

// -- sampling ---------------------------------------------------------------------------------------------------------

/**
 * @param {Uint8Array} seed
 * @param {number} tau
 */
function sampleInBall(seed, tau) {
  const source = shake(256, [seed]);
  const signs = source.read(8);
  const c = new Float64Array(256);
  for (let i = 256 - tau, bit = 0; i < 256; i++, bit++) {
    let [j] = source.read(1);
    while (j > i) [j] = source.read(1);
    c[i] = c[j];
    c[j] = (signs[bit >> 3] >> (bit & 7)) & 1 ? Q - 1 : 1;
  }
  return c;
}

/**
 * A polynomial of A, in the domain of the NTT.
 * @param {Uint8Array} rho
 * @param {number} column
 * @param {number} row
 */
function uniform(rho, column, row) {
  const source = shake(128, [rho, Uint8Array.of(column, row)]);
  const values = new Float64Array(256);
  for (let i = 0; i < 256;) {
    const [a, b, c] = source.read(3);
    const value = a | (b << 8) | ((c & 127) << 16);
    if (value < Q) values[i++] = value;
  }
  return values;
}

// -- NTT --------------------------------------------------------------------------------------------------------------

const ZETAS = new Float64Array(256);
for (let i = 0, zeta = 1; i < 256; i++, zeta = (zeta * 1753) % Q) {
  let reversed = 0;
  for (let bit = 0; bit < 8; bit++) reversed |= ((i >> bit) & 1) << (7 - bit);
  ZETAS[reversed] = zeta;
}

/** @param {Float64Array} w */
function toNtt(w) {
  for (let length = 128, m = 0; length >= 1; length /= 2) {
    for (let start = 0; start < 256; start += 2 * length) {
      const zeta = ZETAS[++m];
      for (let j = start; j < start + length; j++) {
        const t = (zeta * w[j + length]) % Q;
        w[j + length] = (w[j] - t + Q) % Q;
        w[j] = (w[j] + t) % Q;
      }
    }
  }
  return w;
}

/** @param {Float64Array} w */
function fromNtt(w) {
  for (let length = 1, m = 256; length < 256; length *= 2) {
    for (let start = 0; start < 256; start += 2 * length) {
      const zeta = Q - ZETAS[--m];
      for (let j = start; j < start + length; j++) {
        const t = w[j];
        w[j] = (t + w[j + length]) % Q;
        w[j + length] = (zeta * ((t - w[j + length] + Q) % Q)) % Q;
      }
    }
  }
  return w.map((value) => (value * 8347681) % Q);
}

// -- SHAKE (FIPS 202) -------------------------------------------------------------------------------------------------

const ROTATIONS = Array.from({ length: 24 }, (_, i) => (((i + 1) * (i + 2)) / 2) % 64);
/** @type {number[]} */
const LANES = [];
for (let x = 1, y = 0; LANES.length < 24; LANES.push(x + 5 * y)) [x, y] = [y, (2 * x + 3 * y) % 5];
/** @type {[number, number][]} */
const CONSTANTS = [];
for (let round = 0, lfsr = 1; round < 24; round++) {
  /** @type {[number, number]} */
  const constant = [0, 0];
  for (let j = 0; j < 7; j++) {
    const bit = 2 ** j - 1;
    if (lfsr & 1) constant[bit >> 5] |= 1 << (bit & 31);
    lfsr = (lfsr << 1) ^ (lfsr & 128 ? 0x171 : 0);
  }
  CONSTANTS.push(constant);
}

/** @param {Int32Array} s 25 lanes, each the lower and the upper half */
function permute(s) {
  const column = new Int32Array(10);
  for (const constant of CONSTANTS) {
    for (let x = 0; x < 10; x++) column[x] = s[x] ^ s[x + 10] ^ s[x + 20] ^ s[x + 30] ^ s[x + 40];
    for (let x = 0; x < 10; x += 2) {
      const [before, after] = [(x + 8) % 10, (x + 2) % 10];
      const low = column[before] ^ ((column[after] << 1) | (column[after + 1] >>> 31));
      const high = column[before + 1] ^ ((column[after + 1] << 1) | (column[after] >>> 31));
      for (let y = 0; y < 50; y += 10) {
        s[x + y] ^= low;
        s[x + y + 1] ^= high;
      }
    }
    let [low, high] = [s[2], s[3]];
    for (let i = 0; i < 24; i++) {
      const [to, by] = [2 * LANES[i], ROTATIONS[i]];
      const [a, b] = by < 32 ? [low, high] : [high, low];
      const shift = by & 31;
      const [keptLow, keptHigh] = [s[to], s[to + 1]];
      s[to] = (a << shift) | (b >>> (32 - shift));
      s[to + 1] = (b << shift) | (a >>> (32 - shift));
      [low, high] = [keptLow, keptHigh];
    }
    for (let y = 0; y < 50; y += 10) {
      const row = s.slice(y, y + 10);
      for (let x = 0; x < 10; x++) s[y + x] = row[x] ^ (~row[(x + 2) % 10] & row[(x + 4) % 10]);
    }
    s[0] ^= constant[0];
    s[1] ^= constant[1];
  }
}

/**
 * @param {128 | 256} strength
 * @param {Uint8Array[]} parts
 */
function shake(strength, parts) {
  const rate = 200 - strength / 4;
  const state = new Int32Array(50);
  let at = 0;
  /** @param {number} byte */
  const mix = (byte) => {
    state[at >> 2] ^= byte << (8 * (at & 3));
    at++;
  };
  for (const part of parts) {
    for (const byte of part) {
      mix(byte);
      if (at === rate) permute(state), (at = 0);
    }
  }
  mix(0x1f);
  at = rate - 1;
  mix(0x80);
  return {
    /** @param {number} count */
    read(count) {
      const bytes = new Uint8Array(count);
      for (let i = 0; i < count; i++) {
        if (at === rate) permute(state), (at = 0);
        bytes[i] = state[at >> 2] >>> (8 * (at & 3));
        at++;
      }
      return bytes;
    },
  };
}
