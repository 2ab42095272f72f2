// Claim paths, as sdcard/paths.py: segments are names, indices, or null for `*`.

const SEGMENT = /"(?:[^"\\]|\\[^\n])*"|[^."]+/g;

class ClaimPath {
  constructor(segments) {
    this.segments = segments;
    this.key = JSON.stringify(segments);
  }

  static parse(text, where) {
    const parts = codePoints(text) <= 1024 ? (text.match(SEGMENT) ?? []) : [];
    if (parts.length === 0 || parts.join(".") !== text) throw new Refused("path.malformed", where, "A path is segments joined by dots.");
    return new ClaimPath(parts.map((part) => parseSegment(part, where)));
  }

  agrees(segments) {
    const own = this.segments;
    for (let i = 0; i < own.length && i < segments.length; i++) {
      if (own[i] !== null && own[i] !== segments[i]) return false;
    }
    return true;
  }

  covers(place) {
    return this.segments.length <= place.length && this.agrees(place);
  }

  includes(other) {
    return this.covers(other.segments);
  }

  leadsTo(place) {
    return place.length < this.segments.length && this.agrees(place);
  }

  matches(place) {
    return place.length === this.segments.length && this.agrees(place);
  }

  // The path that covers exactly the places that both cover; null where there are none.
  overlap(other) {
    const shared = [];
    for (let i = 0; i < Math.max(this.segments.length, other.segments.length); i++) {
      const [mine, theirs] = [this.segments[i] ?? null, other.segments[i] ?? null];
      if (mine !== null && theirs !== null && mine !== theirs) return null;
      shared.push(mine ?? theirs);
    }
    return new ClaimPath(shared);
  }

  find(value) {
    let found = [[[], value]];
    for (const segment of this.segments) found = found.flatMap(([place, inner]) => stepsInto(place, inner, segment));
    return found.map(([place]) => place);
  }

  toString() {
    return placeText(this.segments);
  }
}

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
  if (/[\ud800-\udfff]/u.test(name)) throw new Refused("path.malformed", where, "A member's name has no lone surrogate.");
  return name;
}

function stepsInto(place, value, segment) {
  if (isObject(value)) {
    if (segment === null) return [...value].map(([name, inner]) => [[...place, name], inner]);
    return isText(segment) && value.has(segment) ? [[[...place, segment], value.get(segment)]] : [];
  }
  if (Array.isArray(value)) {
    if (segment === null) return value.map((inner, i) => [[...place, i], inner]);
    return typeof segment === "number" && segment < value.length ? [[[...place, segment], value[segment]]] : [];
  }
  return [];
}

function segmentText(segment) {
  if (segment === null) return "*";
  if (typeof segment === "number") return String(segment);
  const plain = /^[^."]+$/.test(segment) && segment !== "*" && !/^(?:0|[1-9][0-9]{0,5})$/.test(segment);
  return plain ? segment : JSON.stringify(segment);
}

const placeText = (place) => place.map(segmentText).join(".");

const uniquePaths = (paths) => [...new Map(paths.map((path) => [path.key, path])).values()];
const overlaps = (some, others) => uniquePaths(some.flatMap((one) => others.map((other) => one.overlap(other)).filter(Boolean)));
