// The parts of the tests that run in every runtime.
import { runBehaviour } from "./behaviour.js";
import { runHostile } from "./hostile.js";
import { runVectors } from "./vectors.js";

const PARTS = { behaviour: runBehaviour, hostile: runHostile, vectors: runVectors };

/** @param {string} part @param {Record<string, string>} vectors */
export const runPart = (part, vectors) => PARTS[part](vectors);
