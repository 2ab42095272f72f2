// Claim paths: one place in a card, or a family of places. As sdcard/paths.py.
// Segments are names, indices, or null for `*`.
import { Refused, codePoints, isObject, isText } from "./json.js";

/** @import { Json } from "./json.js" */

/** @typedef {string | number | null} Segment */
/** @typedef {readonly Segment[]} Segments */

const SEGMENT = /"(?:[^"\\]|\\[^\n])*"|[^."]+/g;
const MOST_CHARACTERS = 1024;

export class ClaimPath {
  /** @param {Segments} segments */
  constructor(segments) {
    this.segments = segments;
    this.key = JSON.stringify(segments);
  }

  /**
   * @param {string} text such as `skills.*.id`
   * @param {string} where
   */
  static parse(text, where) {
    const parts = isText(text) && codePoints(text) <= MOST_CHARACTERS ? (text.match(SEGMENT) ?? []) : [];
    if (parts.length === 0 || parts.join(".") !== text) throw new Refused("path.malformed", where, "A path is segments joined by dots, such as skills.*.id.");
    return new ClaimPath(parts.map((part) => parseSegment(part, where)));
  }

  /** @param {Segments} segments */
  agrees(segments) {
    const own = this.segments;
    for (let i = 0; i < own.length && i < segments.length; i++) {
      if (own[i] !== null && own[i] !== segments[i]) return false;
    }
    return true;
  }

  /** Whether the path matches the place or one of its parents. @param {Segments} place */
  covers(place) {
    return this.segments.length <= place.length && this.agrees(place);
  }

  /** @param {ClaimPath} other */
  includes(other) {
    return this.covers(other.segments);
  }

  /** @param {Segments} place */
  matches(place) {
    return place.length === this.segments.length && this.agrees(place);
  }

  /** The places in the value that the path matches, with their values. @param {Json} value @returns {[(string | number)[], Json][]} */
  parts(value) {
    /** @type {[(string | number)[], Json][]} */
    let found = [[[], value]];
    for (const segment of this.segments) found = found.flatMap(([place, inner]) => stepsInto(place, inner, segment));
    return found;
  }

  /** @param {Json} value */
  find(value) {
    return this.parts(value).map(([place]) => place);
  }

  toString() {
    return placeText(this.segments);
  }
}

/** Whether the place is a parent of a place that the path matches. @param {ClaimPath} path @param {Segments} place */
export const leadsTo = (path, place) => place.length < path.segments.length && path.agrees(place);

/** The path of the places that both cover; null if there are none. @param {ClaimPath} one @param {ClaimPath} other */
export function overlap(one, other) {
  const shared = [];
  for (let i = 0; i < Math.max(one.segments.length, other.segments.length); i++) {
    const [mine, theirs] = [one.segments[i] ?? null, other.segments[i] ?? null];
    if (mine !== null && theirs !== null && mine !== theirs) return null;
    shared.push(mine ?? theirs);
  }
  return new ClaimPath(shared);
}

/**
 * @param {string} text
 * @param {string} where
 * @returns {Segment}
 */
function parseSegment(text, where) {
  if (text === "*") return null;
  if (/^(?:0|[1-9][0-9]{0,5})$/.test(text)) return Number(text);
  let name = text;
  if (text.startsWith('"')) {
    try {
      name = JSON.parse(text);
    } catch {
      throw new Refused("path.malformed", where, "A quoted segment is a JSON string.");
    }
  }
  if (!name.isWellFormed()) throw new Refused("path.malformed", where, "A member's name has no lone surrogate.");
  return name;
}

/**
 * @param {(string | number)[]} place
 * @param {Json} value
 * @param {Segment} segment
 * @returns {[(string | number)[], Json][]}
 */
function stepsInto(place, value, segment) {
  if (isObject(value)) {
    if (segment === null) return [...value].map(([name, inner]) => [[...place, name], inner]);
    const inner = isText(segment) ? value.get(segment) : undefined;
    return isText(segment) && inner !== undefined ? [[[...place, segment], inner]] : [];
  }
  if (Array.isArray(value)) {
    if (segment === null) return value.map((inner, i) => [[...place, i], inner]);
    return typeof segment === "number" && segment < value.length ? [[[...place, segment], value[segment]]] : [];
  }
  return [];
}

/** @param {Segment} segment */
function segmentText(segment) {
  if (segment === null) return "*";
  if (typeof segment === "number") return String(segment);
  const plain = /^[^."]+$/.test(segment) && segment !== "*" && !/^(?:0|[1-9][0-9]{0,5})$/.test(segment);
  return plain ? segment : JSON.stringify(segment);
}

/** @param {Segments} place */
export const placeText = (place) => place.map(segmentText).join(".");
