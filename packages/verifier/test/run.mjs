// The vectors in Node, Deno or Bun: node run.mjs DIR. Prints one line of JSON.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { runVectors } from "./vectors.js";

const [root] = process.argv.slice(2);
const vectors = {};
for (const topic of readdirSync(root, { withFileTypes: true })) {
  if (!topic.isDirectory() || readdirSync(join(root, topic.name)).includes("package.json")) continue;
  for (const file of readdirSync(join(root, topic.name))) {
    if (file.endsWith(".json")) vectors[`${topic.name}/${file}`] = readFileSync(join(root, topic.name, file), "utf8");
  }
}
console.log(JSON.stringify(await runVectors(vectors)));
