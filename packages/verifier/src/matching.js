// Which Disclosures a Holder shows for the entries of a request. As sdcard/requesting.py.
import { isObject } from "./json.js";
import { scopeOf } from "./requests.js";

/** @import { Json, JsonObject } from "./json.js" */
/** @import { Format, Scope } from "./formats.js" */
/** @import { ClaimPath } from "./paths.js" */
/** @import { Revealed } from "./sd-jwt.js" */

/** @typedef {{ parts: Map<string | number | null, Node>, covers: bigint, excludes: bigint, along: boolean }} Node */
/** @typedef {{ own: string | null, parts: Map<string | number, Carriers> }} Carriers */
/** @typedef {{ entries: bigint, chain: string[] }} Asked entries, and the Disclosures that show a part that they ask for */

/**
 * @param {JsonObject} members
 * @param {readonly ClaimPath[]} entries
 * @param {Format | null} format
 * @param {readonly Revealed[]} revealed
 */
export function matchEntries(members, entries, format, revealed) {
  /** @type {Map<string, Asked>} */
  const asked = new Map();
  /** @type {Set<string>} */
  const beyond = new Set();
  const trie = trieOf(entries.map((entry) => scopeOf(entry, format)), format?.together ?? []);
  /** @type {Map<string, number>} */
  const numberOf = new Map(); // a Disclosure can be long, and has many leaves
  /** @type {[Json, Carriers, string[], Node[], bigint, bigint][]} */
  const waiting = [[members, carriersOf(revealed), [], [trie], 0n, 0n]];
  for (let step = waiting.pop(); step; step = waiting.pop()) {
    const [value, shown, before, nodes, coveredBefore, excludedBefore] = step;
    const chain = shown.own === null ? before : [...before, shown.own];
    const covers = nodes.reduce((bits, node) => bits | node.covers, coveredBefore);
    const excludes = nodes.reduce((bits, node) => bits | node.excludes, excludedBefore);
    const inside = insideOf(value);
    if (inside.length > 0 && (shown.parts.size > 0 || nodes.some((node) => node.parts.size > 0))) {
      for (const [segment, part] of inside) {
        const ahead = nodes.flatMap((node) => [node.parts.get(segment), node.parts.get(null)]).filter((node) => node !== undefined);
        waiting.push([part, shown.parts.get(segment) ?? NOTHING, chain, ahead, covers, excludes]);
      }
    } else if (covers & ~excludes) {
      const bits = covers & ~excludes;
      const numbers = chain.map((text) => numberOf.get(text) ?? (numberOf.set(text, numberOf.size), numberOf.size - 1));
      asked.set(`${bits} ${numbers}`, { entries: bits, chain });
    } else if (chain.length > 0 && !(nodes.some((node) => node.along) && inside.length === 0)) {
      beyond.add(chain[chain.length - 1]);
    }
  }
  return { asked: [...asked.values()], beyond };
}

/** @type {Carriers} */
const NOTHING = { own: null, parts: new Map() };

/** @param {Json} value @returns {[string | number, Json][]} */
function insideOf(value) {
  if (isObject(value)) return [...value];
  return Array.isArray(value) ? [...value.entries()] : [];
}

/** @param {readonly Revealed[]} revealed */
function carriersOf(revealed) {
  /** @type {Carriers} */
  const root = { own: null, parts: new Map() };
  for (const { place, disclosure } of revealed) {
    let here = root;
    for (const segment of place) {
      const next = here.parts.get(segment) ?? { own: null, parts: new Map() };
      here.parts.set(segment, next);
      here = next;
    }
    here.own = disclosure.encoded;
  }
  return root;
}

/**
 * @param {Scope[]} scopes
 * @param {ClaimPath[]} together
 */
function trieOf(scopes, together) {
  const root = newNode();
  for (const [number, scope] of scopes.entries()) {
    for (const path of scope.paths) nodeAt(root, path).covers |= 1n << BigInt(number);
    for (const path of scope.apart) nodeAt(root, path).excludes |= 1n << BigInt(number);
  }
  for (const path of together) nodeAt(root, path).along = true;
  return root;
}

/** @returns {Node} */
const newNode = () => ({ parts: new Map(), covers: 0n, excludes: 0n, along: false });

/**
 * @param {Node} root
 * @param {ClaimPath} path
 */
function nodeAt(root, path) {
  let here = root;
  for (const segment of path.segments) {
    const next = here.parts.get(segment) ?? newNode();
    here.parts.set(segment, next);
    here = next;
  }
  return here;
}
