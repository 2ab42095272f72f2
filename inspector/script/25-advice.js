// Advice for pasted texts that are nearly right, or belong elsewhere. It changes no verdict: the text is checked unchanged.

// A token begins where a word does: looked for anywhere, a long text of eyJeyJ… would take for ever.
const TOKEN_IN_TEXT = /(?<![\w-])eyJ[\w-]*\.[\w-]+\.[\w-]+(?:~[\w-]+(?:\.[\w-]+\.[\w-]+)?)*~?/;

// null, or: `sentence`; `title` where the text is nothing to be inspected; `offer`: a label and what to put in which field.
function adviceFor(text) {
  if (text.length > MOST_FILE_BYTES) return null;
  if (text.startsWith("{")) return adviceOnJson(text);
  if (/^[\w.~\s-]+$/.test(text) && /^eyJ/.test(text) && /\s/.test(text)) {
    return { sentence: "There are spaces or line breaks inside, as mail and terminals make them.", offer: ["Take them out", null, text.replace(/\s+/g, "")] };
  }
  const token = TOKEN_IN_TEXT.exec(text)?.[0];
  if (token && token !== text) return { sentence: "Something stands around the token, or a part of it is missing.", offer: ["Take the token alone", null, token] };
  if (/^https?:\/\/\S+$/.test(text)) return { title: "This is an address", sentence: "This page fetches nothing: open the address, and paste what is there." };
  if (text.startsWith("c2sp.org/tlog-proof@")) return { title: "This is a proof of a transparency log", sentence: "Paste its SD-Card here, and the proof in the field “Proof of a log”." };
  if (/^-----BEGIN/.test(text)) return { title: "This is in PEM form", sentence: "Keys are read as JWK, a JSON object with a member kty." };
  if (!/^[\w-]+\./.test(text) && !text.includes("~")) return { sentence: "This looks like no token and no JSON: tokens begin with eyJ, cards with a curly bracket. A card in YAML has to be converted first." };
  const last = text.split("~").at(-1);
  if (last === text && ["kb-jwt", "status-list"].includes(kindOf(text))) return null;
  if (last === text && text.split(".").length === 3) return { sentence: "This is a JWT without ~: an SD-Card whose end is missing, or a token of another kind." };
  if (/^eyJ/.test(text) && last && (last === text || last.split(".").length !== 3)) return { sentence: "The end seems to be missing: an SD-Card ends in ~, a presentation in a KB-JWT." };
  return null;
}

function adviceOnJson(text) {
  const has = (document, ...names) => names.every((name) => document.has(name));
  const document = tryOr(() => parseJsonObject(utf8(text), "card", DATA.limits.json_depth), null);
  if (!document) return null;
  if (has(document, "kty") && DATA.private_members.some((name) => document.has(name))) {
    return { title: "This is a private key", sentence: "It is not drawn here. Anyone who sees it can sign with it: keep it secret." };
  }
  if (has(document, "kty") || (Array.isArray(document.get("keys")) && !document.has("name")) || has(document, "issuer", "jwks") || (isObject(document.get("issuers")) && !document.has("name"))) {
    return { title: "These are keys", sentence: "They verify something else: they belong to what you trust.", offer: ["Use them as keys you trust", "keys", text] };
  }
  if (isObject(document.get("contexts")) && !document.has("name")) return { title: "This is a policy", sentence: "It belongs to the tab Contexts, beside a card.", offer: ["Put it there", "policy", text] };
  if (has(document, "_sd") || has(document, "_sd_alg")) return { sentence: "This is the payload of an SD-JWT, without its signature. Paste the SD-JWT itself." };
  return null;
}

// The advice as a block, with a button that does it: into `field`, where the text came from, unless it belongs elsewhere.
function adviceBlock(text, field = "text") {
  const advice = adviceFor(text);
  return advice && el("div", { class: "advice" }, ...adviceParts(advice, field));
}

function adviceParts({ sentence, offer }, field) {
  if (!offer) return [el("p", {}, sentence)];
  const [label, elsewhere, value] = offer;
  const button = el("button", { type: "button" }, label);
  button.addEventListener("click", () => {
    const target = byId(elsewhere ?? field);
    if (elsewhere) {
      put(byId(field), "");
      choose(byId(`tab-${target.closest("[role=tabpanel]").id}`), false);
      for (let around = target.closest("details"); around; around = around.parentElement.closest("details")) around.open = true;
    }
    put(target, value);
    target.focus();
  });
  return [el("p", {}, sentence), button];
}
