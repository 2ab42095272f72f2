// A context applied to a card, and the plans of several contexts side by side: sdcard/policy/plan.py, explain.py.
// A planned part is {treatment, inside}; `inside` is null for a part that is treated as a whole.

class Planner {
  constructor(format, document, grant, clear) {
    Object.assign(this, { format, grant, clear, kinds: new Map() });
    this.bare = new Set();
    for (const path of grant.plain()) {
      for (const place of path.find(document)) {
        if (grant.treatment(place) !== "plain") continue;
        for (let length = 1; length < place.length; length++) this.bare.add(JSON.stringify(place.slice(0, length)));
      }
    }
    const named = grant.selective().filter((path) => !format.goesWithParent(path.segments));
    this.own = uniquePaths([...format.units, ...named]);
    this.dividers = uniquePaths([...format.units, ...grant.edges()]).filter((path) => path.segments.length > 1);
  }

  object(members, place, covered) {
    return new Map([...members].map(([name, value]) => [name, this.part(value, [...place, name], covered)]));
  }

  part(value, place, covered) {
    if (place.length === 1 && this.clear.has(place[0])) return { treatment: "plain", inside: null };
    const kind = this.kind(place);
    const isContainer = isObject(value) || Array.isArray(value);
    if (!kind.permitted && !(kind.onTheWay && isContainer)) return { treatment: "withheld", inside: null };
    const treatment = this.shown(place, kind, covered);
    const inside = this.inside(value, place, kind, covered || treatment === "selective");
    const mustShow = isTruthy(value) || (kind.forbidden && !kind.permitted);
    if (mustShow && !this.showsSomething(inside, place)) return { treatment: "withheld", inside: null };
    return { treatment, inside };
  }

  kind(place) {
    const key = this.grant.kind(place);
    const text = JSON.stringify(key);
    if (!this.kinds.has(text)) this.kinds.set(text, this.lookAt(key));
    return this.kinds.get(text);
  }

  lookAt(place) {
    const along = this.format.goesWithParent(place);
    const treatment = this.grant.treatment(place);
    const permitted = treatment !== "withheld";
    const forbidden = this.grant.forbids(place);
    return {
      along,
      permitted: permitted || (along && !forbidden),
      forbidden,
      onlyAlong: along && !permitted,
      onTheWay: this.grant.leadsTo(place),
      plain: treatment === "plain",
      own: place.length === 1 || this.own.some((path) => path.matches(place)),
      divided: this.dividers.some((path) => leadsTo(path, place)),
    };
  }

  shown(place, kind, covered) {
    if (kind.plain || kind.along || this.bare.has(JSON.stringify(place))) return "plain";
    return kind.own || !covered ? "selective" : "plain";
  }

  showsSomething(inside, place) {
    if (inside instanceof Map) {
      return [...inside].some(([name, part]) => !this.kind([...place, name]).onlyAlong && part.treatment !== "withheld");
    }
    return inside === null || inside.some((part) => part.treatment !== "withheld");
  }

  inside(value, place, kind, covered) {
    if (kind.permitted && !kind.divided) return null;
    if (isObject(value)) return this.object(value, place, covered);
    return Array.isArray(value) ? value.map((element, i) => this.part(element, [...place, i], covered)) : null;
  }
}

// As Python sees it: empty containers and texts, zero, false and null are not.
function isTruthy(value) {
  if (isObject(value)) return value.size > 0;
  if (Array.isArray(value)) return value.length > 0;
  return Boolean(value instanceof Real ? value.value : value);
}

function planDisclosure(document, format, policy, context, profile, agreement) {
  const grant = grantOf(policy, context, format, agreement ? agreement.discloses : null);
  const clear = new Set([...format.always_disclosed, ...profile.also_clear]);
  for (const name of [...clear].filter((one) => document.has(one)).sort()) {
    const { row } = grant.decide([name]);
    if (row && row.path.segments.length > 0 && row.treatment === "withheld") {
      throw new Refused("disclose.beyond-ceiling", "policy", `The policy withholds ${name} in the context ${context}, but every such SD-Card shows it.`);
    }
  }
  return new Planner(format, document, grant, clear).object(document, [], false);
}

// Members that an agent must not claim about itself (AgentCard 8.4).
function withoutSelfDeclared(value, prefix) {
  if (!prefix) return value;
  if (Array.isArray(value)) return value.map((element) => withoutSelfDeclared(element, prefix));
  if (!isObject(value)) return value;
  const kept = [...value].filter(([name]) => !name.startsWith(prefix));
  return new Map(kept.map(([name, inside]) => [name, withoutSelfDeclared(inside, prefix)]));
}

// partner: {name, now}, for whom federation is, or null.
function explain(document, formatName, policy, profileName, partner) {
  const format = FORMATS.get(formatName);
  const reserved = reservedMembers(document);
  if (reserved.length > 0) throw new Refused("card.reserved-member", ["card", ...reserved[0]].join("/"), "Rename this member.");
  const unsigned = [...document].filter(([name]) => !((DATA.forms[formatName] ?? []).length > 0 && name === "signatures"));
  const card = withoutSelfDeclared(new Map(unsigned), format.self_declared);
  const contexts = [...policy.contexts.keys()];
  const agreement = partner && policy.contexts.has("federation") ? agreementWith(policy, partner) : null;
  const roots = contexts.map((name) => ({
    treatment: "plain",
    inside: planDisclosure(card, format, policy, name, DATA.profiles[profileName], name === "federation" ? agreement : null),
  }));
  return { format: formatName, contexts, agreement, parts: explainPart(card, [], roots).parts };
}

function agreementWith(policy, { name, now }) {
  const lastEnd = (one) => Math.floor(one.expires / DATA.issuing_step) * DATA.issuing_step;
  return policy.agreements.find((one) => one.partner === name && (one.notBefore === null || one.notBefore <= now) && now < lastEnd(one)) ?? null;
}

function explainPart(value, place, shown) {
  const divided = shown.some(({ inside }) => inside !== null);
  const members = !divided ? [] : isObject(value) ? [...value] : Array.isArray(value) ? [...value.entries()] : [];
  const parts = members.map(([step, inner]) => explainPart(inner, [...place, step], shown.map((how) => stepInto(how, step))));
  return { place, value, treatments: shown.map(({ treatment }) => treatment), parts };
}

function stepInto({ treatment, inside }, step) {
  if (treatment === "withheld") return { treatment, inside: null };
  if (inside === null) return { treatment: "plain", inside: null };
  return inside instanceof Map ? inside.get(step) : inside[step];
}
