// Runs a part of the tests in Node, Deno or Bun: node run.mjs PART [DIR]. Prints one line of JSON.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { runPart } from "./parts.js";

const [part, root] = process.argv.slice(2);
const files = root ? JSON.parse(readFileSync(join(root, "manifest.json"), "utf8")).vectors.map((one) => one.file) : [];
const vectors = Object.fromEntries(files.map((file) => [file, readFileSync(join(root, file), "utf8")]));
console.log(JSON.stringify(await runPart(part, vectors)));
