// Challenges, stateless nonces and records of used nonces. As sdcard/nonces.py and sdcard/io/replay_cache.py.
//
// A nonce is base64url of version (1 byte), instant (6, Unix seconds), randomness (16) and MAC (16). The MAC is HMAC-SHA-256
// over all terms of the challenge, cut to 128 bits. So a challenge stores nothing until its answer passed every other check.
import { DATA } from "./data.js";
import { checkInstant } from "./claims.js";
import { Misuse, Refused, checkNames, checkText, codePoints, decodeBase64url, encodeBase64url, utf8 } from "./json.js";
import { digestText } from "./keys.js";

/** A source of random bytes, such as `systemRandomness`. @typedef {(count: number) => Uint8Array} Randomness */
/** @typedef {{ past: number, future: number }} Window the permitted age of an answer, in whole seconds */
/**
 * @typedef {object} RequestTarget the HTTP request that a challenge belongs to
 * @property {string} origin the server's, from its configuration
 * @property {string} method
 * @property {string} path as in the request, without the query
 * @property {string | null} [service] the origin of the Service that relays, if any
 */

/** The system's clock, in Unix seconds. */
export const systemClock = () => Date.now() / 1000;

/** @param {number} count */
export const systemRandomness = (count) => crypto.getRandomValues(new Uint8Array(count));

/**
 * @param {Partial<Window>} [window]
 * @returns {Window}
 */
export function checkWindow(window = {}) {
  const checked = { ...DATA.window, ...window };
  const most = /** @type {Record<string, number>} */ (DATA.window);
  for (const [name, seconds] of Object.entries(checked)) {
    if (!Object.hasOwn(most, name) || !Number.isInteger(seconds) || seconds < 0 || seconds > most[name]) {
      throw new Misuse(`a freshness window reaches at most ${most.past} s back and ${most.future} s ahead`);
    }
  }
  return checked;
}

/** A challenge for a Holder to sign. */
export class Challenge {
  /**
   * @param {string} nonce 1 to 256 characters, never used before
   * @param {string} audience the Verifier, compared exactly
   * @param {{ window?: Partial<Window>, interactionId?: string | null, target?: RequestTarget | null }} [terms]
   */
  constructor(nonce, audience, terms = {}) {
    checkNames(terms, ["window", "interactionId", "target"]);
    const { window, interactionId = null, target = null } = terms;
    this.nonce = checkText("a nonce", nonce);
    if (codePoints(nonce) > DATA.max_nonce_length) throw new Misuse(`a nonce has 1 to ${DATA.max_nonce_length} characters`);
    this.audience = checkText("an audience", audience);
    this.window = checkWindow(window);
    this.interactionId = interactionId === null ? null : checkText("an interaction id", interactionId);
    this.target = target;
  }

  /** The same challenge with another nonce or target. @param {{ nonce?: string, target?: RequestTarget | null }} changed */
  with({ nonce = this.nonce, target = this.target }) {
    return new Challenge(nonce, this.audience, { window: this.window, interactionId: this.interactionId, target });
  }
}

/** @typedef {{ consume(challenge: Challenge, now: number): Promise<unknown> | unknown }} ChallengeRecord */
/** @typedef {{ holder: string, audience: string, nonce: string }} NonceUse */
/** @typedef {{ firstUse(use: NonceUse, until: number, now: number): Promise<unknown> | unknown }} ReplayRecord */

/**
 * A challenge with a fresh 128-bit nonce, for a Verifier or a Holder.
 * @param {string} audience
 * @param {Randomness} randomness
 * @param {{ window?: Partial<Window>, interactionId?: string | null }} [terms]
 */
export const newChallenge = (audience, randomness, terms) => new Challenge(encodeBase64url(draw(randomness, 16)), audience, terms);

/**
 * @param {Randomness} randomness
 * @param {number} count
 */
function draw(randomness, count) {
  const bytes = randomness(count);
  if (!(bytes instanceof Uint8Array) || bytes.length !== count) throw new Misuse(`randomness returns a Uint8Array of ${count} bytes`);
  return bytes;
}

// -- nonces -----------------------------------------------------------------------------------------------------------

const KEY_BYTES = 32;
const NONCE = /^[A-Za-z0-9_-]{52}$/;
const WHERE = "kb-jwt/nonce";

/** @param {Uint8Array[]} fields */
function withLengths(fields) {
  const whole = new Uint8Array(fields.reduce((size, field) => size + 4 + field.length, 0));
  const view = new DataView(whole.buffer);
  let at = 0;
  for (const field of fields) {
    view.setUint32(at, field.length);
    whole.set(field, at + 4);
    at += 4 + field.length;
  }
  return whole;
}

/**
 * Makes the challenges of one audience and purpose, and lets each be answered once.
 *
 * With a key and a record that several processes share, each knows the challenges of the others. The record must last as long
 * as the key; `memoryChallenges` draws a key for a record in memory.
 */
export class StatelessChallenges {
  /**
   * @param {string} audience the Verifier
   * @param {Randomness} randomness
   * @param {Uint8Array} key 32 secret random bytes
   * @param {{ add(id: string, until: number, now: number): Promise<boolean> | boolean }} used
   *   stores an id until an instant, inclusive, and answers true to exactly one caller
   * @param {{ lifetime?: number, purpose?: "presentation" | "called-agent" }} [terms] lifetime: seconds
   */
  constructor(audience, randomness, key, used, terms = {}) {
    checkNames(terms, ["lifetime", "purpose"]);
    const { lifetime = 300, purpose = "presentation" } = terms;
    if (!(key instanceof Uint8Array) || key.length !== KEY_BYTES) throw new Misuse(`a key for nonces has ${KEY_BYTES} bytes`);
    if (!Number.isInteger(lifetime) || lifetime < 1 || lifetime >= 2 ** 31) throw new Misuse("a lifetime is a whole number of seconds, at least 1");
    if (!DATA.nonce_purposes.includes(purpose)) throw new Misuse(`the purpose of a challenge is one of ${DATA.nonce_purposes.join(", ")}`);
    this.audience = checkText("an audience", audience);
    this.lifetime = lifetime;
    this.purpose = purpose;
    this.randomness = randomness;
    this.used = used;
    /** @type {() => Promise<CryptoKey>} */
    this.key = () => {
      const imported = crypto.subtle.importKey("raw", Uint8Array.from(key), { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
      this.key = () => imported;
      return imported;
    };
  }

  /**
   * Makes a challenge. Nothing is stored.
   * @param {number} now
   * @param {{ window?: Partial<Window>, interactionId?: string | null, target?: RequestTarget | null }} [terms]
   */
  async issue(now, terms = {}) {
    const made = new Uint8Array(23);
    made[0] = 1;
    const view = new DataView(made.buffer);
    const seconds = Math.floor(checkInstant(now));
    view.setUint16(1, Math.floor(seconds / 2 ** 32));
    view.setUint32(3, seconds % 2 ** 32);
    made.set(draw(this.randomness, 16), 7);
    const mac = await this.mac(made, new Challenge("none", this.audience, terms));
    const nonce = new Uint8Array(39);
    nonce.set(made);
    nonce.set(mac, 23);
    return new Challenge(encodeBase64url(nonce), this.audience, terms);
  }

  /**
   * Refuses a challenge that this record did not make so, or that is too old; returns the last second at which it is valid.
   * @param {Challenge} challenge the answered nonce, with the Verifier's own terms
   * @param {number} now
   */
  async check(challenge, now) {
    if (!NONCE.test(challenge.nonce)) throw new Refused("kb.nonce-mismatch", WHERE);
    const bytes = decodeBase64url(challenge.nonce, WHERE);
    const made = bytes.subarray(0, 23);
    const mac = await this.mac(made, challenge);
    let difference = made[0] ^ 1;
    for (let i = 0; i < 16; i++) difference |= mac[i] ^ bytes[23 + i];
    if (difference !== 0) throw new Refused("kb.other-request", WHERE, "It was made for another request or by another record.");
    const view = new DataView(bytes.buffer);
    const madeAt = view.getUint16(1) * 2 ** 32 + view.getUint32(3);
    const oldest = checkInstant(now) - Math.min(this.lifetime, challenge.window.past);
    if (madeAt < oldest || madeAt > now + DATA.window.future) throw new Refused("kb.challenge-expired", WHERE);
    return madeAt + this.lifetime;
  }

  /**
   * Marks a challenge as answered; true for exactly one caller.
   * @param {Challenge} challenge
   * @param {number} now
   */
  async consume(challenge, now) {
    let until;
    try {
      until = await this.check(challenge, now);
    } catch (problem) {
      if (problem instanceof Refused) return false;
      throw problem;
    }
    return (await this.used.add(await digestText("sha-256", challenge.nonce), until, now)) === true;
  }

  /**
   * @param {Uint8Array} made
   * @param {Challenge} challenge
   */
  async mac(made, { audience, interactionId, target }) {
    const path = target ? (target.service == null ? target.path : `${target.path}\n${target.service}`) : "";
    const texts = [this.purpose, audience, String(this.lifetime), target?.origin ?? "", target?.method ?? "", path];
    const before = withLengths([utf8("sd-card challenge"), made, ...texts.map(utf8)]);
    const id = interactionId === null ? Uint8Array.of(255, 255, 255, 255) : withLengths([utf8(interactionId)]);
    const subject = withLengths([new Uint8Array(0)]);
    const covered = new Uint8Array([...before, ...id, ...subject]);
    return new Uint8Array(await crypto.subtle.sign("HMAC", await this.key(), covered)).subarray(0, 16);
  }
}

// -- records in memory ------------------------------------------------------------------------------------------------

const FORGOTTEN_AT_ONCE = 4;
const ENDS_KEPT = 4096;

/**
 * A bounded set of ids, each until an instant. It refuses when it is full: to forget early would permit a replay.
 *
 * Expired ids stay while there is room, because a clock that is ahead makes every id look expired. An end of which an id was
 * forgotten is remembered, and a use with the same end does not count as the first.
 */
class UsedIds {
  /** @param {number} capacity */
  constructor(capacity) {
    if (!Number.isInteger(capacity) || capacity < 1) throw new Misuse("a record has room for one nonce or more");
    this.capacity = capacity;
    /** @type {Map<string, number>} */
    this.until = new Map();
    /** @type {Map<number, Set<string>>} */
    this.byEnd = new Map();
    /** @type {Set<number>} */
    this.forgotten = new Set();
    this.first = Infinity; // the least end, as long as ids have it
  }

  /**
   * @param {string} id
   * @param {number} until
   * @param {number} now
   */
  add(id, until, now) {
    const end = Math.ceil(until); // whole seconds, so that there are few ends
    const known = this.until.get(id);
    if ((known !== undefined && known >= now) || this.forgotten.has(end)) return false;
    this.forgetExpired(now);
    if (known !== undefined) this.forget(id, known);
    if (this.until.size >= this.capacity) throw new Refused("kb.record-unavailable", WHERE, "The record is full.");
    this.until.set(id, end);
    if (end < this.first) this.first = end;
    const same = this.byEnd.get(end) ?? new Set();
    this.byEnd.set(end, same.add(id));
    return true;
  }

  /** @param {number} now */
  forgetExpired(now) {
    if (this.until.size <= this.capacity / 8) return;
    if (!this.byEnd.has(this.first)) {
      this.first = Infinity;
      for (const one of this.byEnd.keys()) if (one < this.first) this.first = one;
    }
    const end = this.first;
    if (end >= now) return;
    for (const id of [.../** @type {Set<string>} */ (this.byEnd.get(end))].slice(0, FORGOTTEN_AT_ONCE)) this.forget(id, end);
    this.forgotten.add(end);
    if (this.forgotten.size > ENDS_KEPT) this.forgotten.delete(/** @type {number} */ (this.forgotten.values().next().value));
  }

  /**
   * @param {string} id
   * @param {number} end
   */
  forget(id, end) {
    this.until.delete(id);
    const same = /** @type {Set<string>} */ (this.byEnd.get(end));
    same.delete(id);
    if (same.size === 0) this.byEnd.delete(end);
  }
}

/**
 * Challenges of one process. The key is drawn here and never leaves the record.
 * @param {string} audience
 * @param {Randomness} randomness
 * @param {{ lifetime?: number, purpose?: "presentation" | "called-agent", capacity?: number }} [terms]
 */
export function memoryChallenges(audience, randomness, { capacity = 100_000, ...terms } = {}) {
  return new StatelessChallenges(audience, randomness, draw(randomness, KEY_BYTES), new UsedIds(capacity), terms);
}

/** A record of nonces that Holders chose, for one process. */
export class MemoryReplayRecord {
  constructor(capacity = 100_000) {
    this.used = new UsedIds(capacity);
  }

  /** @type {ReplayRecord["firstUse"]} */
  async firstUse({ holder, audience, nonce }, until, now) {
    return this.used.add(await digestText("sha-256", JSON.stringify(["kb-jwt", holder, audience, nonce])), until, now);
  }
}
