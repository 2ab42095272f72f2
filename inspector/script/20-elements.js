// Making elements. Card text becomes text nodes and nothing else.

const MOST_SHOWN = 300;
const UNSEEN = /[\p{Cc}\p{Cf}\p{Co}\p{Cn}\p{Zl}\p{Zp}\p{Cs}\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0]/u;

function el(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null) element.setAttribute(name, value);
  }
  element.append(...children.flat(2).filter((child) => child !== null && child !== ""));
  return element;
}

// Text of strangers: what has no shape or turns text round is shown by its number, and long text is cut.
function safe(text, most = MOST_SHOWN) {
  const characters = [...text.slice(0, most * 2)];
  const nodes = [];
  let run = "";
  for (const character of characters.slice(0, most)) {
    if (!UNSEEN.test(character)) {
      run += character;
      continue;
    }
    if (run) nodes.push(run);
    nodes.push(el("span", { class: "unseen" }, `U+${character.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}`));
    run = "";
  }
  if (run) nodes.push(run);
  const left = codePoints(text) - Math.min(characters.length, most);
  if (left > 0) nodes.push(el("span", { class: "cut" }, ` … ${left.toLocaleString("en")} more characters`));
  return el("bdi", {}, nodes);
}

// An https address becomes a link that tells the other side nothing; every other text stays text.
function linked(text) {
  if (!/^https:\/\/[\x21-\x7e]{1,1000}$/.test(text) || !URL.canParse(text)) return safe(text);
  return el("a", { href: new URL(text).href, rel: "noopener noreferrer", target: "_blank" }, safe(text));
}

const code = (text, most) => el("code", {}, safe(text, most));
const short = (text) => (text.length > 16 ? `${text.slice(0, 8)}…${text.slice(-4)}` : text);

function when(value) {
  const seconds = Number(numberOf(value));
  const date = new Date(seconds * 1000);
  if (!isNumber(value) || Number.isNaN(date.getTime())) return safe(isNumber(value) ? String(seconds) : "no time");
  return el("time", { datetime: date.toISOString() }, `${date.toISOString().slice(0, 19).replace("T", " ")} UTC`);
}

function apart(seconds) {
  const size = Math.abs(Math.round(seconds));
  for (const [unit, many] of [["day", 86_400], ["hour", 3_600], ["minute", 60], ["second", 1]]) {
    if (size >= many) return `${Math.floor(size / many)} ${unit}${Math.floor(size / many) === 1 ? "" : "s"}`;
  }
  return "no time";
}

// How long from `now` to a time: "in 2 hours", "12 seconds ago".
const relative = (time, now) => (time >= now ? `in ${apart(time - now)}` : `${apart(now - time)} ago`);

const MARKS = { passed: "✓", refused: "✕", unchecked: "–" };
const WORDS = { passed: "passed", refused: "refused", unchecked: "not checked here" };
const mark = (state) => el("span", { class: `mark ${state}` }, el("span", { "aria-hidden": "true" }, MARKS[state]), el("span", { class: "unheard" }, `${WORDS[state]}: `));

function show(place, ...nodes) {
  document.getElementById(place).replaceChildren(...nodes.flat().filter(Boolean));
}

function section(title, ...nodes) {
  return el("section", { class: "block" }, el("h2", {}, title), ...nodes);
}

const MOST_JSON = 20_000;

// JSON as it was read, indented, with everything unseen made visible.
function jsonBlock(title, value) {
  const text = jsonText(value, "");
  return el("details", { class: "json" }, el("summary", {}, title), el("pre", { tabindex: "0" }, el("code", {}, jsonNodes(text))));
}

function jsonNodes(text) {
  const lines = text.slice(0, MOST_JSON).split("\n").flatMap((line) => [safe(line, MOST_JSON), "\n"]);
  return text.length > MOST_JSON ? [...lines, el("span", { class: "cut" }, "… the rest is not drawn")] : lines;
}

function jsonText(value, indent) {
  const inner = `${indent}  `;
  if (isObject(value) && value.size > 0) return `{\n${[...value].map(([name, one]) => `${inner}${JSON.stringify(name)}: ${jsonText(one, inner)}`).join(",\n")}\n${indent}}`;
  if (Array.isArray(value) && value.length > 0) return `[\n${value.map((one) => inner + jsonText(one, inner)).join(",\n")}\n${indent}]`;
  return sortedText(value);
}
