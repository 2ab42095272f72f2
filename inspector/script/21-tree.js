// A card as a tree: what is in the clear, what Disclosures show, and where something stays hidden.

const MOST_ROWS = 1_500;

function claimsTree(found) {
  const { claims, revealed, hidden } = found.processed;
  const byPlace = new Map(revealed.map((one) => [JSON.stringify(one.place), one.disclosure]));
  const hiddenAt = new Map();
  for (const { place } of hidden) {
    const key = JSON.stringify(place);
    hiddenAt.set(key, (hiddenAt.get(key) ?? 0) + 1);
  }
  const state = { byPlace, hiddenAt, left: MOST_ROWS };
  const own = [...claims].filter(([name]) => DATA.reserved_at_top.includes(name));
  const members = new Map([...claims].filter(([name]) => !DATA.reserved_at_top.includes(name)));
  const card = el("ul", { class: "tree" }, treeRows(members, [], state));
  if (own.length === 0 || !found.jws) return [card];
  const rows = own.map(([name, value]) => treeRow(name, value, [name], state));
  return [card, el("details", { class: "own" }, el("summary", {}, `Claims about the SD-Card itself (${own.length})`), el("ul", { class: "tree" }, rows))];
}

function treeRows(value, place, state) {
  const members = isObject(value) ? [...value] : [...value.entries()];
  const rows = [];
  for (const [step, inner] of members) {
    if (state.left-- <= 0) break;
    rows.push(treeRow(step, inner, [...place, step], state));
  }
  const hidden = state.hiddenAt.get(JSON.stringify(place));
  if (hidden) rows.push(hiddenRow(hidden, Array.isArray(value)));
  if (state.left <= 0 && place.length === 0) rows.push(el("li", { class: "cut" }, "There is more; it is not drawn."));
  return rows;
}

function treeRow(step, value, place, state) {
  const disclosure = state.byPlace.get(JSON.stringify(place));
  const container = (isObject(value) && (value.size > 0 || state.hiddenAt.has(JSON.stringify(place)))) || (Array.isArray(value) && (value.length > 0 || state.hiddenAt.has(JSON.stringify(place))));
  const name = el("span", { class: typeof step === "number" ? "index" : "name" }, typeof step === "number" ? `${step}` : safe(step, 80));
  const badge = disclosure ? el("a", { class: "badge", href: `#disclosure-${disclosure.number}` }, `Disclosure ${disclosure.number}`) : null;
  const kind = disclosure ? "disclosed" : "clear";
  if (!container) return el("li", { class: kind }, el("div", { class: "leaf" }, name, el("span", { class: "value" }, leafNode(value), place.length === 1 && ["iat", "nbf", "exp"].includes(step) && isNumber(value) ? [" ", el("span", { class: "size" }, when(value))] : ""), badge));
  return el("li", { class: kind },
    el("details", { open: place.length < 3 }, el("summary", {}, name, el("span", { class: "size" }, sizeText(value))), el("ul", {}, treeRows(value, place, state))), badge);
}

const sizeText = (value) => (Array.isArray(value) ? `${value.length} ${value.length === 1 ? "element" : "elements"}` : `${value.size} ${value.size === 1 ? "member" : "members"}`);

function hiddenRow(count, inArray) {
  const what = count === 1 ? "1 digest that nothing here matches" : `${count} digests that nothing here matches`;
  return el("li", { class: "hidden" }, el("span", { class: "leaf" }, el("span", { class: "name" }, inArray ? "elements?" : "members?"), el("span", { class: "value" }, `${what}: hidden, or decoys`)));
}

function leafNode(value) {
  if (isText(value)) return linked(value);
  if (isObject(value)) return "{}";
  if (Array.isArray(value)) return "[]";
  return el("span", { class: "literal" }, sortedText(value));
}

function disclosureList(found) {
  const places = new Map(found.processed.revealed.map((one) => [one.disclosure.number, one]));
  const items = found.processed.disclosures.slice(0, MOST_ROWS).map((disclosure) => {
    const { place, parent } = places.get(disclosure.number);
    const holder = parent ? `the digest is inside Disclosure ${parent.number}` : "the digest is in the Issuer's JWT";
    return el("li", { id: `disclosure-${disclosure.number}`, tabindex: "-1" },
      el("details", {},
        el("summary", {}, el("span", { class: "number" }, `${disclosure.number}`), code(placeText(place), 80), el("span", { class: "size" }, holder)),
        el("dl", { class: "facts" },
          fact("Digest", code(disclosure.digest)), fact("Salt", code(disclosure.salt)),
          fact("Name", disclosure.name === null ? "none: an array element" : code(disclosure.name)),
          fact("As sent", code(disclosure.encoded, 2_000))),
        jsonBlock("Value", disclosure.value)));
  });
  return el("ol", { class: "disclosures" }, items);
}

const fact = (name, ...value) => el("div", {}, el("dt", {}, name), el("dd", {}, ...value.map((one, i) => (i > 0 ? [" ", one] : one))));
