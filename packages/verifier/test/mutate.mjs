// Changes each check of the package, one at a time, and asks whether a test notices: node mutate.mjs VECTORS [FILE,… [PART]].
// With PART, only mutants whose description matches this regular expression are tried.
//
// A check is a condition that throws `Refused` or `Broken`, what `demand` demands, and an answer of x5c.js. It is switched off, and each
// comparison and connective in it is changed. A mutant is noticed by the first vector with another outcome, or else by a test of
// behaviour. Prints a line for each that is not. Those in `EQUIVALENT` cannot be noticed; the reason is beside each.
import { cpSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const [root, only, part = ""] = process.argv.slice(2);
const files = JSON.parse(readFileSync(join(root, "manifest.json"), "utf8")).vectors.map((one) => one.file);
const vectors = Object.fromEntries(files.map((file) => [file, readFileSync(join(root, file), "utf8")]));
const OPERATORS = { " && ": " || ", " || ": " && ", " === ": " !== ", " !== ": " === ", " < ": " <= ", " <= ": " < ", " > ": " >= ", " >= ": " > " };
const SECONDS = 240;

/** Mutants without their lines, and why nothing can notice them. */
const NO_TAG_0 = "an element with the tag 0 is not among those that are read there";
const EQUIVALENT = {
  "inflate.js <= : this.data.length <= 6": "no ZLIB stream has six bytes",
  "inflate.js > : this.at > this.data.length": "the checksum would begin behind the end",
  "inflate.js off: lengths[256] === 0": "a block without an end reads behind the data",
  "keys.js > : a >= prime || b > prime": "no point of these curves has 0 as its second coordinate",
  "x5c.js >= : unused <= 7 && (body.length >= 1": "an only byte that counts unused bits is not zero in them",
  "x5c.js off: bytes.every((byte) => byte < 128)": "times have digits, and domains letters, digits and hyphens",
  "x5c.js <= : bytes.every((byte) => byte <= 128)": "see above",
  "x5c.js <= : tag <= 0 ||": NO_TAG_0, "x5c.js <= : issuer.tag <= 0 ?": NO_TAG_0, "x5c.js <= : issuer.tag < 0 ? serial.tag <= 0": NO_TAG_0,
  "x5c.js > : issuer.tag < 0 ? serial.tag < 0 : serial.tag > 0": NO_TAG_0, "x5c.js <= : version.tag <= 0": NO_TAG_0,
  "x5c.js <= : least.tag <= 0": NO_TAG_0, "x5c.js <= : isAuthority || length.tag <= 0": NO_TAG_0,
};
const isEquivalent = (description) => Object.keys(EQUIVALENT).some((one) => description.replace(/:\d+ /, " ").startsWith(one));

/** The end of what begins with the bracket at `at`. */
function closing(text, at) {
  for (let depth = 0, i = at; i < text.length; i++) {
    if ("([{".includes(text[i])) depth++;
    else if (")]}".includes(text[i]) && --depth === 0) return i;
  }
  return -1;
}

/** [begin, end, what switches it off, rule] of each check of a file. */
function* checksOf(name, text) {
  for (const match of text.matchAll(/\b(if|demand) ?\(/g)) {
    const begin = match.index + match[0].length;
    const end = closing(text, begin - 1);
    const refusal = /^\) (?:\{\s*)?throw new (?:Refused\("([^"]+)"|Broken\()/.exec(text.slice(end, end + 80));
    if (match[1] === "demand" && !text.slice(0, match.index).endsWith("function ")) yield [begin, end, "true ||", "x5c.format"];
    else if (match[1] === "if" && refusal) yield [begin, end, "false &&", refusal[1] ?? ""];
  }
  if (name !== "x5c.js") return;
  for (const match of text.matchAll(/\breturn ([^;`]* (?:&&|\|\||===|<=) [^;`]*);/g)) {
    const begin = match.index + "return ".length;
    yield [begin, begin + match[1].length, "true ||", "x5c.chain"];
  }
}

/** [description, changed text, rule of the check] of each mutant of a file. */
function* mutantsOf(name, text) {
  for (const [begin, end, off, rule] of checksOf(name, text)) {
    const condition = text.slice(begin, end);
    const line = text.slice(0, begin).split("\n").length;
    const put = (changed) => text.slice(0, begin) + changed + text.slice(end);
    yield [`${name}:${line} off: ${condition}`, put(`${off} (${condition})`), rule];
    for (const [from, to] of Object.entries(OPERATORS)) {
      for (let at = condition.indexOf(from); at >= 0; at = condition.indexOf(from, at + 1)) {
        const changed = condition.slice(0, at) + to + condition.slice(at + from.length);
        yield [`${name}:${line}${to}: ${changed}`, put(changed), rule];
      }
    }
  }
}

/** What notices the mutant in a folder: a vector, the other tests, or nothing. Vectors of the rule come first. */
async function noticedBy(folder, rule) {
  const { expectedOf, isOurs, outcomeOf } = await import(join(folder, "test", "vectors.js"));
  const [first, others] = [true, false].map((isFirst) => Object.values(vectors).filter((text) => text.includes(`"expect": "${rule}"`) === isFirst));
  for (const text of [...first, ...others]) {
    if (!isOurs(text)) continue;
    const outcome = await outcomeOf(text).catch(() => "crashed");
    if (outcome !== expectedOf(text)) return "vectors";
  }
  const { runPart } = await import(join(folder, "test", "parts.js"));
  const { failures } = await runPart("behaviour", {}).catch((problem) => ({ failures: [problem] }));
  return failures.length > 0 ? "behaviour" : "nothing";
}

const limited = (work) => Promise.race([work, new Promise((resolve) => setTimeout(resolve, SECONDS * 1000, "time").unref())]);
const scratch = mkdtempSync(join(tmpdir(), "mutants-"));
const counts = {};
const names = readdirSync(join(here, "..", "src")).filter((name) => name.endsWith(".js") && (!only || only.split(",").includes(name)));
let number = 0;
for (const name of names) {
  for (const [description, text, rule] of mutantsOf(name, readFileSync(join(here, "..", "src", name), "utf8"))) {
    if (!new RegExp(part).test(description)) continue;
    const folder = join(scratch, String(number++));
    mkdirSync(folder);
    for (const part of ["src", "test"]) cpSync(join(here, "..", part), join(folder, part), { recursive: true });
    writeFileSync(join(folder, "package.json"), '{"type": "module"}');
    writeFileSync(join(folder, "src", name), text);
    const found = await limited(noticedBy(folder, rule)).catch(() => "vectors"); // a module that does not load
    const by = found === "nothing" && isEquivalent(description) ? "equivalent" : found;
    counts[by] = (counts[by] ?? 0) + 1;
    if (by === "nothing" || by === "time") console.log(`${by}: ${description}`);
    rmSync(folder, { recursive: true });
  }
}
rmSync(scratch, { recursive: true });
console.log(JSON.stringify({ mutants: number, ...counts }));
process.exit(0);
