// The report for a person: the verdict, the facts, the tree, every rule.

function verdict(found) {
  const { report } = found;
  const rows = report.rows();
  const count = (state) => new Set(rows.filter((row) => row.state === state).map((row) => row.rule)).size;
  const counts = `${count("passed")} rules passed, ${count("refused")} refused, ${count("unchecked")} not checked here.`;
  if (report.refusal) {
    const { rule, where, hint } = report.refusal;
    const yours = where.startsWith("log/policy") ? "policy" : where.split("/")[0] === "trust" ? "keys" : "";
    const [title, about] = yours ? [`Your ${yours} ${yours === "keys" ? "are" : "is"} refused`, `This is about the ${yours} that you gave, not about the text. `] : ["Refused", ""];
    return banner("refused", title, [about, DATA.rules[rule].sentence, hint ? ` ${hint}` : ""], [code(rule), " at ", code(where), ` · ${DATA.rules[rule].standard} · ${DATA.advice[rule] ?? ""}`], counts);
  }
  const decisive = SIGNED_BY[found.kind];
  const signed = report.steps.some((step) => step.group === decisive.group && step.rules.includes(decisive.rule) && step.state === "passed");
  const open = [...new Set(report.steps.filter((step) => step.state === "unchecked" && !NOT_APPLICABLE.includes(step.hint)).map((step) => step.hint))];
  if (!signed) return banner("unchecked", "Not verified", ["Nothing speaks against it, and nobody vouches for it: anyone could have written this."], open.length > 0 ? ["Still open: ", open.slice(0, 4).join(" ")] : [], counts);
  if (open.length > 0) return banner("partly", "Signed by a key you chose", ["Nothing that was checked speaks against it."], ["Still open: ", open.slice(0, 4).join(" ")], counts);
  return banner("passed", "In order", ["Everything that a page can check is as it must be."], [BEYOND[found.kind]], counts);
}

// The signature that says whether anybody vouches for it: a KB-JWT's says nothing for its card.
const SIGNED_BY = {
  "sd-jwt": { group: "Issuer's signature", rule: "jws.signature" },
  "kb-jwt": { group: "Key binding", rule: "jws.signature" },
  "status-list": { group: "Status", rule: "jws.signature" },
  card: { group: "Card signatures", rule: "card.signature-verified" },
};

// What nobody should take a good verdict for.
const BEYOND = {
  "sd-jwt": "Whether it was presented before, only a Verifier that remembers can know.",
  "kb-jwt": "What it was presented with is not here, and whether it came before, only a Verifier that remembers can know.",
  "status-list": "Whether the Issuer has published a newer one, this page cannot know.",
  card: "Whether its members are as its format demands, `sdcard card check` says.",
};

const NOT_APPLICABLE = [
  NO_LOG,
  "The card refers to no status list.", "This profile expects no type.", "No key binding is there.", "No interaction id was given.",
  "The card has no signatures.", "This format has no signatures.", "Choose the SD-Card profile to check this.",
];

function banner(state, title, sentence, detail, counts) {
  return el("div", { class: `verdict ${state}` }, el("h2", {}, title), sentence.length > 0 ? el("p", {}, ...sentence) : null, detail.length > 0 ? el("p", { class: "detail" }, ...detail) : null, counts ? el("p", { class: "counts" }, counts) : null);
}

function drawFound(found, text) {
  show("verdict", verdict(found), found.report.refusal ? adviceBlock(text) : null);
  const blocks = { "sd-jwt": sdJwtBlocks, "kb-jwt": kbBlocks, "status-list": statusBlocks, card: cardBlocks }[found.kind](found);
  show("result", ...blocks, rulesBlock(found.report));
}

// -- SD-Cards and presentations ---------------------------------------------------------------------------------------

function sdJwtBlocks(found) {
  const blocks = [];
  if (found.processed) {
    blocks.push(section("At a glance", glance(found)));
    blocks.push(section("What is shown", legend(), ...claimsTree(found), hiddenNote(found.processed.hidden.length)));
    if (found.processed.disclosures.length > 0) blocks.push(section(`Disclosures (${found.processed.disclosures.length})`, disclosureList(found)));
  }
  if (found.kb) blocks.push(section("Key binding", bindingFacts(found)));
  if (found.log?.checkpoint) blocks.push(section("Transparency log", logFacts(found)));
  if (found.statusReference) blocks.push(section("Status", statusFacts(found)));
  if (found.jws) blocks.push(section("The Issuer's JWT", jsonBlock("Header", found.jws.header), jsonBlock("Payload, as it was signed", found.jws.payload)));
  return blocks;
}

function glance(found) {
  const { claims, hidden, disclosures } = found.processed;
  const { now } = found.options;
  const text = (name) => (isText(claims.get(name)) ? linked(claims.get(name)) : el("em", {}, "not said"));
  const time = (name) => (isNumber(claims.get(name)) ? [when(claims.get(name)), el("span", { class: "aside" }, relative(Number(numberOf(claims.get(name))), now))] : [el("em", {}, "not said")]);
  return el("dl", { class: "facts tiles" },
    fact("Issuer", text("iss")), fact("Agent", text("sub")), fact("Card format", text("card_format")),
    fact("Issued", ...time("iat")), fact("Expires", ...time("exp")),
    fact("Bound to the key", found.holderKey ? code(found.holderKey.thumbprint) : el("em", {}, "none that can be used")),
    fact("Shown by Disclosures", el("strong", {}, String(disclosures.length))),
    fact("Still hidden", el("strong", {}, String(hidden.length)), el("span", { class: "aside" }, hidden.length === 1 ? "digest" : "digests")),
    fact("Presented", presentedText(found)));
}

function presentedText(found) {
  if (!found.arrived?.kbJwt) return "without key binding";
  if (!found.kb) return found.options.keyBinding === "unbound" ? "with a KB-JWT, which was not expected" : "with a KB-JWT that does not read";
  const audience = found.kb.payload.get("aud");
  return el("span", {}, "for ", isText(audience) ? safe(audience) : el("em", {}, "nobody"));
}

function legend() {
  return el("ul", { class: "legend" },
    el("li", { class: "clear" }, "in the clear, always"), el("li", { class: "disclosed" }, "shown by a Disclosure"), el("li", { class: "hidden" }, "hidden, or a decoy"));
}

function hiddenNote(count) {
  if (count === 0) return el("p", { class: "note" }, "No digest is left without its Disclosure: nothing is hidden here.");
  return el("p", { class: "note" }, `${count === 1 ? "One digest has" : `${count} digests have`} no Disclosure here. Each stands for something that is not shown, or is a decoy that stands for nothing. Nobody can tell them apart: not this page, and not a Verifier.`);
}

function bindingFacts(found) {
  const { payload, header } = found.kb;
  const text = (name) => (isText(payload.get(name)) ? safe(payload.get(name)) : el("em", {}, "not said"));
  const issued = payload.get("iat");
  return el("div", {},
    el("dl", { class: "facts" },
      fact("Who", found.holderKey ? code(found.holderKey.thumbprint) : el("em", {}, "unknown")),
      fact("For whom", text("aud")),
      fact("When", ...(isNumber(issued) ? [when(issued), el("span", { class: "aside" }, relative(Number(numberOf(issued)), found.options.now))] : [el("em", {}, "not said")])),
      fact("Nonce", text("nonce")),
      payload.has("interaction_id") ? fact("Interaction", text("interaction_id")) : "",
      fact("Over", code(isText(payload.get("sd_hash")) ? payload.get("sd_hash") : ""))),
    jsonBlock("Header", header), jsonBlock("Payload", payload));
}

const STATUS_WORDS = new Map([[0, "VALID"], [1, "INVALID: revoked"], [2, "SUSPENDED"]]);

function statusFacts(found) {
  const { uri, index } = found.statusReference;
  const value = found.statusValue;
  const said = value === undefined ? "not checked here: paste the status list token" : value === null ? "the list has no such entry" : STATUS_WORDS.get(value) ?? `${value}, without a known meaning`;
  return el("dl", { class: "facts" }, fact("List", linked(uri)), fact("Entry", String(index)), fact("Says", said));
}

// -- the others -------------------------------------------------------------------------------------------------------

const kbBlocks = (found) => (found.kb ? [section("Key binding", bindingFacts(found))] : []);

function statusBlocks(found) {
  if (!found.statusJws) return [];
  const { payload, header } = found.statusJws;
  const blocks = [];
  if (found.list) {
    const counts = new Map();
    const entries = found.list.packed.length * (8 / found.list.bits);
    for (let i = 0; i < entries; i++) counts.set(statusAt(found.list, i), (counts.get(statusAt(found.list, i)) ?? 0) + 1);
    const rows = [...counts].sort(([a], [b]) => a - b).map(([value, count]) => fact(STATUS_WORDS.get(value) ?? `status ${value}`, count.toLocaleString("en")));
    blocks.push(section("Status list", el("dl", { class: "facts tiles" },
      fact("List", isText(payload.get("sub")) ? linked(payload.get("sub")) : el("em", {}, "not said")),
      fact("Entries", entries.toLocaleString("en")), fact("Bits of each", String(found.list.bits)), ...rows)));
  }
  return [...blocks, section("The token", jsonBlock("Header", header), jsonBlock("Payload", payload))];
}

function cardBlocks(found) {
  if (!found.document) return [];
  const blocks = [section("At a glance", el("dl", { class: "facts tiles" },
    fact("Format", found.format ? safe(found.format.startsWith("agentcard/") ? "agentcard" : found.format) : el("em", {}, "none that is known")),
    fact("Name", isText(found.document.get("name")) ? safe(found.document.get("name")) : el("em", {}, "not said")),
    fact("Signatures", Array.isArray(found.document.get("signatures")) ? String(found.document.get("signatures").length) : "none")))];
  if (found.signatures.length > 0) blocks.push(section("Signatures", el("ul", { class: "outcomes" }, found.signatures.map(signatureRow)), unsignedNote(found.unsigned)));
  const whole = { processed: { claims: found.document, revealed: [], hidden: [] } };
  return [...blocks, section("The card", el("p", { class: "note" }, "A plain agent card shows everything to everybody. The tab Contexts says what SD-Cards made of it would show."), ...claimsTree(whole))];
}

function signatureRow(one) {
  const state = one.canonical ? "passed" : one.rule === "card.signature-invalid" ? "refused" : "unchecked";
  return el("li", {}, mark(state), el("span", {}, `Signature ${one.number}: `, safe(one.hint)));
}

function unsignedNote(places = []) {
  if (places.length === 0) return null;
  return el("p", { class: "note" }, "No signature covers these parts; anybody could have added or changed them: ", places.slice(0, 20).flatMap((place, i) => [i > 0 ? ", " : "", code(placeText(place.slice(1)), 80)]), ".");
}

// -- rules ------------------------------------------------------------------------------------------------------------

function rulesBlock(report) {
  const groups = new Map();
  for (const step of report.steps) groups.set(step.group, [...(groups.get(step.group) ?? []), step]);
  const drawn = [...groups].map(([group, steps]) => el("div", { class: "group" }, el("h3", {}, group), el("ul", { class: "steps" }, steps.map((step) => stepRow(report, step)))));
  const others = report.rows().filter((row) => row.group === "Elsewhere");
  const rest = others.length === 0 ? null : el("div", { class: "group" }, el("h3", {}, "Not for a page to check"), el("ul", { class: "rules" }, others.map(ruleRow)));
  return section("Every rule", el("p", { class: "note" }, "In the order in which a Verifier checks. Open a step to see its rules and their sections."), ...drawn, rest);
}

function stepRow(report, step) {
  const rules = step.rules.map((rule) => ruleRow(report.row(step, rule)));
  const hint = step.state === "refused" ? DATA.rules[step.rule].sentence : step.state === "unchecked" ? step.hint : "";
  return el("li", {}, el("details", { class: step.state, open: step.state === "refused" },
    el("summary", {}, mark(step.state), el("span", { class: "title" }, step.title), el("span", { class: "about" }, aboutRules(step.rules)), hint ? el("span", { class: "why" }, hint) : ""), el("ul", { class: "rules" }, rules)));
}

const aboutRules = (rules) => (rules.length === 1 ? [el("code", {}, rules[0]), ` ${DATA.rules[rules[0]].standard}`] : `${rules.length} rules`);

function ruleRow(row) {
  const { sentence, standard } = DATA.rules[row.rule];
  const more = row.state === "refused" ? [" At ", code(row.where, 120), ". ", safe(row.hint)] : row.state === "unchecked" ? [` ${row.hint}`] : [];
  return el("li", {}, mark(row.state), el("span", {}, el("code", { class: "rule" }, row.rule), " ", el("span", { class: "sentence" }, sentence), " ", el("span", { class: "standard" }, standard), " ", more.length > 0 ? el("span", { class: "why" }, ...more) : ""));
}
