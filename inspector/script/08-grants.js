// What a context may show of cards of one format: sdcard/policy/rules.py. Treatments are "plain", "selective" and
// "withheld"; of the entries that cover a place, the one with the narrowest path decides.

for (const format of FORMATS.values()) {
  Object.assign(format, { units: pathsOf(format.units), private: pathsOf(format.private) });
  format.goesWithParent = (place) => format.together.some((path) => path.matches(place));
  format.isUnit = (place) => place.length === 1 || (format.units.some((path) => path.matches(place)) && !format.goesWithParent(place));
}

// What entries of a policy mean in cards of one format: groups of the operator too, and groups with a narrower meaning.
class Vocabulary {
  constructor(format, groups, narrowed) {
    Object.assign(this, { format, groups, narrowed });
  }

  read(entry, where) {
    const { format } = this;
    if (entry === "*") return newScope(entry, [new ClaimPath([])], format.private, false);
    const whole = this.group(entry);
    const scope = readEntry(entry, format, where, whole);
    const narrower = whole === null ? null : this.meaning(this.narrowed.get(entry) ?? new Map());
    return narrower === null ? scope : newScope(entry, narrower.filter((path) => whole.some((one) => one.includes(path))), scope.apart, true);
  }

  group(entry) {
    const { format, groups } = this;
    return !format.groups.has(entry) && groups.has(entry) ? this.meaning(groups.get(entry)) ?? [] : groupNamed(entry, format);
  }

  meaning(meaning) {
    const texts = meaning.get(this.format.family) ?? meaning.get("*");
    return texts === undefined ? null : texts.map((text) => ClaimPath.parse(text, "policy"));
  }
}

const decides = (row, place) => row.path.covers(place) && !row.scope.apart.some((path) => path.covers(place));

function narrower(one, other) {
  const of = ({ path }) => [path.segments.length, path.segments.filter((segment) => segment !== null).length];
  const [[a, b], [c, d]] = [of(one), of(other)];
  return c - a || d - b;
}

class Grant {
  constructor(context, rows, lists = []) {
    this.context = context;
    this.rows = rows.toSorted(narrower);
    this.lists = lists;
    let shown = this.rows.filter((row) => row.treatment !== "withheld").map((row) => row.path);
    if (lists.length > 0) {
      let asked = [new ClaimPath([])];
      for (const list of lists) asked = overlaps(asked, list.flatMap((scope) => scope.paths));
      shown = [...asked, ...overlaps(asked, shown)];
    }
    const spared = this.rows.filter((row) => row.treatment === "withheld").flatMap((row) => row.scope.apart);
    this.shown = uniquePaths([...shown, ...overlaps(shown, spared)]);
    this.numbered = this.edges().some((path) => path.segments.some((segment) => typeof segment === "number"));
    this.decided = new Map();
  }

  kind(place) {
    return this.numbered ? place : place.map((one) => (typeof one === "number" ? null : one));
  }

  decide(place) {
    const kind = this.kind(place);
    const key = JSON.stringify(kind);
    if (!this.decided.has(key)) {
      const row = this.rows.find((one) => decides(one, kind)) ?? null;
      this.decided.set(key, { row, treatment: this.treat(kind, row) });
    }
    return this.decided.get(key);
  }

  treat(place, row) {
    if (this.lists.length === 0) return row ? row.treatment : "withheld";
    if (!this.lists.every((list) => list.some((scope) => scope.holds(place)))) return "withheld";
    return row ? row.treatment : "selective";
  }

  treatment(place) {
    return this.decide(place).treatment;
  }

  permits(place) {
    return this.treatment(place) !== "withheld";
  }

  forbids(place) {
    return this.decide(place).row?.treatment === "withheld";
  }

  plain() {
    return overlaps(this.rows.filter((row) => row.treatment === "plain").map((row) => row.path), this.shown);
  }

  selective() {
    return this.rows.filter((row) => row.treatment === "selective").map((row) => row.path);
  }

  leadsTo(place) {
    return this.shown.some((path) => leadsTo(path, place));
  }

  edges() {
    return [
      ...this.rows.flatMap((row) => [row.path, ...row.scope.apart]),
      ...this.lists.flatMap((list) => list.flatMap((scope) => [...scope.paths, ...scope.apart])),
    ];
  }
}

function readRows(context, entry, vocabulary, where) {
  const treatment = context.claims.get(entry);
  let scope = vocabulary.read(entry, where);
  if (entry === "*" && treatment === "withheld") scope = newScope(entry, scope.paths, [], false);
  return scope.paths.map((path) => ({ path, scope, treatment }));
}

// What the context of this name may show; `agreed`: what an agreement lists instead of the context's own choice.
function grantOf(policy, name, format, agreed = null) {
  const decisive = policy.contexts.get(name === "federation" && agreed === null ? "public" : name);
  const vocabulary = new Vocabulary(format, policy.groups, decisive.narrowed);
  const rows = [...decisive.claims.keys()].flatMap((entry) => readRows(decisive, entry, vocabulary, "policy"));
  return new Grant(name, rows, agreed === null ? [] : [agreed.map((entry) => vocabulary.read(entry, "policy"))]);
}

// Whether an entry shows something at or beneath its paths, once it is asked for.
function checkWithin(grant, scope, where) {
  const reaches = (path) => {
    const places = [path.segments, ...grant.edges().map((edge) => overlap(path, edge)?.segments).filter(Boolean)];
    return places.some((place) => (grant.lists.length > 0 ? grant.permits(place) : !grant.forbids(place)));
  };
  if (scope.paths.length > 0 && !scope.paths.some(reaches)) {
    throw new Refused("disclose.beyond-ceiling", where, `The context ${grant.context} never shows it.`);
  }
}
