// The context explorer: a card's tree, one column for each context.

const TREATED = { plain: "always", along: "with the part around it", selective: "selectively", withheld: "withheld" };

function drawContexts() {
  const [cardText, policyText, partner] = [documentOf("card"), documentOf("policy"), valueOf("partner")];
  if (!cardText) {
    show("explained", el("p", { class: "empty" }, "Paste an agent card to see what each context shows of it."));
    return;
  }
  try {
    const document = readCardDocument(cardText, DATA.limits);
    const format = detectFormat(document);
    if (!format) throw new Refused("card.format", "card", "This looks like no agent card that SD-Card knows.");
    const { policy, findings } = policyText ? parsePolicy(policyText) : { policy: defaultPolicy(), findings: [] };
    if (!policy) return show("explained", policyFindings(findings));
    const whom = partner ? { name: partner, now: Math.floor(Date.now() / 1000) } : null;
    show("explained", ...explainedBlocks(explain(document, format, policy, valueOf("card-profile"), whom), partner));
  } catch (problem) {
    if (problem instanceof NotChecked) show("explained", banner("unchecked", "Not read here", [problem.message], [], ""));
    else if (problem instanceof Refused) show("explained", problem.where.startsWith("policy") ? refusalBanner(problem, "This policy cannot be used") : [refusalBanner(problem, "This card is refused"), adviceBlock(lenientToken(cardText), "card")]);
    else throw problem;
  }
  return undefined;
}

function policyFindings(findings) {
  const rows = findings.slice(0, 100).map((one) => el("li", {}, mark("refused"), el("span", {}, code(one.rule), " at ", code(one.where, 160), el("span", { class: "why" }, safe(one.hint || DATA.rules[one.rule].sentence)))));
  return el("div", {}, banner("refused", "This policy cannot be used", ["No column is shown, since none would be right."], [], ""), el("ul", { class: "rules" }, rows));
}

function explainedBlocks(shown, partner) {
  const who = partner ? (shown.agreement ? `Federation goes by the agreement with this partner.` : "No agreement with this partner is in force: federation shows what public shows.") : "Federation, without a partner, shows what public shows.";
  const note = "Whether every member is as its format demands is not checked here; `sdcard card check` does that.";
  return [
    section("What each context shows", el("p", { class: "note" }, `Read as ${shown.format.split("/")[0] === "agentcard" ? "agentcard" : shown.format}. `, shown.contexts.includes("federation") ? who : ""), keyOfColumns(), columnsOf(shown), el("p", { class: "note" }, note)),
  ];
}

function keyOfColumns() {
  const words = [["plain", "always, in the clear"], ["selective", "selectively, when the Holder gives its Disclosure"], ["along", "with the part around it"], ["withheld", "withheld, not even as a digest"]];
  return el("ul", { class: "legend" }, words.map(([treatment, text]) => el("li", {}, dot(treatment), text)));
}

const dot = (treatment) => el("span", { class: `dot ${treatment}`, "aria-hidden": "true" });

function columnsOf(shown) {
  const counter = { left: MOST_ROWS };
  const rows = shown.parts.flatMap((part) => columnRows(part, counter, []));
  const head = el("tr", {}, el("th", { scope: "col" }, "Part of the card"), shown.contexts.map((name) => el("th", { scope: "col", class: "context" }, el("span", {}, safe(name, 64)))));
  const totals = shown.contexts.map((_, i) => countShown(shown.parts, i));
  const foot = el("tr", {}, el("th", { scope: "row" }, "Parts shown"), totals.map((count) => el("td", {}, String(count))));
  const table = el("table", { class: "columns" }, el("caption", { class: "unheard" }, "Each part of the card, and how each context treats it"), el("thead", {}, head), el("tbody", {}, rows), el("tfoot", {}, foot));
  const cut = counter.left <= 0 ? el("p", { class: "cut" }, "There is more; it is not drawn.") : null;
  return el("div", { class: "scroller", role: "region", tabindex: "0", "aria-label": "What each context shows" }, table, cut ?? "");
}

const countShown = (parts, i) => parts.reduce((sum, part) => sum + (part.treatments[i] === "withheld" ? 0 : 1) + countShown(part.parts, i), 0);

// `around`: for each context, whether a part around this one is shown selectively.
function columnRows(part, counter, around) {
  if (counter.left-- <= 0) return [];
  const depth = Math.min(part.place.length - 1, 6);
  const step = part.place.at(-1);
  const name = el("span", { class: typeof step === "number" ? "index" : "name" }, typeof step === "number" ? `${step}` : safe(step, 60));
  const value = isText(part.value) ? el("span", { class: "value" }, safe(part.value, 60)) : typeof step === "number" && isObject(part.value) && isText(part.value.get("name")) ? el("span", { class: "value" }, safe(part.value.get("name"), 60)) : "";
  const looks = part.treatments.map((treatment, i) => (treatment === "plain" && around[i] ? "along" : treatment));
  const cells = looks.map((look) => el("td", { class: look }, dot(look), el("span", { class: "unheard" }, TREATED[look])));
  const within = part.treatments.map((treatment, i) => around[i] || treatment === "selective");
  return [el("tr", {}, el("th", { scope: "row", class: `depth-${depth}` }, el("span", { class: "cell" }, name, value)), cells), ...part.parts.flatMap((inner) => columnRows(inner, counter, within))];
}

const defaultPolicyText = () => `${JSON.stringify({ contexts: Object.fromEntries(DATA.contexts.map(({ name, ...rest }) => [name, tidied(rest)])) }, null, 2)}\n`;
const tidied = ({ claims, narrowed, contains }) => ({ claims, ...(Object.keys(narrowed).length > 0 ? { narrowed } : {}), ...(contains.length > 0 ? { contains } : {}) });
