// Proofs that an SD-Card is in a transparency log, verified offline: C2SP tlog-proof, signed-note, tlog-checkpoint, tlog-cosignature
// (the Ed25519 type) and tlog-policy; RFC 9162 2.1.3.2. As sdcard/transparency.
import { checkInstant, requiredText } from "./claims.js";
import { DATA } from "./data.js";
import { Misuse, Refused, codePoints, decodeBase64url, encodeBase64url, isText, utf8, utf8Of, within } from "./json.js";
import { readPublicJwk } from "./keys.js";
import { parseJws, parseSdJwt } from "./sd-jwt.js";

/** @import { JsonObject } from "./json.js" */
/** @import { PublicKey } from "./keys.js" */
/** @typedef {Uint8Array<ArrayBuffer>} Bytes */
/** @typedef {{ name: string, type: number, raw: string, id: string, key: PublicKey }} NoteKey a key of a log or witness */
/** @typedef {{ name: string, id: string, signature: Bytes }} Line a signature line of a checkpoint */
/** @typedef {{ origin: string, size: bigint, root: Bytes, body: string, lines: Line[] }} Checkpoint */
/** @typedef {{ salt: Bytes, index: bigint, path: Bytes[], checkpoint: string }} LogProof */
/** @typedef {{ threshold: number, members: string[] }} Group */
/**
 * A judged signature line. `witness` names it as the policy does; null for the log's own line and for an unknown key.
 * @typedef {{ name: string, witness: string | null, state: "valid" | "invalid" | "from the future" | "unknown", at: bigint | null }} Judged
 */
/** @typedef {{ origin: string, index: bigint, size: bigint, witnesses: [string, number][] }} Inclusion */

const [MOST_BYTES, MOST_LINES, MOST_HASHES] = [131_072, 64, 63]; // not in data.js, which everyone loads
const MOST_LEAVES = 2n ** 63n - 1n;
const HASH_BYTES = 32;
const SIGNATURE_BYTES = 64;
const [LOG_TYPE, WITNESS_TYPE] = [1, 4];
const [PROOF, CHECKPOINT, POLICY] = ["log/proof", "log/checkpoint", "log/policy"];
const FORMAT = "c2sp.org/tlog-proof@v1";
// White space as Python has it.
const NAME = /^(?:[^\s\x1c-\x1f\x85+]|\ufeff)+$/u;
const LINE = /^— ((?:[^\s\x1c-\x1f\x85+]|\ufeff)+) ([A-Za-z0-9+/]+={0,2})$/u;
const UNPRINTABLE = /[\0-\x1f]|\p{Cs}/u;

/** Base64 with padding, canonical; null for another text. @param {string} text @returns {Bytes | null} */
function decodeBase64(text) {
  const bare = text.replace(/={1,2}$/, "");
  if (text.length % 4 !== 0 || !/^[A-Za-z0-9+/]*$/.test(bare)) return null;
  try {
    return bare ? decodeBase64url(bare.replaceAll("+", "-").replaceAll("/", "_"), "") : new Uint8Array(0);
  } catch {
    return null;
  }
}

/** @param {string} text */
function parseNumber(text) {
  const number = /^(?:0|[1-9][0-9]{0,18})$/.test(text) ? BigInt(text) : -1n;
  return number >= 0n && number <= MOST_LEAVES ? number : null;
}

/** @param {string} text */
function parseHash(text) {
  const bytes = decodeBase64(text);
  return bytes?.length === HASH_BYTES ? bytes : null;
}

/** Compares texts as Python does. @param {string} one @param {string} other */
export const codePointOrder = (one, other) => {
  const [a, b] = [one, other].map((text) => [...text].map((character) => character.codePointAt(0) ?? 0));
  const at = a.findIndex((point, index) => point !== b[index]);
  return at < 0 ? a.length - b.length : at >= b.length ? 1 : a[at] - b[at];
};

/** @param {Uint8Array} bytes */
const hex = (bytes) => [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
/** @param {Uint8Array} bytes */
const number = (bytes) => BigInt(`0x0${hex(bytes)}`);
/** @param {...Uint8Array} parts @returns {Promise<Bytes>} */
async function sha256(...parts) {
  const whole = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return new Uint8Array(await crypto.subtle.digest("SHA-256", whole));
}

// -- checkpoints ------------------------------------------------------------------------------------------------------

/** Reads the signed checkpoint of a proof, and verifies nothing. @param {string} text @returns {Checkpoint} */
export function parseCheckpoint(text) {
  /** @param {string} hint */
  const malformed = (hint) => new Refused("log.checkpoint-malformed", CHECKPOINT, hint);
  if (UNPRINTABLE.test(text.replaceAll("\n", ""))) throw malformed("It has control characters.");
  const end = text.lastIndexOf("\n\n");
  const lines = text.slice(end + 2).split("\n");
  if (end < 0 || lines.pop() !== "" || lines.length < 1 || lines.length > MOST_LINES) throw malformed(`A blank line and 1 to ${MOST_LINES} signature lines are expected.`);
  const body = text.slice(0, end + 1);
  const read = body.split("\n").slice(0, -1);
  if (read.length < 3 || read.includes("")) throw malformed("The lines origin, size and root are expected.");
  const [size, root] = [parseNumber(read[1]), parseHash(read[2])];
  if (size === null) throw malformed("The size is not a decimal number.");
  if (root === null) throw malformed("The root is not a hash in base64.");
  return { origin: read[0], size, root, body, lines: lines.map(readLine) };

  /** @param {string} line */
  function readLine(line) {
    const found = LINE.exec(line);
    const bytes = found && decodeBase64(found[2]);
    if (!bytes || bytes.length < 5) throw malformed("A signature line is a dash, a name, and base64.");
    return { name: found[1], id: hex(bytes.subarray(0, 4)), signature: bytes.slice(4) };
  }
}

/** Whether a key made a line; the time of a cosignature. @param {NoteKey} key @param {Line} line @param {string} body */
async function judge(key, line, body) {
  const isWitness = key.type === WITNESS_TYPE;
  const at = isWitness ? number(line.signature.subarray(0, 8)) : null;
  const signature = isWitness ? line.signature.slice(8) : line.signature;
  const message = utf8(isWitness ? `cosignature/v1\ntime ${at}\n${body}` : body);
  const isGood = signature.length === SIGNATURE_BYTES && (at ?? 0n) <= MOST_LEAVES && (await key.key.verifies(message, signature));
  return { at, isGood };
}

// -- policies ---------------------------------------------------------------------------------------------------------

/** The trusted logs and witnesses, and the quorum. `parseLogPolicy` makes it. */
export class LogPolicy {
  /**
   * @param {NoteKey[]} logs
   * @param {Map<string, NoteKey[]>} witnesses name in the policy → its keys
   * @param {Map<string, Group>} groups
   * @param {string | null} quorum
   */
  constructor(logs, witnesses, groups, quorum) {
    this.logs = logs;
    this.witnesses = witnesses;
    this.groups = groups;
    this.quorum = quorum;
  }

  /**
   * What became of each signature line, whatever the quorum says. Of a witness's lines, the latest that is at most 60 s in the future counts.
   * @param {Checkpoint} checkpoint
   * @param {number} now Unix seconds
   * @returns {Promise<Judged[]>}
   */
  async judge(checkpoint, now) {
    const latest = checkInstant(now) + DATA.max_skew;
    const known = [...this.logs.filter(({ name }) => name === checkpoint.origin).map((key) => ({ witness: null, key })),
      ...[...this.witnesses].flatMap(([witness, keys]) => keys.map((key) => ({ witness, key })))];
    return Promise.all(checkpoint.lines.map(async (line) => {
      const one = known.find(({ key }) => key.name === line.name && key.id === line.id);
      if (!one) return { name: line.name, witness: null, state: "unknown", at: null };
      const { at, isGood } = await judge(one.key, line, checkpoint.body);
      const state = !isGood ? "invalid" : at !== null && at > latest ? "from the future" : "valid";
      return { name: line.name, witness: one.witness, state, at };
    }));
  }

  /** The time of each witness that counts, by its name in the policy. @param {Judged[]} judged @returns {[string, number][]} */
  counted(judged) {
    const times = new Map();
    for (const { witness, state, at } of judged) {
      if (witness !== null && state === "valid") times.set(witness, Math.max(Number(at), times.get(witness) ?? 0));
    }
    return [...times].sort(([one], [other]) => codePointOrder(one, other));
  }

  /** Whether these witnesses are enough. @param {string[]} counted @param {string | null} [name] @returns {boolean} */
  isFulfilled(counted, name = this.quorum) {
    if (name === null) return true;
    const group = this.groups.get(name);
    if (!group) return counted.includes(name);
    return group.members.filter((one) => this.isFulfilled(counted, one)).length >= group.threshold;
  }

  /** The log's own signature. @param {Checkpoint} checkpoint @param {Judged[]} judged */
  checkLog(checkpoint, judged) {
    if (!this.logs.some(({ name }) => name === checkpoint.origin)) throw new Refused("log.unknown", within(CHECKPOINT, "origin"));
    const own = judged.filter(({ state, witness }) => state !== "unknown" && witness === null);
    checkValid(own);
    if (own.length === 0) throw new Refused("log.signature", CHECKPOINT, "There is no line of the log's key.");
  }

  /** The cosignatures, and the quorum. @param {Judged[]} judged */
  checkWitnesses(judged) {
    checkValid(judged.filter(({ witness }) => witness !== null));
    const counted = this.counted(judged);
    if (!this.isFulfilled(counted.map(([name]) => name))) throw new Refused("log.witnesses", CHECKPOINT, `${counted.length} witnesses of the policy cosigned.`);
    return counted;
  }
}

/** A line of a known key must be valid. @param {Judged[]} judged */
function checkValid(judged) {
  for (const { name, state } of judged) {
    if (state === "invalid") throw new Refused("log.signature", CHECKPOINT, `A line of \`${name}\` is not a signature of its key.`);
  }
}

/**
 * Reads a policy in the form of C2SP tlog-policy. Two `witness` lines with one name are two keys of one witness.
 * @param {string} text
 * @returns {Promise<LogPolicy>}
 */
export async function parseLogPolicy(text) {
  if (!isText(text)) throw new Misuse("a policy is a text");
  if (codePoints(text) > MOST_BYTES) throw new Refused("limit.bytes", POLICY);
  const lines = text.split("\n");
  if (lines.pop() !== "") throw new Refused("log.policy-malformed", POLICY, "The last line does not end in a line feed.");
  const policy = new PolicyLines();
  for (const [at, line] of lines.entries()) {
    const where = within(POLICY, at + 1);
    const words = line.split(/[ \t]+/).filter(Boolean);
    if (UNPRINTABLE.test(line.replaceAll("\t", ""))) throw new Refused("log.policy-malformed", where, "The line has control characters.");
    if (words.length > 0 && !words[0].startsWith("#")) await policy.add(words, where);
  }
  return policy.finish();
}

/** The lines of a policy that were read. */
class PolicyLines {
  constructor() {
    /** @type {NoteKey[]} */
    this.logs = [];
    /** @type {Map<string, NoteKey[]>} */
    this.witnesses = new Map();
    /** @type {Map<string, Group>} */
    this.groups = new Map();
    /** @type {string[]} */
    this.quorums = [];
    /** Names that no group has as a member yet. @type {Set<string>} */
    this.free = new Set();
  }

  /** @param {string[]} words @param {string} where */
  async add(words, where) {
    const [kind, name = "", third = "", ...others] = words;
    if (kind === "log" && (words.length === 2 || words.length === 3)) this.logs.push(await this.key(name, LOG_TYPE, where));
    else if (kind === "witness" && words.length >= 3 && words.length <= 4 && !this.groups.has(name) && name !== "none") await this.addWitness(name, third, where);
    else if (kind === "group" && words.length >= 3 && !this.isKnown(name)) this.addGroup(name, third, others, where);
    else if (kind === "quorum" && words.length === 2 && this.isKnown(name)) this.quorums.push(name);
    else throw new Refused("log.policy-malformed", where, "A line defines a log, a witness, a group or the quorum.");
    if (Math.max(this.logs.length, this.witnesses.size, this.groups.size) > MOST_LINES) {
      throw new Refused("log.policy-malformed", where, `At most ${MOST_LINES} logs, witnesses and groups are supported.`);
    }
  }

  /** @param {string} name @param {string} text @param {string} where */
  async addWitness(name, text, where) {
    const found = await this.key(text, WITNESS_TYPE, where);
    if ([...this.witnesses].some(([other, keys]) => other !== name && keys.some((key) => key.name === found.name))) {
      throw new Refused("log.policy-malformed", where, "One witness has two names in the policy.");
    }
    if (!this.witnesses.has(name)) this.free.add(name);
    this.witnesses.set(name, [...(this.witnesses.get(name) ?? []), found]);
  }

  /** @param {string} name @param {string} text @param {string[]} members @param {string} where */
  addGroup(name, text, members, where) {
    const threshold = text === "any" ? 1 : text === "all" ? members.length : Number(parseNumber(text) ?? 0n);
    if (threshold < 1 || threshold > members.length || new Set(members).size < members.length) {
      throw new Refused("log.policy-malformed", where, "A group has a threshold from 1 to the number of its members.");
    }
    if (!members.every((one) => this.free.delete(one))) throw new Refused("log.policy-malformed", where, "A member is not defined above, or is in a group already.");
    this.groups.set(name, { threshold, members });
    this.free.add(name);
  }

  /** @param {string} name */
  isKnown(name) {
    return name === "none" || this.witnesses.has(name) || this.groups.has(name);
  }

  /** @param {string} text @param {number} type @param {string} where */
  async key(text, type, where) {
    const key = await parseNoteKey(text, where);
    if (key.type !== type) throw new Refused("log.policy-malformed", where, `A key of type 0x0${type} is expected.`);
    const others = [this.logs, ...this.witnesses.values()].flat();
    if (others.some(({ raw }) => raw === key.raw)) throw new Refused("log.policy-malformed", where, "The same key was given twice.");
    if (others.some(({ name, id }) => name === key.name && id === key.id)) throw new Refused("log.policy-malformed", where, "Two keys have the same name and key id.");
    return key;
  }

  finish() {
    if (this.quorums.length !== 1) throw new Refused("log.policy-malformed", POLICY, "Exactly one quorum is expected.");
    const [quorum] = this.quorums;
    return new LogPolicy(this.logs, this.witnesses, this.groups, quorum === "none" ? null : quorum);
  }
}

/** A key in the form that C2SP calls vkey: name, key id and typed key. @param {string} text @param {string} where @returns {Promise<NoteKey>} */
async function parseNoteKey(text, where) {
  const [name, id, ...rest] = text.split("+");
  const bytes = decodeBase64(rest.join("+"));
  const type = bytes?.[0] ?? 0;
  if (!bytes || (type !== LOG_TYPE && type !== WITNESS_TYPE)) throw new Refused("log.policy-malformed", where, "The key has no type 0x01 or 0x04, which are Ed25519.");
  if (!NAME.test(name)) throw new Refused("log.policy-malformed", where, "This is not a key of a log or witness.");
  const raw = encodeBase64url(bytes.subarray(1));
  let key;
  try {
    key = await readPublicJwk(new Map([["kty", "OKP"], ["crv", "Ed25519"], ["x", raw]]), where);
  } catch (problem) {
    if (problem instanceof Refused && problem.rule === "key.unsupported") throw problem; // this runtime has no Ed25519
    throw new Refused("log.policy-malformed", where, "This is not an Ed25519 key.");
  }
  const expected = hex((await sha256(utf8(`${name}\n`), bytes)).subarray(0, 4));
  if (id !== expected) throw new Refused("log.policy-malformed", where, "The name, the key id and the key do not belong together.");
  return { name, type, raw, id, key };
}

// -- proofs -----------------------------------------------------------------------------------------------------------

/** Reads a proof, and verifies nothing. @param {string} text @returns {LogProof} */
export function parseLogProof(text) {
  /** @param {string} hint */
  const malformed = (hint) => new Refused("log.proof-malformed", PROOF, hint);
  if (codePoints(text) > MOST_BYTES) throw new Refused("limit.bytes", PROOF);
  const end = text.indexOf("\n\n");
  const [format, extra = "", line = "", ...hashes] = text.slice(0, Math.max(end, 0)).split("\n");
  if (end < 0 || format !== FORMAT || !line) throw malformed(`The lines \`${FORMAT}\`, \`extra\`, \`index\` and a checkpoint are expected.`);
  const salt = extra.startsWith("extra ") ? decodeBase64(extra.slice(6)) : null;
  const index = line.startsWith("index ") ? parseNumber(line.slice(6)) : null;
  const path = hashes.map(parseHash).filter((one) => one !== null);
  if (salt?.length !== HASH_BYTES) throw malformed(`\`extra\` has a salt of ${HASH_BYTES} bytes in base64.`);
  if (index === null || path.length !== hashes.length || path.length > MOST_HASHES) throw malformed(`\`index\` is a number, and at most ${MOST_HASHES} hashes in base64 follow.`);
  return { salt, index, path, checkpoint: text.slice(end + 2) };
}

/** The leaf of an SD-Card: a salted hash of what its Issuer signed. @param {Bytes} salt @param {string} issuerJwt */
export async function cardLeaf(salt, issuerJwt) {
  const signed = await sha256(utf8Of(issuerJwt.slice(0, Math.max(issuerJwt.lastIndexOf("."), 0)), PROOF));
  return sha256(Uint8Array.of(0), await sha256(utf8("sd-card log card 1\n"), salt, signed));
}

/**
 * The root that a path leads to (RFC 9162 2.1.3.2).
 * @param {Bytes} leaf
 * @param {bigint} index
 * @param {bigint} size
 * @param {Bytes[]} path
 */
export async function rootOf(leaf, index, size, path) {
  if (index >= size) throw new Refused("log.inclusion", within(PROOF, "index"), "The tree of the checkpoint is too small.");
  let [position, last, found] = [index, size - 1n, leaf];
  for (const sibling of path) {
    if (last === 0n) throw new Refused("log.inclusion", PROOF, "The proof is too long.");
    if ((position & 1n) === 1n || position === last) {
      found = await sha256(Uint8Array.of(1), sibling, found);
      while ((position & 1n) === 0n && position > 0n) [position, last] = [position >> 1n, last >> 1n];
    } else {
      found = await sha256(Uint8Array.of(1), found, sibling);
    }
    [position, last] = [position >> 1n, last >> 1n];
  }
  if (last > 0n) throw new Refused("log.inclusion", PROOF, "The proof is too short.");
  return found;
}

/** @param {Bytes} root @param {Checkpoint} checkpoint */
export function checkRoot(root, checkpoint) {
  if (hex(root) !== hex(checkpoint.root)) throw new Refused("log.inclusion", PROOF);
}

/**
 * Verifies that a log of this policy has the SD-Card of a presentation. It is called after `verifyPresentation`, which verifies the rest.
 * @param {string} presentation an SD-Card or presentation
 * @param {LogPolicy} policy
 * @param {number} now Unix seconds
 * @param {string} [proof] a proof that came beside it; otherwise the KB-JWT has it
 * @returns {Promise<Inclusion>} the witnesses have their names in the policy, and the times of their cosignatures
 */
export async function verifyLogProof(presentation, policy, now, proof) {
  if (!(policy instanceof LogPolicy)) throw new Misuse("a LogPolicy is needed; parseLogPolicy makes one");
  if (!isText(presentation) || !(proof === undefined || isText(proof))) throw new Misuse("a presentation and a proof are texts");
  const { issuerJwt, kbJwt } = parseSdJwt(presentation, DATA.limits);
  const attached = kbJwt === null ? undefined : attachedProof(parseJws(kbJwt, "kb-header", "kb-jwt", DATA.limits.json_depth).payload);
  const text = proof ?? attached;
  if (text === undefined) throw new Refused("log.proof-missing", PROOF);
  const { salt, index, path, checkpoint: signed } = parseLogProof(text);
  const checkpoint = parseCheckpoint(signed);
  const judged = await policy.judge(checkpoint, now);
  policy.checkLog(checkpoint, judged);
  const witnesses = policy.checkWitnesses(judged);
  checkRoot(await rootOf(await cardLeaf(salt, issuerJwt), index, checkpoint.size, path), checkpoint);
  return { origin: checkpoint.origin, index, size: checkpoint.size, witnesses };
}

/** The proof in a KB-JWT. @param {JsonObject} claims */
export const attachedProof = (claims) => (claims.has("log_proof") ? requiredText(claims, "log_proof", "kb-jwt") : undefined);
