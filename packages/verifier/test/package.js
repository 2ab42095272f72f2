// All entrances of the package.
export * from "../src/agent.js";
export * from "../src/index.js";
export * from "../src/log.js";
export * from "../src/x5c.js";
