// What links two SD-Cards or presentations: sdcard/linkability.py. Nothing is verified; values are compared.

async function compareSdJwts(one, other) {
  const seen = [await observe(one), await observe(other)];
  return linksBetween(...seen);
}

async function observe(text) {
  const arrived = parseSdJwt(text, DATA.limits);
  const jws = parseJws(arrived.issuerJwt, "issuer-header", "issuer-jwt", DATA.limits.json_depth);
  const processed = await processPayload(jws.payload, arrived.disclosures, DATA.limits);
  const kb = arrived.kbJwt ? parseJws(arrived.kbJwt, "kb-header", "kb-jwt", DATA.limits.json_depth) : null;
  const traces = new Map();
  const add = (what, part, path, value, where) => {
    const key = JSON.stringify([what, part, path, value]);
    if (!traces.has(key)) traces.set(key, { what, part, path, where });
  };
  addCrypto(jws, processed, add);
  for (const [name, value] of jws.header) addWhole(Object.hasOwn(DATA.link.header, name) ? DATA.link.header[name] : "header", "issuer-header", name, value, add);
  addClaims(jws, processed.claims, add);
  if (kb) addKeyBinding(kb, add);
  const times = new Map(["iat", "nbf", "exp"].filter((name) => isInstant(processed.claims.get(name))).map((name) => [name, Number(numberOf(processed.claims.get(name)))]));
  if (kb && isInstant(kb.payload.get("iat"))) times.set("kb-iat", Number(numberOf(kb.payload.get("iat"))));
  return { traces, times };
}

function addCrypto(jws, processed, add) {
  add("signature", "issuer-jwt", [], encodeBase64url(jws.signature), "issuer-jwt/signature");
  for (const [digest, path] of digestsIn(jws.payload, [])) add("digest", "issuer-jwt", [], digest, ["issuer-jwt", ...path].join("/"));
  addCounts(jws.payload, [], "issuer-jwt", add);
  for (const { place, disclosure } of processed.revealed) {
    const where = `disclosure/${disclosure.number}`;
    add("disclosure", "disclosure", [], disclosure.encoded, where);
    add("salt", "disclosure", [], disclosure.salt, where);
    for (const [digest, path] of digestsIn(disclosure.value, [])) add("digest", "issuer-jwt", [], digest, [where, ...path].join("/"));
    addCounts(disclosure.value, place, where, add);
  }
}

function addCounts(value, place, where, add) {
  const counts = new Map();
  for (const [, path] of digestsIn(value, [])) {
    const key = JSON.stringify(path.slice(0, -1));
    counts.set(key, (counts.get(key) ?? 0) + 1);
  }
  for (const [key, count] of counts) {
    const path = JSON.parse(key);
    const named = [...place, ...path].map((step) => (typeof step === "number" ? "*" : step)).join("/");
    add("digest-count", "issuer-jwt", [named], String(count), [where, ...path].join("/"));
  }
}

function* digestsIn(value, path) {
  if (Array.isArray(value)) {
    for (const [number, element] of value.entries()) yield* digestsIn(element, [...path, number]);
  } else if (isObject(value)) {
    for (const [name, inner] of value) {
      if (name === "_sd" && Array.isArray(inner)) yield* inner.map((digest, number) => [digest, [...path, "_sd", number]]);
      else if (name === "...") yield [inner, path];
      else yield* digestsIn(inner, [...path, name]);
    }
  }
}

function addClaims(jws, processed, add) {
  const claims = new Map(processed);
  const names = new Set();
  if (jws.payload.has("_sd_alg")) claims.set("_sd_alg", jws.payload.get("_sd_alg"));
  for (const [name, value] of claims) {
    if (Object.hasOwn(DATA.link.claims, name)) addWhole(DATA.link.claims[name], "issuer-jwt", name, value, add);
    else if (["iat", "nbf", "exp"].includes(name)) add(name, "issuer-jwt", [name], isInstant(value) ? String(Number(numberOf(value))) : sortedText(value), `issuer-jwt/${name}`);
    else if (name === "cnf") addConfirmation(value, add);
    else if (name === "status") addStatus(value, add);
    else {
      addWhole("member", "card", name, value, add);
      for (const [path] of leavesOf(value, [name])) names.add(JSON.stringify(path));
    }
  }
  if (names.size > 0) add("member-names", "card", [], JSON.stringify([...names].sort()), "card");
}

function addConfirmation(value, add) {
  add("cnf", "issuer-jwt", ["cnf"], sortedText(value), "issuer-jwt/cnf");
  for (const [path, leaf] of leavesOf(value, ["cnf"])) {
    const what = DATA.link.key_type.includes(path[2]) ? "key-type" : "cnf";
    add(what, "issuer-jwt", path, leaf, ["issuer-jwt", ...path].join("/"));
  }
}

function addStatus(value, add) {
  const reference = tryOr(() => readStatus(value), null);
  const entry = ["status", "status_list"];
  if (reference) add("status", "issuer-jwt", entry, sortedText([reference.uri, reference.index]), "issuer-jwt/status/status_list");
  for (const [path, leaf] of leavesOf(value, ["status"])) {
    const text = path.join("/");
    const where = `issuer-jwt/${text}`;
    if (reference && text === "status/status_list/uri") add("status-list", "issuer-jwt", path, leaf, where);
    else if (!reference || text !== "status/status_list/idx") add("status", "issuer-jwt", path, leaf, where);
  }
}

function addKeyBinding(kb, add) {
  add("kb-signature", "kb-jwt", [], encodeBase64url(kb.signature), "kb-jwt/signature");
  const known = (table, name) => (Object.hasOwn(table, name) ? table[name] : "kb-other");
  for (const [name, value] of kb.header) addWhole(known(DATA.link.kb_header, name), "kb-header", name, value, add);
  for (const [name, value] of kb.payload) addWhole(known(DATA.link.kb_claims, name), "kb-jwt", name, value, add);
}

function addWhole(what, part, name, value, add) {
  add(what, part, [name], sortedText(value), `${part}/${name}`);
  for (const [path, leaf] of leavesOf(value, [name])) add(what, part, path, leaf, [part, ...path].join("/"));
}

function* leavesOf(value, path) {
  if (isObject(value) && value.size > 0) {
    for (const [name, inner] of value) yield* leavesOf(inner, [...path, name]);
  } else if (Array.isArray(value) && value.length > 0) {
    for (const element of value) yield* leavesOf(element, [...path, "*"]);
  } else {
    yield [path, sortedText(value)];
  }
}

function linksBetween(one, other) {
  const shared = [...one.traces].filter(([key]) => other.traces.has(key));
  const wholes = new Set(shared.filter(([, trace]) => trace.path.length === 1).map(([, trace]) => JSON.stringify([trace.part, trace.path[0]])));
  const links = new Map();
  const add = (what, how, verdict, places) => {
    const key = JSON.stringify([what, how, verdict]);
    if (!links.has(key)) links.set(key, { what, how, verdict, places: [] });
    links.get(key).places.push(places);
  };
  for (const [key, trace] of shared) {
    if (trace.path.length >= 2 && wholes.has(JSON.stringify([trace.part, trace.path[0]]))) continue;
    let verdict = DATA.link.verdicts[trace.what] ?? "avoidable";
    if (one.times.has(trace.what) && isRounded(trace.what, one.times.get(trace.what))) verdict = "unavoidable";
    add(trace.what, "same", verdict, [trace.where, other.traces.get(key).where]);
  }
  for (const [what, time] of one.times) {
    const apart = other.times.has(what) ? Math.abs(time - other.times.get(what)) : 0;
    const tells = [time, other.times.get(what)].some((each) => each !== undefined && !isRounded(what, each));
    const binding = what === "kb-iat";
    const where = binding ? "kb-jwt/iat" : `issuer-jwt/${what}`;
    const near = apart > 0 && apart <= (binding ? DATA.link.close_binding : DATA.link.close);
    if (near && (tells || binding)) add(what, "close", tells ? "avoidable" : "unavoidable", [where, where]);
  }
  const order = (link) => [DATA.link.order_of_verdicts.indexOf(link.verdict), DATA.link.order.indexOf(link.what)];
  return [...links.values()].sort((a, b) => order(a)[0] - order(b)[0] || order(a)[1] - order(b)[1]);
}

function isRounded(what, time) {
  if (what === "kb-iat") return time % DATA.link.minute === 0;
  return time % DATA.link.hour === 0 || (what === "exp" && (time + 1) % DATA.link.hour === 0);
}
