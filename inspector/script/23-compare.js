// Two cards side by side: what links them.

const WHATS = {
  cnf: "The Holder's key", salt: "Salts", digest: "Digests", disclosure: "Disclosures", signature: "The Issuer's signature", jti: "The token's id",
  iat: "When it was issued", nbf: "From when it is valid", exp: "When it expires", status: "The status entry", header: "Header parameters",
  "kb-nonce": "The nonce", "kb-interaction-id": "The interaction id", "kb-iat": "When it was presented", "kb-sd-hash": "What was presented",
  "kb-signature": "The Holder's signature", "kb-other": "Other claims of the KB-JWT", member: "Members of the card", sub: "The agent", iss: "The Issuer",
  aud: "The audience", vct: "The type", card_format: "The card format", _sd_alg: "The digest algorithm", alg: "The signature algorithm", typ: "The token type",
  kid: "The Issuer's key", "digest-count": "Numbers of digests", "member-names": "Which members there are", "key-type": "The kind of the Holder's key", "status-list": "The status list", "kb-aud": "The Verifier", "kb-header": "The KB-JWT's header",
};
const VERDICTS = {
  avoidable: ["refused", "Links them, and need not", "An Issuer or the Holder could have made these differ."],
  "by-content": ["partly", "Says the same in both", "A context that shows less shares less."],
  unavoidable: ["neutral", "Common to many cards", "Shared by an Issuer's cards, or demanded by the draft."],
};

async function drawLinks() {
  const [one, other] = ["one", "other"].map((name) => lenientToken(valueOf(name)));
  if (!one || !other) {
    show("links", el("p", { class: "empty" }, "Paste two SD-Cards or presentations to compare them."));
    return;
  }
  try {
    const seen = [await observedIn("first", one), await observedIn("second", other)];
    const links = linksBetween(...seen);
    const avoidable = links.filter((link) => link.verdict === "avoidable");
    const title = avoidable.length === 0 ? "Nothing avoidable links them" : `${avoidable.length} ${avoidable.length === 1 ? "thing links" : "things link"} them that need not`;
    const head = banner(avoidable.length === 0 ? "passed" : "refused", title, [one === other ? "The two texts are the same." : "Compared value by value; a report names places, never values."], [], "Not compared: when and from where they were seen, and texts that are alike without being equal.");
    show("links", head, ...Object.entries(VERDICTS).map(([name, words]) => linkBlock(links.filter((link) => link.verdict === name), words)));
  } catch (problem) {
    if (!(problem instanceof Refused)) throw problem;
    show("links", refusalBanner(problem, `The ${problem.of} text is refused`), adviceBlock(problem.of === "first" ? one : other, problem.of === "first" ? "one" : "other"));
  }
}

async function observedIn(which, text) {
  try {
    return await observe(text);
  } catch (problem) {
    if (problem instanceof Refused) problem.of = which;
    throw problem;
  }
}

function linkBlock(links, [state, title, note]) {
  if (links.length === 0) return null;
  const rows = links.map((link) => [link, distinct(link.places)]).map(([link, places]) => el("tr", {},
    el("th", { scope: "row" }, WHATS[link.what], link.how === "close" ? el("span", { class: "aside" }, "a few seconds apart") : ""),
    el("td", {}, places.slice(0, 12).map(([here, there]) => el("div", {}, code(here, 80), here === there ? "" : [" = ", code(there, 80)])), places.length > 12 ? el("span", { class: "cut" }, `… ${places.length - 12} more ${places.length === 13 ? "place" : "places"}`) : "")));
  return el("section", { class: `block links ${state}` }, el("h2", {}, title), el("p", { class: "note" }, note), el("table", {}, el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "What"), el("th", { scope: "col" }, "Where"))), el("tbody", {}, rows)));
}

// Elements of an array are not told apart by their places.
const distinct = (places) => [...new Map(places.map((place) => [place.join("\n"), place])).values()];

function refusalBanner(refusal, title = "Refused") {
  return banner("refused", title, [DATA.rules[refusal.rule].sentence, refusal.hint ? ` ${refusal.hint}` : ""], [code(refusal.rule), " at ", code(refusal.where), ` · ${DATA.rules[refusal.rule].standard}`], "");
}
