// Card formats: which one a document is of, and the places of claim groups. As sdcard/cards/detect.py and the groups of
// sdcard/policy/context.py. The shapes of members are not checked here.
import { DATA } from "./data.js";
import { isObject, isText, sortedText } from "./json.js";
import { ClaimPath } from "./paths.js";

/** @import { Json, JsonObject } from "./json.js" */
/** @import { Segments } from "./paths.js" */

/**
 * @typedef {object} Format
 * @property {string} name
 * @property {string} family
 * @property {string[]} members
 * @property {Map<string, ClaimPath[]>} groups
 * @property {ClaimPath[]} together
 * @property {Map<string, ClaimPath[]>} facts
 */

/** @param {Segments[]} list */
export const pathsOf = (list) => list.map((segments) => new ClaimPath(segments));
/** @param {Record<string, Segments[]>} lists */
const mapOf = (lists) => new Map(Object.entries(lists).map(([name, list]) => [name, pathsOf(list)]));

/** @type {Map<string, Format>} */
export const FORMATS = new Map(DATA.formats.map((one) => [one.name, {
  ...one, groups: mapOf(one.groups), together: pathsOf(one.together), facts: mapOf(one.facts),
}]));
export const ALL_GROUPS = new Set([...FORMATS.values()].flatMap((format) => [...format.groups.keys()]));

/** Whether a place is shown with its parent. @param {Format} format @param {Segments} place */
export const goesWithParent = (format, place) => format.together.some((path) => path.matches(place));

/**
 * The format of a card that declares a format or a family; null if it is unknown. Within a family, the disclosed members decide.
 * @param {string | null} declared
 * @param {JsonObject} members
 * @returns {Format | null}
 */
export function formatNamed(declared, members) {
  const name = declared ?? "";
  const usual = Object.hasOwn(DATA.usual_formats, name) ? DATA.usual_formats[name] : null;
  if (usual === null) return FORMATS.get(name) ?? null;
  const detected = FORMATS.get(detectFormat(members) ?? "");
  return (detected?.family === name ? detected : FORMATS.get(usual)) ?? null;
}

// -- groups -----------------------------------------------------------------------------------------------------------

/**
 * The places of an entry: those of its paths without those of `apart`.
 * @typedef {{ entry: string, paths: ClaimPath[], apart: ClaimPath[], isGroup: boolean, holds: (place: Segments) => boolean }} Scope
 */
/**
 * @param {string} entry
 * @param {ClaimPath[]} paths
 * @param {ClaimPath[]} apart
 * @param {boolean} isGroup
 * @returns {Scope}
 */
export function newScope(entry, paths, apart, isGroup) {
  return { entry, paths, apart, isGroup, holds: (place) => paths.some((p) => p.covers(place)) && !apart.some((p) => p.covers(place)) };
}

/**
 * What a group or a path means in cards of a format. A group that the format lacks covers nothing.
 * @param {string} entry
 * @param {Format} format
 * @param {string} where
 * @param {ClaimPath[] | null} [whole] the paths of the group; null for a path
 */
export function readEntry(entry, format, where, whole = groupNamed(entry, format)) {
  if (whole === null) {
    const path = ClaimPath.parse(entry, where);
    const first = path.segments[0];
    const isGroupHere = isText(first) && format.groups.has(first) && !format.members.includes(first);
    return newScope(entry, isGroupHere ? [] : [path], [], false);
  }
  const others = format.groups.has(entry) ? [...format.groups].filter(([name]) => name !== entry).flatMap(([, paths]) => paths) : [];
  return newScope(entry, whole, others.filter((path) => whole.some((one) => one.includes(path))), true);
}

/** @param {string} name @param {Format} format */
export const groupNamed = (name, format) => format.groups.get(name) ?? (ALL_GROUPS.has(name) && !format.members.includes(name) ? [] : null);

// -- detection --------------------------------------------------------------------------------------------------------

/** @param {string} name */
export const snakeCase = (name) => name.replace(/(?<=[a-z0-9])(?=[A-Z])/g, "_").toLowerCase();

/**
 * A member in either spelling, as [spelling, value]; undefined where it is absent or null.
 * @param {JsonObject} members
 * @param {string} name
 * @returns {[string, Json] | undefined}
 */
export function findMember(members, name) {
  for (const spelling of new Set([name, snakeCase(name)])) {
    const value = members.get(spelling);
    if (value !== undefined && value !== null) return [spelling, value];
  }
  return undefined;
}

/** @param {JsonObject} members @param {string} name */
const hasMember = (members, name) => findMember(members, name) !== undefined;
/** @param {JsonObject} members @param {string[]} names */
const hasExactly = (members, ...names) => names.every((name) => members.get(name) !== undefined && members.get(name) !== null);
/** @param {JsonObject} members @param {string[]} names */
const hasAny = (members, ...names) => names.some((name) => hasExactly(members, name));

/** @param {JsonObject} document */
function claimedVersion(document) {
  const found = findMember(document, "protocolVersion");
  if (!found) return "";
  return isText(found[1]) ? found[1] : sortedText(found[1]);
}

/** @param {JsonObject} document */
function schemaOf(document) {
  const schema = document.get("$schema");
  return isText(schema) ? schema : "";
}

/** @param {JsonObject} document */
function listsSkills(document) {
  const skills = document.get("skills");
  return Array.isArray(skills) && (skills.length === 0 || skills.some(isObject));
}

/** @param {JsonObject} document */
function isA2aCard(document) {
  if (!hasMember(document, "url")) return false;
  const capabilities = document.get("capabilities");
  const { detection } = DATA;
  if (isObject(capabilities) && detection.capabilities.some((name) => hasMember(capabilities, name))) return true;
  if (detection.only_a2a.some((name) => hasMember(document, name))) return true;
  return listsSkills(document) && !detection.of_others.some((name) => hasMember(document, name));
}

/** @param {JsonObject} document */
function isSnake(document) {
  const spelt = DATA.detection.two_words.filter((name) => hasMember(document, name));
  return spelt.length > 0 && spelt.every((name) => !hasExactly(document, name));
}

/** @param {JsonObject} document */
function is10(document) {
  if (hasMember(document, "supportedInterfaces")) return true;
  return claimedVersion(document).startsWith("1") && hasMember(document, "skills") && !hasMember(document, "url");
}

/** @param {JsonObject} document */
function is03(document) {
  const claim = claimedVersion(document);
  if (claim.startsWith("0.3")) return true;
  if (!isA2aCard(document)) return false;
  const skills = findMember(document, "skills")?.[1];
  if (hasMember(document, "signatures")) return true;
  if (Array.isArray(skills) && skills.some((skill) => isObject(skill) && hasMember(skill, "security"))) return true;
  const schemes = findMember(document, "securitySchemes")?.[1];
  if (isObject(schemes) && [...schemes.values()].some((one) => isObject(one) && one.get("type") === "mutualTLS")) return true;
  return claim ? !claim.startsWith("0.1") && !claim.startsWith("0.2") : isSnake(document);
}

/** @param {JsonObject} document */
function is01(document) {
  const claim = claimedVersion(document);
  if (DATA.detection.brought_by_0_2.some((name) => hasMember(document, name))) return false;
  if (claim) return claim.startsWith("0.1") && (isA2aCard(document) || hasMember(document, "skills"));
  return isA2aCard(document) && (hasMember(document, "authentication") || !hasMember(document, "description"));
}

/** @param {JsonObject} document */
const is02 = (document) => (claimedVersion(document).startsWith("0.2") && hasMember(document, "skills")) || isA2aCard(document);

/** @param {JsonObject} document */
export function isAgentCard(document) {
  const endpoint = document.get("endpoint");
  const marks = [
    hasExactly(document, "agent_id"),
    Array.isArray(document.get("capabilities")),
    isObject(endpoint) && (endpoint.has("protocol") || endpoint.has("url")),
  ];
  return marks.filter(Boolean).length >= 2;
}

/** @param {JsonObject} document */
function isUnlabelledKno(document) {
  if (hasExactly(document, "$schema") || DATA.detection.marks_of_a2a.some((name) => hasMember(document, name))) return false;
  const owner = document.get("ownership");
  return isObject(owner) && owner.has("context") && document.has("id") && document.has("url");
}

/** @param {JsonObject} document */
function isToolServer(document) {
  const schema = document.get("$schema");
  if (schema !== undefined && (isText(schema) ? schema : sortedText(schema)).includes("modelcontextprotocol")) return true;
  if (hasAny(document, "serverInfo", "mcpServers")) return !hasExactly(document, "skills");
  return hasExactly(document, "tools", "protocolVersion") && !hasExactly(document, "skills");
}

/** @param {JsonObject} document */
function isBeginning(document) {
  if ([...document.keys()].every((name) => DATA.detection.known_to_1_0.includes(name))) return true;
  return listsSkills(document) && isObject(document.get("capabilities")) && !hasMember(document, "url");
}

/**
 * The first yes decides, as in sdcard/cards/detect.py. AgentCard's dialects are told apart by whole shapes, which is not done here;
 * how a card may be disclosed is the same for all of them.
 * @type {[(document: JsonObject) => boolean, string | null][]}
 */
const SIGNS = [
  [(d) => schemaOf(d).startsWith("agent-card@0.1."), "kno/0.1"],
  [(d) => schemaOf(d).startsWith("agent-card@") || (schemaOf(d).startsWith("service-config@") && d.get("subtype") === "agent-card"), "kno/0.2"],
  [(d) => schemaOf(d).startsWith("agent-blueprint@"), null],
  [(d) => schemaOf(d).startsWith("service-config@"), null],
  [is10, "a2a/1.0"],
  [isUnlabelledKno, "kno/0.2"],
  [is03, "a2a/0.3"],
  [(d) => hasAny(d, "agentCard", "agent_card"), null],
  [is01, "a2a/0.1"],
  [is02, "a2a/0.2"],
  [isAgentCard, "agentcard/draft-00"],
  [(d) => hasExactly(d, "agent_id"), null],
  [(d) => hasExactly(d, "type") && hasAny(d, "registrations", "services"), null],
  [isToolServer, null],
  [(d) => hasAny(d, "schema_version", "name_for_model", "tools"), null],
  [(d) => Array.isArray(d.get("capabilities")) && !hasExactly(d, "skills"), null],
  [isBeginning, "a2a/1.0"],
];

/** @param {JsonObject} document @returns {string | null} */
export const detectFormat = (document) => SIGNS.find(([question]) => question(document))?.[1] ?? null;
