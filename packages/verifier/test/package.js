// Both entrances of the package.
export * from "../src/agent.js";
export * from "../src/index.js";
