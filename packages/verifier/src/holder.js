// A Holder's steps: accept an SD-Card, select Disclosures, present (RFC 9901 7.2). As sdcard/holder.py.
import { DATA } from "./data.js";
import { boundText, checkInstant } from "./claims.js";
import { Challenge } from "./challenges.js";
import { formatNamed } from "./formats.js";
import { Misuse, Refused, checkNames, encodeBase64url, plainJson, utf8 } from "./json.js";
import { digestText, parsePublicJwk } from "./keys.js";
import { matchEntries } from "./matching.js";
import { ClaimPath } from "./paths.js";
import { ClaimRequest } from "./requests.js";
import { parseJws, parseSdJwt, processPayload } from "./sd-jwt.js";
import { readStatus } from "./status.js";
import { TERMS, cardMembers, checkIssued, checkTerms } from "./verifier.js";

/** @import { PublicKey } from "./keys.js" */
/** @import { Place } from "./sd-jwt.js" */
/** @import { Acceptance, IssuedCard } from "./verifier.js" */

/** @typedef {{ publicKey: PublicKey, sign(message: Uint8Array<ArrayBuffer>): Promise<Uint8Array> }} Signer signs in JOSE form */

/**
 * Signs with a key pair of WebCrypto. The private key need not be extractable.
 * @param {CryptoKeyPair} pair
 */
export async function webCryptoSigner({ privateKey, publicKey }) {
  const { key_ops, ext, ...jwk } = await crypto.subtle.exportKey("jwk", publicKey);
  return newSigner(await parsePublicJwk(jwk), privateKey);
}

/**
 * Signs with a private JWK, such as the file of `sdcard keys new`: an EC key, or Ed25519.
 * @param {JsonWebKey} jwk
 */
export async function jwkSigner({ kty, crv, x, y, d }) {
  const publicKey = await parsePublicJwk({ kty, crv, x, y });
  const how = kty === "EC" ? { name: "ECDSA", namedCurve: crv } : { name: "Ed25519" };
  try {
    return newSigner(publicKey, await crypto.subtle.importKey("jwk", { kty, crv, x, y, d }, /** @type {EcKeyImportParams} */ (how), false, ["sign"]));
  } catch {
    throw new Misuse("this is no private JWK of an EC key or of Ed25519");
  }
}

/**
 * @param {PublicKey} publicKey
 * @param {CryptoKey} privateKey
 * @returns {Signer}
 */
function newSigner(publicKey, privateKey) {
  const hash = DATA.curves.find((one) => one.algorithm === publicKey.algorithm)?.hash;
  const how = hash ? { name: "ECDSA", hash } : { name: "Ed25519" };
  return { publicKey, sign: async (message) => new Uint8Array(await crypto.subtle.sign(how, privateKey, message)) };
}

/** Disclosures of one SD-Card, each with its parents. */
export class Selection {
  /** @param {readonly string[]} disclosures */
  constructor(disclosures) {
    this.disclosures = Object.freeze([...disclosures]);
  }
}

/** An SD-Card that its Holder has checked and may present. `acceptSdCard` makes it. */
export class HeldSdCard {
  /** @param {IssuedCard} issued */
  constructor(issued) {
    this.issued = issued;
    this.members = cardMembers(issued.processed.claims);
    this.format = formatNamed(issued.declaredFormat, this.members);
  }
}

/**
 * Checks an SD-Card on receipt. It must be bound to the Holder's key.
 * @param {string} text an SD-JWT without a KB-JWT
 * @param {Acceptance} acceptance
 * @param {PublicKey} holderKey
 * @param {number} now Unix seconds
 */
export async function acceptSdCard(text, acceptance, holderKey, now) {
  checkNames(acceptance, TERMS);
  if (typeof holderKey?.thumbprint !== "string") throw new Misuse("give the Holder's key, as parsePublicJwk returns it");
  const terms = checkTerms(acceptance);
  const arrived = parseSdJwt(text, terms.limits);
  if (arrived.kbJwt !== null) throw new Refused("kb.unexpected", "kb-jwt", "An Issuer sends no KB-JWT.");
  const issued = await checkIssued(arrived, terms, checkInstant(now), null);
  const { claims } = issued.processed;
  if (claims.has("status")) readStatus(claims.get("status"));
  if (issued.holderKey.thumbprint !== holderKey.thumbprint) throw new Refused("cnf.other-key", "issuer-jwt/cnf/jwk");
  return new HeldSdCard(issued);
}

/** Selects every Disclosure. @param {HeldSdCard} held */
export const selectAll = (held) => new Selection(held.issued.arrived.disclosures);

/**
 * Selects the places that the paths name, with everything beneath. `skills.0` shows one skill whole.
 * @param {HeldSdCard} held
 * @param {readonly string[]} paths
 */
export function selectPaths(held, paths) {
  const { claims, revealed } = held.issued.processed;
  const wanted = paths.flatMap((path, number) => {
    const found = ClaimPath.parse(path, "request/paths").find(claims);
    if (found.length === 0) throw new Refused("selection.not-held", `request/paths/${number}`);
    return found;
  });
  const key = (/** @type {Place} */ place) => JSON.stringify(place);
  const own = new Set(wanted.map(key));
  const leading = new Set(wanted.flatMap((place) => place.map((_, length) => key(place.slice(0, length + 1)))));
  const isWanted = (/** @type {Place} */ place) => leading.has(key(place)) || place.some((_, length) => own.has(key(place.slice(0, length))));
  return new Selection(revealed.filter((one) => isWanted(one.place)).map((one) => one.disclosure.encoded));
}

/**
 * Selects requested claims, as far as the Holder allows. A Disclosure is selected if all its content was requested, or always
 * goes with a requested claim. `withheld` and `notHeld` are for the Holder alone.
 * @param {HeldSdCard} held
 * @param {ClaimRequest} request
 * @param {Selection} allowed the most that this Verifier may see
 */
export function selectRequested(held, request, allowed) {
  const own = held.issued.arrived.disclosures;
  if (allowed.disclosures.some((text) => !own.includes(text))) throw new Misuse("the selection was made from another SD-Card");
  const { asked, beyond } = matchEntries(held.members, request.entries, held.format, held.issued.processed.revealed);
  const open = new Set(allowed.disclosures.filter((text) => !beyond.has(text)));
  /** @type {Set<string>} */
  const chosen = new Set();
  let heldOnes = 0n, withheldOnes = 0n;
  for (const { entries, chain } of asked) {
    heldOnes |= entries;
    if (chain.every((text) => open.has(text))) for (const text of chain) chosen.add(text);
    else withheldOnes |= entries;
  }
  const named = (/** @type {(bit: bigint) => boolean} */ which) => request.entries.filter((_, number) => which(1n << BigInt(number))).map(String);
  return { selection: new Selection(own.filter((text) => chosen.has(text))), withheld: named((bit) => (withheldOnes & bit) !== 0n), notHeld: named((bit) => (heldOnes & bit) === 0n) };
}

/**
 * The SD-JWT with the selected Disclosures, in the Issuer's order.
 * @param {HeldSdCard} held
 * @param {Selection} selection
 */
function disclose({ issued }, selection) {
  const chosen = new Set(selection.disclosures);
  const disclosures = issued.arrived.disclosures.filter((text) => chosen.has(text));
  if (disclosures.length !== chosen.size) throw new Misuse("the selection was made from another SD-Card");
  for (const { disclosure, parent } of issued.processed.revealed) {
    if (parent && chosen.has(disclosure.encoded) && !chosen.has(parent.encoded)) throw new Misuse("the selection lacks a parent");
  }
  return { issuerJwt: issued.arrived.issuerJwt, disclosures };
}

/**
 * The members of the card that a selection shows.
 * @param {HeldSdCard} held
 * @param {Selection} selection
 * @returns {Promise<Readonly<Record<string, any>>>}
 */
export async function partialCard(held, selection) {
  const { issuerJwt, disclosures } = disclose(held, selection);
  const limits = { ...DATA.limits, json_depth: DATA.deepest, digests: Infinity };
  const { payload } = parseJws(issuerJwt, "issuer-header", "issuer-jwt", limits.json_depth);
  return plainJson(cardMembers((await processPayload(payload, disclosures, limits)).claims));
}

/** @param {HeldSdCard} held @param {Signer} signer */
export function checkSigner(held, signer) {
  if (signer.publicKey.thumbprint !== held.issued.holderKey.thumbprint) throw new Misuse("the signer does not hold the SD-Card's key");
}

/**
 * Answers a challenge. The result is the text to send. For an unsolicited presentation, make a challenge with `newChallenge`.
 * @param {HeldSdCard} held
 * @param {Selection} selection
 * @param {Challenge} challenge
 * @param {Signer} signer holds the key in `cnf`
 * @param {number} now becomes `iat`, in whole seconds
 */
export async function present(held, selection, challenge, signer, now) {
  if (!(challenge instanceof Challenge)) throw new Misuse("a Holder answers a Challenge");
  checkSigner(held, signer);
  const shown = boundText(disclose(held, selection));
  const header = { alg: signer.publicKey.algorithm, typ: DATA.kb_typ };
  const { nonce, audience: aud, interactionId } = challenge;
  const claims = { iat: Math.floor(checkInstant(now)), aud, nonce, sd_hash: await digestText(held.issued.processed.algorithm, shown), interaction_id: interactionId ?? undefined };
  const signed = [header, claims].map((part) => encodeBase64url(utf8(JSON.stringify(part)))).join(".");
  const signature = await signer.sign(utf8(signed));
  const size = DATA.algorithms.find(({ name }) => name === header.alg)?.signature_size;
  if (!(signature instanceof Uint8Array) || signature.length !== size) throw new Misuse(`a signer returns a Uint8Array of ${size} bytes`);
  return `${shown}${signed}.${encodeBase64url(signature)}`;
}
