// The page at work: tabs, what is pasted and dropped, and when to look again.

const MOST_FILE_BYTES = 4_194_304;
const STAYS = "What was in the field stays.";
const byId = (name) => document.getElementById(name);
const valueOf = (name) => byId(name).value;
// A text of lines: what ends the last one is forgiven.
function linesOf(name) {
  const text = withoutEnd(lenientDocument(valueOf(name)));
  return text && `${text}\n`;
}
const documentOf = (name) => (lenientToken(valueOf(name)) ? lenientDocument(valueOf(name)) : "");

// Of a text as `lenientToken` gives it.
function kindOf(text) {
  if (text.startsWith('"')) return "card";
  if (text.startsWith("{")) return /"payload"\s*:\s*"/.test(text) && /"signatures?"\s*:/.test(text) && !/"(?:skills|agent_id)"\s*:/.test(text) ? "sd-jwt" : "card";
  if (text.includes("~") || text.split(".").length !== 3) return "sd-jwt";
  const typ = tryOr(() => parseJsonObject(decodeBase64url(text.split(".")[0], ""), "", 8).get("typ"), null);
  return { [DATA.kb_typ]: "kb-jwt", [DATA.status_typ]: "status-list" }[isText(typ) ? typ : ""] ?? "sd-jwt";
}

const INSPECTORS = { "sd-jwt": inspectSdJwt, "kb-jwt": inspectKbJwt, "status-list": inspectStatusList, card: inspectCard };

function chosenOptions() {
  const orNull = (name) => valueOf(name) || null;
  const binding = valueOf("binding");
  return {
    now: chosenNow(), keys: documentOf("keys"), profile: valueOf("profile"),
    keyBinding: binding === "bound" ? { audience: orNull("audience"), nonce: orNull("nonce") } : binding === "unbound" ? "unbound" : null,
    statusToken: lenientToken(valueOf("status-token")), statusKeys: documentOf("status-keys"),
    logPolicy: linesOf("log-policy"), logProof: linesOf("log-proof"),
  };
}

function chosenNow() {
  const chosen = Date.parse(`${valueOf("now")}Z`);
  return Number.isNaN(chosen) ? Math.floor(Date.now() / 1000) : chosen / 1000;
}

function setNow(seconds) {
  byId("now").value = new Date(seconds * 1000).toISOString().slice(0, 19);
}

let turn = 0; // only the last look that was asked for is drawn

async function drawInspection() {
  const mine = ++turn;
  const token = lenientToken(valueOf("text"));
  const kind = kindOf(token);
  const text = kind === "card" ? documentOf("text") : token;
  byId("bound").hidden = valueOf("binding") !== "bound";
  if (!text) {
    show("verdict", el("p", { class: "empty" }, "What you paste is shown here: who issued it, what it shows, what stays hidden, and what was verified."));
    show("result");
    return;
  }
  if (!globalThis.crypto?.subtle) {
    show("verdict", banner("unchecked", "Nothing can be checked here", ["This page came over plain HTTP, where browsers switch their cryptography off. Save it and open it from disk."], [], ""));
    return;
  }
  const advice = adviceFor(token);
  if (advice?.title) {
    show("verdict", banner("unchecked", advice.title, [], [], ""), adviceBlock(token));
    show("result");
    return;
  }
  try {
    const found = await INSPECTORS[kind](text, chosenOptions());
    if (mine === turn) drawFound(found, token);
  } catch (problem) { // a fault of the page: the report of an earlier text must not stay there
    show("verdict", banner("unchecked", "Nothing was checked", ["This page has a fault, and cannot say anything about this text."], [], ""));
    show("result");
    throw problem;
  }
}

function later(work) {
  let timer = 0;
  return () => {
    clearTimeout(timer);
    timer = setTimeout(work, 200);
  };
}

// -- files ------------------------------------------------------------------------------------------------------------

async function readInto(field, file) {
  if (file.size > MOST_FILE_BYTES) {
    say(field, `This file has ${file.size.toLocaleString("en")} bytes. Nothing here reads more than ${MOST_FILE_BYTES.toLocaleString("en")}. ${STAYS}`);
    return;
  }
  const bytes = new Uint8Array(await file.arrayBuffer());
  try {
    field.value = decodeUtf8(bytes, "file");
  } catch {
    const wide = (bytes[0] === 0xff && bytes[1] === 0xfe) || (bytes[0] === 0xfe && bytes[1] === 0xff);
    return say(field, `This file is not UTF-8 text. ${wide ? "It is UTF-16: save it as UTF-8. " : ""}${STAYS}`);
  }
  field.dispatchEvent(new Event("input", { bubbles: true }));
  return undefined;
}

// Above a field: what is wrong with a file. What the field held stays, until something else comes.
function say(field, text) {
  const old = field.parentElement.querySelector(".complaint");
  old?.remove();
  if (text) field.after(el("p", { class: "complaint", role: "alert" }, text));
}

function put(field, text) {
  field.value = text;
  field.dispatchEvent(new Event("input", { bubbles: true }));
}

function takeDrops(area) {
  const field = area.querySelector("textarea");
  const over = (is) => (event) => {
    event.preventDefault();
    area.classList.toggle("over", is);
  };
  area.addEventListener("dragover", over(true));
  area.addEventListener("dragleave", over(false));
  area.addEventListener("drop", (event) => {
    over(false)(event);
    const [file] = event.dataTransfer.files;
    const text = event.dataTransfer.getData("text/plain");
    if (file) readInto(field, file);
    else if (text) put(field, text);
  });
}

// -- tabs -------------------------------------------------------------------------------------------------------------

function choose(tab, focus) {
  for (const one of document.querySelectorAll("[role=tab]")) {
    const chosen = one === tab;
    one.setAttribute("aria-selected", String(chosen));
    one.tabIndex = chosen ? 0 : -1;
    byId(one.getAttribute("aria-controls")).hidden = !chosen;
  }
  if (focus) tab.focus();
}

function startTabs() {
  const tabs = [...document.querySelectorAll("[role=tab]")];
  for (const [i, tab] of tabs.entries()) {
    tab.addEventListener("click", () => choose(tab, false));
    tab.addEventListener("keydown", (event) => {
      const to = { ArrowRight: i + 1, ArrowLeft: i - 1, Home: 0, End: tabs.length - 1 }[event.key];
      if (to === undefined) return;
      event.preventDefault();
      choose(tabs[(to + tabs.length) % tabs.length], true);
    });
  }
}

// -- examples ---------------------------------------------------------------------------------------------------------

function fill(values) {
  for (const [name, value] of Object.entries(values)) byId(name).value = value;
}

const UNDECIDED = { keys: "", binding: "undecided", audience: "", nonce: "", "status-token": "", "status-keys": "", "log-policy": "", "log-proof": "" };
let isExample = false; // whether the expectations are those of the example

// Another text than the example's, edited or not, is not looked at with the example's keys, nonce and clock.
function forgetExample() {
  const text = valueOf("text").replace(/[^\w.~-]/g, "");
  if (!isExample || [EXAMPLES.presentation, EXAMPLES.status_list_token].some((one) => text.includes(one.slice(0, 60)))) return;
  isExample = false;
  fill(UNDECIDED);
  setNow(Date.now() / 1000);
}

// When the Holder signed, or else the Issuer; null if the text does not say.
function signedAt(token) {
  const jwts = token.split("~").filter((part) => part.split(".").length === 3);
  if (jwts.length === 0) return null;
  return tryOr(() => numericDate(parseJsonObject(decodeBase64url(jwts.at(-1).split(".")[1], ""), "", DATA.limits.json_depth).get("iat"), ""), null);
}

function startExamples() {
  const on = (name, work) => byId(name).addEventListener("click", work);
  byId("text").addEventListener("input", forgetExample);
  on("signed", () => {
    const instant = signedAt(lenientToken(valueOf("text")));
    say(byId("now").parentElement, instant === null ? "Nothing in this text says when it was signed." : "");
    if (instant === null) return;
    setNow(Number(instant));
    drawInspection();
  });
  on("example", () => {
    fill({ text: EXAMPLES.presentation, keys: EXAMPLES.keys, binding: "bound", audience: EXAMPLES.audience, nonce: EXAMPLES.nonce, profile: "sd-card", "status-token": EXAMPLES.status_list_token, "status-keys": "", "log-policy": EXAMPLES.log_policy, "log-proof": EXAMPLES.log_proof });
    isExample = true;
    setNow(EXAMPLES.now);
    drawInspection();
  });
  on("clear", () => {
    isExample = false;
    fill({ text: "", ...UNDECIDED });
    setNow(Date.now() / 1000);
    drawInspection();
    byId("text").focus();
  });
  on("clock", () => {
    setNow(Date.now() / 1000);
    drawInspection();
  });
  on("example-compare", () => {
    fill({ one: EXAMPLES.presentation, other: EXAMPLES.other });
    drawLinks();
  });
  on("example-contexts", () => {
    fill({ card: EXAMPLES.card });
    drawContexts();
  });
  on("edit-policy", () => {
    say(byId("policy"), "");
    fill({ policy: defaultPolicyText() });
    drawContexts();
  });
}

function start() {
  startTabs();
  startExamples();
  for (const field of document.querySelectorAll("textarea")) takeDrops(field.closest(".field"));
  for (const name of ["dragover", "drop"]) document.addEventListener(name, (event) => event.preventDefault()); // else a file that misses its field replaces the page
  document.addEventListener("input", (event) => say(event.target, ""));
  byId("inspect").addEventListener("input", later(drawInspection));
  byId("compare").addEventListener("input", later(drawLinks));
  byId("contexts").addEventListener("input", later(drawContexts));
  byId("file").addEventListener("change", (event) => {
    const [file] = event.target.files;
    if (file) readInto(byId("text"), file);
    event.target.value = "";
  });
  byId("result").addEventListener("click", (event) => {
    const link = event.target.closest("a[href^='#disclosure-']");
    if (link) byId(link.getAttribute("href").slice(1))?.querySelector("details")?.setAttribute("open", "");
  });
  for (const name of ["expect", "explain-by"]) byId(name).open = matchMedia("(min-width: 62rem)").matches; // where it would push the report out of sight
  setNow(Date.now() / 1000);
  drawInspection();
  drawLinks();
  drawContexts();
}

start();
