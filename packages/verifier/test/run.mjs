// Runs a part of the tests in Node, Deno or Bun: node run.mjs PART [DIR]. Prints one line of JSON. The part `outcomes` reads a vector from
// each line of its input, and prints the outcome of each.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { createInterface } from "node:readline";
import { runPart } from "./parts.js";
import { outcomeOf } from "./vectors.js";

const [part, root] = process.argv.slice(2);
for await (const line of part === "outcomes" ? createInterface({ input: process.stdin }) : []) {
  const outcome = await outcomeOf(line).catch((problem) => (problem.name === "Misuse" ? "Misuse" : String(problem.stack)));
  console.log(JSON.stringify(outcome));
}
if (part === "outcomes") process.exit(0);
const files = root ? JSON.parse(readFileSync(join(root, "manifest.json"), "utf8")).vectors.map((one) => one.file) : [];
const vectors = Object.fromEntries(files.map((file) => [file, readFileSync(join(root, file), "utf8")]));
console.log(JSON.stringify(await runPart(part, vectors)));
