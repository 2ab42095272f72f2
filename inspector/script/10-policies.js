// A policy document in JSON → policy, or everything that is wrong with it: sdcard/policy/document.py, checking.py.

function parsePolicy(text) {
  if (!text.isWellFormed()) throw new Refused("encoding.utf8", "policy");
  const data = utf8(lenientDocument(text));
  if (utf8(text).length > DATA.limits.policy_bytes) throw new Refused("limit.bytes", "policy", `A policy has at most ${DATA.limits.policy_bytes} bytes.`);
  if (!/^[ \t\n\r\f\v]*\{/.test(lenientDocument(text))) throw new NotChecked("This page reads policies in JSON. Convert one in TOML first.");
  return readPolicy(parseJsonObject(data, "policy", DATA.limits.json_depth));
}

// {policy, findings}: `policy` is null where there is a finding.
function readPolicy(document) {
  const findings = [];
  matchSchema(document, DATA.policy_schema, "policy", (where, hint) => findings.push({ rule: "policy.malformed", where, hint }));
  checkLadder(document.get("ladder"), findings);
  const contexts = new Map(DEFAULT_CONTEXTS);
  for (const [name, value] of membersOf(document, "contexts", 32)) contexts.set(name, contextOf(name, value));
  const groups = new Map(membersOf(document, "groups", 64).map(([name, value]) => [name, meaningOf(value)]));
  const policy = { contexts, groups, members: textsOf(document.get("members")), agreements: agreementsOf(document.get("agreements"), findings) };
  findings.push(...checkPolicy(policy));
  const unique = [...new Map(findings.map((one) => [`${one.rule} ${one.where} ${one.hint}`, one])).values()];
  return { policy: unique.length > 0 ? null : policy, findings: unique };
}

const defaultPolicy = () => ({ contexts: new Map(DEFAULT_CONTEXTS), groups: new Map(), members: [], agreements: [] });

// -- shape ------------------------------------------------------------------------------------------------------------

const KINDS = { object: isObject, array: Array.isArray, string: isText, integer: (value) => wholeOf(value) !== null };

function matchSchema(value, schema, where, say) {
  const kinds = [schema.type ?? []].flat();
  if (kinds.length > 0 && !kinds.some((kind) => KINDS[kind](value))) say(where, `It must be ${kinds.join(" or ")}.`);
  if (schema.enum && !schema.enum.includes(value)) say(where, "Use plain, selective or withheld.");
  if (isText(value)) {
    if (schema.pattern && !new RegExp(schema.pattern, "u").test(value)) say(where, "A name is 1 to 64 letters of ASCII, digits, `_` and `-`; the first is a letter.");
    bounded(codePoints(value), schema.minLength, schema.maxLength, where, say);
  } else if (isNumber(value)) {
    bounded(numberOf(value), schema.minimum, schema.maximum, where, say);
  } else if (Array.isArray(value)) {
    bounded(value.length, schema.minItems, schema.maxItems, where, say);
    if (schema.items) value.forEach((one, i) => matchSchema(one, schema.items, `${where}/${i}`, say));
  } else if (isObject(value)) {
    bounded(value.size, schema.minProperties, schema.maxProperties, where, say);
    for (const name of schema.required ?? []) if (!value.has(name)) say(`${where}/${name}`, "It is required.");
    for (const [name, one] of value) matchMember(name, one, schema, where, say);
  }
}

function matchMember(name, one, schema, where, say) {
  const here = codePoints(name) <= 64 ? `${where}/${name}` : where;
  if (schema.propertyNames) matchSchema(name, schema.propertyNames, here, (_, hint) => say(here, hint));
  if (schema.properties && Object.hasOwn(schema.properties, name)) matchSchema(one, schema.properties[name], `${where}/${name}`, say);
  else if (schema.additionalProperties === false) say(here, "It is not known here.");
  else if (schema.additionalProperties) matchSchema(one, schema.additionalProperties, `${where}/${name}`, say);
}

function bounded(size, least = -Infinity, most = Infinity, where, say) {
  if (size < least) say(where, least === 1 ? "It is empty." : `It is ${least} or more.`);
  if (size > most) say(where, `It is at most ${most}.`);
}

function wholeOf(value) {
  if (!isNumber(value)) return null;
  const number = Number(numberOf(value));
  return Number.isInteger(number) ? number : null;
}

// -- document → values ------------------------------------------------------------------------------------------------

const membersOf = (document, name, most) => (isObject(document) && isObject(document.get(name)) ? [...document.get(name)].slice(0, most) : []);
const textsOf = (value) => (Array.isArray(value) ? value.slice(0, 64).filter((one) => isText(one) && codePoints(one) <= 256) : []);

function meaningOf(value) {
  if (isObject(value)) return new Map([...value].slice(0, 64).map(([name, one]) => [name, textsOf(one)]));
  return new Map([["*", textsOf(value)]]);
}

function contextOf(name, value) {
  const claims = membersOf(value, "claims", 64).filter(([entry, treatment]) => ["plain", "selective", "withheld"].includes(treatment) && codePoints(entry) <= 256);
  const narrowed = membersOf(value, "narrowed", 16).map(([group, meaning]) => [group, meaningOf(meaning)]);
  return { name, claims: new Map(claims), narrowed: new Map(narrowed), contains: textsOf(isObject(value) ? value.get("contains") : undefined) };
}

const DEFAULT_CONTEXTS = new Map(DATA.contexts.map((one) => [one.name, contextOf(one.name, jsonOf(one))]));

function checkLadder(value, findings) {
  const steps = Array.isArray(value) ? value : [];
  const ladder = steps.map(wholeOf).filter((step) => step !== null && step >= 1 && step <= 4096);
  if (ladder.length === 0 || ladder.length < steps.length) return;
  if (ladder.some((step, i) => i > 0 && step <= ladder[i - 1])) {
    findings.push({ rule: "policy.malformed", where: "policy/ladder", hint: "Each size is above the one before." });
  }
}

function agreementsOf(value, findings) {
  return (Array.isArray(value) ? value.slice(0, 256) : []).flatMap((one, number) => {
    if (!isObject(one)) return [];
    const [notBefore, expires] = ["not_before", "expires"].map((name) => agreedInstant(one.get(name), `policy/agreements/${number}/${name}`, findings));
    if (!isText(one.get("partner")) || expires === null) return [];
    return [{ partner: one.get("partner"), discloses: textsOf(one.get("discloses")), expires, notBefore }];
  });
}

function agreedInstant(value, where, findings) {
  const instant = isText(value) ? parseRfc3339(value) : wholeOf(value);
  if (instant !== null && Number.isInteger(instant) && instant >= 0 && instant <= DATA.max_instant) return instant;
  if (isText(value)) findings.push({ rule: "policy.malformed", where, hint: "Use RFC 3339 with an offset, or Unix seconds; whole seconds, from 1970 on." });
  return null;
}

const RFC_3339 = /^([0-9]{4})-([0-9]{2})-([0-9]{2})[Tt ]([0-9]{2}):([0-9]{2}):([0-9]{2})(\.[0-9]+)?(?:[Zz]|([+-])([0-9]{2}):([0-9]{2}))$/;

// Unix seconds, or null for anything else. An offset is required, a leap second is none.
function parseRfc3339(text) {
  const match = RFC_3339.exec(text);
  if (!match) return null;
  const [year, month, day, hour, minute, second] = match.slice(1, 7).map(Number);
  const [fraction, sign, hours, minutes] = [match[7], match[8], Number(match[9] ?? 0), Number(match[10] ?? 0)];
  if (!year || hour > 23 || hours > 23 || Math.max(minute, second, minutes) > 59) return null;
  const date = new Date(0);
  date.setUTCFullYear(year, month - 1, day);
  if (date.getUTCMonth() !== month - 1 || date.getUTCDate() !== day) return null;
  const whole = date.getTime() / 1000 + hour * 3600 + minute * 60 + second - (sign === "-" ? -1 : 1) * (3600 * hours + 60 * minutes);
  return fraction ? whole + Number(fraction) : whole;
}

// -- what it means ----------------------------------------------------------------------------------------------------

const FORMAT_LIST = [...FORMATS.values()];
const FAMILIES = [...new Set(FORMAT_LIST.map((format) => format.family))];
const NAMES = new Set(FORMAT_LIST.flatMap((format) => [...format.groups.keys(), ...format.members, ...format.always_disclosed]));
const finding = (rule, where, hint) => ({ rule, where, hint });

function checkPolicy(policy) {
  const found = [...checkGroups(policy), ...checkMembers(policy), ...checkSize(policy)];
  if (found.some((one) => one.where === "policy/contexts")) return found;
  const aboutGroups = found.length > 0;
  const sound = new Set();
  for (const context of policy.contexts.values()) {
    const findings = checkContext(policy, context);
    found.push(...findings);
    if (findings.length === 0 && !aboutGroups) sound.add(context.name);
  }
  for (const context of policy.contexts.values()) found.push(...checkContainment(policy, context, sound));
  return [...found, ...checkAgreements(policy)];
}

// Rows of these entries in a format; entries that are no paths have a finding of their own.
function rowsOf(policy, context, entries, format) {
  const vocabulary = new Vocabulary(format, policy.groups, context.narrowed);
  return [...entries].flatMap((entry) => tryOr(() => readRows(context, entry, vocabulary, "policy"), []));
}

function checkSize(policy) {
  const contexts = [...policy.contexts.values()];
  for (const format of FORMAT_LIST) {
    const sizes = new Map(contexts.map((one) => [one.name, rowsOf(policy, one, one.claims.keys(), format).length]));
    const sum = [...sizes.values()].reduce((a, b) => a + b, 0);
    const pairs = contexts.flatMap((one) => one.contains.map((name) => sizes.get(one.name) * (sizes.get(basis(name)) ?? 0) + DATA.pairs_of_an_entry)).reduce((a, b) => a + b, 0);
    if (sum > DATA.most_paths_in_all) return [finding("policy.malformed", "policy/contexts", "There are too many paths.")];
    if (pairs > DATA.most_pairs) return [finding("policy.malformed", "policy/contexts", "To prove what contexts contain would take too long.")];
  }
  return [];
}

function checkGroups(policy) {
  return [...policy.groups].flatMap(([name, meaning]) => {
    const where = `policy/groups/${name}`;
    const taken = NAMES.has(name) || name === "*" ? [finding("policy.malformed", where, "A card format has something of this name.")] : [];
    return [...taken, ...checkMeaning(policy, meaning, where)];
  });
}

function checkMembers(policy) {
  return policy.members.flatMap((name) => {
    const where = `policy/members/${name}`;
    if (DATA.reserved_at_top.includes(name) || DATA.reserved_anywhere.includes(name)) return [finding("card.reserved-member", where, "No card has a member of this name.")];
    return policy.groups.has(name) ? [finding("policy.malformed", where, "A group has this name too.")] : [];
  });
}

function checkMeaning(policy, meaning, where) {
  return [...meaning].flatMap(([name, texts]) => {
    if (name !== "*" && !FAMILIES.includes(name)) return [finding("policy.malformed", `${where}/${name}`, "There is no such family of card formats.")];
    const here = name === "*" && meaning.size === 1 ? where : `${where}/${name}`;
    return texts.flatMap((text, i) => checkPath(policy, text, `${here}/${i}`, name === "*" ? [] : [name]));
  });
}

function checkPath(policy, text, where, families) {
  let segments;
  try {
    segments = ClaimPath.parse(text, where).segments;
  } catch (refusal) {
    return [finding(refusal.rule, refusal.where, refusal.hint)];
  }
  const formats = FORMAT_LIST.filter((format) => families.length === 0 || families.includes(format.family));
  if (segments.length > DATA.limits.json_depth) return [finding("path.malformed", where, "No card is so deep.")];
  if (DATA.reserved_at_top.includes(segments[0]) || segments.some((one) => DATA.reserved_anywhere.includes(one))) {
    return [finding("card.reserved-member", where, "No card has a member of this name.")];
  }
  const known = formats.some((format) => format.members.includes(segments[0]) || format.always_disclosed.includes(segments[0]));
  return known || policy.members.includes(segments[0]) ? [] : [finding("disclose.unknown", where, "No card format has this; if cards do, list it in `members`.")];
}

function checkEntry(policy, entry, where) {
  return entry === "*" || policy.groups.has(entry) || ALL_GROUPS.has(entry) ? [] : checkPath(policy, entry, where, []);
}

function checkContext(policy, context) {
  const where = `policy/contexts/${context.name}`;
  const wrong = [...context.claims.keys()].map((entry) => [entry, checkEntry(policy, entry, `${where}/claims/${entry}`)]);
  const found = wrong.flatMap(([, findings]) => findings);
  for (const [name, meaning] of context.narrowed) found.push(...checkNarrowed(policy, name, meaning, `${where}/narrowed/${name}`));
  if (context.name === "federation") found.push(...checkFederation(policy, context, where));
  const entries = wrong.filter(([, findings]) => findings.length === 0).map(([entry]) => entry);
  const said = new Set();
  const lookedAt = new Set();
  for (const format of FORMAT_LIST) {
    const rows = rowsOf(policy, context, entries, format);
    for (const one of checkAlways(rows, format, `${where}/claims`)) {
      if (!said.has(one.where)) found.push(one);
      said.add(one.where);
    }
    const key = JSON.stringify(rows.map((row) => [row.path.key, row.scope.entry, row.treatment, row.scope.apart.map((path) => path.key)]));
    if (!lookedAt.has(key)) found.push(...checkRows(rows, `${where}/claims`));
    lookedAt.add(key);
  }
  return found;
}

function checkNarrowed(policy, name, meaning, where) {
  if (!policy.groups.has(name) && !ALL_GROUPS.has(name)) return [finding("disclose.unknown", where, "There is no such group.")];
  const findings = checkMeaning(policy, meaning, where);
  if (findings.length > 0) return findings;
  for (const [one, texts] of meaning) {
    const formats = FORMAT_LIST.filter((format) => one === format.family || one === "*");
    const scopes = formats.map((format) => tryOr(() => new Vocabulary(format, policy.groups, new Map()).read(name, "policy"), null)).filter(Boolean);
    for (const text of texts) {
      const path = ClaimPath.parse(text, "policy");
      const holding = scopes.filter((scope) => scope.paths.some((p) => p.includes(path)));
      if (holding.length === 0 || !holding.every((scope) => scope.holds(path.segments))) {
        findings.push(finding("policy.malformed", where, "A narrowed group means a part of it."));
      }
    }
  }
  return findings;
}

function checkFederation(policy, context, where) {
  const found = [...context.claims].filter(([, treatment]) => treatment !== "withheld").map(([entry]) => finding("policy.malformed", `${where}/claims/${entry}`, "Give this context ceilings only."));
  if (context.contains.length > 0) found.push(finding("policy.malformed", `${where}/contains`, "What this context shows, agreements decide."));
  if (!policy.contexts.has("public")) found.push(finding("context.unknown", where, "Without an agreement it shows what public shows."));
  return found;
}

function checkAlways(rows, format, where) {
  return rows.flatMap((row) => {
    const first = row.path.segments[0];
    if (!format.always_disclosed.includes(first) || givesWay(first, row.treatment)) return [];
    return [finding("policy.always-disclosed", `${where}/${row.scope.entry}`, `Every SD-Card of ${format.name} shows ${first}; leave it out.`)];
  });
}

function givesWay(name, treatment) {
  const having = FORMAT_LIST.filter((format) => format.members.includes(name) || format.always_disclosed.includes(name));
  return treatment === "plain" || (treatment === "selective" && having.some((format) => !format.always_disclosed.includes(name)));
}

function checkRows(rows, where) {
  if (rows.length > DATA.most_paths) return [finding("policy.malformed", where, "There are too many paths.")];
  const found = [];
  const paths = new Set(rows.map((row) => row.path.key));
  for (const [i, one] of rows.entries()) {
    for (const other of rows.slice(i + 1)) {
      if (one.scope === other.scope) continue;
      const here = `${where}/${other.scope.entry}`;
      if (one.path.key === other.path.key) {
        if (one.treatment !== other.treatment || !(one.scope.isGroup || other.scope.isGroup)) found.push(finding("policy.ambiguous", here, `The entry ${one.scope.entry} is about ${one.path} too.`));
      } else if (one.treatment !== other.treatment && !one.path.includes(other.path) && !other.path.includes(one.path)) {
        const shared = overlap(one.path, other.path);
        if (shared && !paths.has(shared.key) && decides(one, shared.segments) && decides(other, shared.segments)) {
          found.push(finding("policy.ambiguous", here, `The entry ${one.scope.entry} says something else of ${shared}.`));
        }
      }
    }
  }
  return found;
}

// -- containment ------------------------------------------------------------------------------------------------------

const basis = (name) => (name === "federation" ? "public" : name);

function checkContainment(policy, context, sound) {
  return context.contains.flatMap((name, number) => {
    const where = `policy/contexts/${context.name}/contains/${number}`;
    if (!policy.contexts.has(name)) return [finding("context.unknown", where, "There is no such context.")];
    if (leadsBack(policy.contexts, name, context.name)) return [finding("policy.containment", where, "A context would contain itself.")];
    if (!sound.has(basis(context.name)) || !sound.has(basis(name))) return [];
    const missing = missingPlace(policy, context.name, name);
    return missing ? [finding("policy.containment", where, `The context ${name} shows ${missing.toString() || "*"}, and ${context.name} does not.`)] : [];
  });
}

function leadsBack(contexts, start, name) {
  const waiting = [start];
  const seen = new Set();
  while (waiting.length > 0) {
    const one = waiting.pop();
    if (one === name) return true;
    if (contexts.has(one) && !seen.has(one)) waiting.push(...contexts.get(one).contains);
    seen.add(one);
  }
  return false;
}

// A place that the inner context may show, in a card of any format, where the outer one shows nothing.
function missingPlace(policy, outer, inner) {
  for (const format of FORMAT_LIST) {
    const [less, more] = [inner, outer].map((name) => grantOf(policy, name, format));
    const found = firstMissing(less, more, format);
    if (found) return found;
  }
  return null;
}

function firstMissing(less, more, format) {
  const holes = uniquePaths([...less.rows, ...more.rows].flatMap((row) => row.scope.apart));
  const edges = uniquePaths([...more.edges(), ...holes]);
  const shown = uniquePaths(shownPlaces(less, format));
  const met = uniquePaths([...shown, ...overlaps(shown, edges)]);
  const places = uniquePaths([...met, ...overlaps(met, holes)]).filter((path) => !(path.segments.length > 0 && format.always_disclosed.includes(path.segments[0])));
  return places.find((path) => !isContained(less, more, path.segments, format)) ?? null;
}

function shownPlaces(grant, format) {
  return grant.shown.flatMap((shown) => {
    const above = shown.segments.slice(0, -1).map((_, i) => new ClaimPath(shown.segments.slice(0, i + 1)));
    const along = format.together.flatMap((one) => {
      const parent = overlap(new ClaimPath(one.segments.slice(0, -1)), new ClaimPath(shown.segments.slice(0, one.segments.length - 1)));
      return parent ? [new ClaimPath([...parent.segments, one.segments.at(-1)])] : [];
    });
    return [...above, shown, ...along];
  });
}

function isContained(less, more, place, format) {
  if (less.permits(place)) return more.permits(place);
  if (less.forbids(place)) return true;
  const above = place.slice(0, -1);
  const along = format.goesWithParent(place) && (less.permits(above) || less.leadsTo(above));
  return along || less.leadsTo(place) ? !more.forbids(place) : true;
}

// -- agreements -------------------------------------------------------------------------------------------------------

const isDeceptive = (text) => new RegExp(DATA.hidden_characters, "u").test(text) && new RegExp(DATA.hidden_characters, "u").test(text.replace(new RegExp(DATA.flags, "gu"), ""));

function checkAgreements(policy) {
  const where = "policy/agreements";
  const { agreements } = policy;
  if (agreements.length > 0 && !policy.contexts.has("federation")) return [finding("context.unknown", where, "Agreements need the context federation.")];
  if (agreements.reduce((sum, one) => sum + one.discloses.length, 0) > DATA.most_paths_in_all) return [finding("policy.malformed", where, "There are too many entries.")];
  const found = [];
  const context = policy.contexts.get("federation");
  const ceilings = agreements.length === 0 ? [] : FORMAT_LIST.map((format) => [new Vocabulary(format, policy.groups, context.narrowed), new Grant("federation", rowsOf(policy, context, context.claims.keys(), format))]);
  for (const [number, one] of agreements.entries()) {
    const here = `${where}/${number}`;
    if (isDeceptive(one.partner)) found.push(finding("policy.malformed", `${here}/partner`, "It holds characters that have no shape or turn the text round."));
    if (one.notBefore !== null && one.notBefore >= one.expires) found.push(finding("policy.malformed", `${here}/expires`, "It ends before it begins."));
    for (const [index, entry] of one.discloses.entries()) {
      const place = `${here}/discloses/${index}`;
      const findings = checkEntry(policy, entry, place);
      found.push(...(findings.length > 0 ? findings : checkAgreed(ceilings, entry, place)));
    }
    if (agreements.slice(0, number).some((other) => agreementsOverlap(one, other))) found.push(finding("policy.ambiguous", here, "Another agreement with this partner holds at the same time."));
  }
  return found;
}

function agreementsOverlap(one, other) {
  const end = Math.min(one.expires, other.expires);
  const starts = [one, other].map((each) => each.notBefore).filter((start) => start !== null);
  return one.partner === other.partner && (starts.length > 0 ? Math.max(...starts) : end - 1) < end;
}

function checkAgreed(ceilings, entry, where) {
  for (const [vocabulary, grant] of ceilings) {
    try {
      checkWithin(grant, vocabulary.read(entry, where), where);
    } catch (refusal) {
      if (refusal.rule === "disclose.beyond-ceiling") return [finding(refusal.rule, where, refusal.hint)];
      if (!(refusal instanceof Refused)) throw refusal;
    }
  }
  return [];
}
