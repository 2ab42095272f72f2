// Verifies presentations with one of three libraries, in any runtime of JavaScript. All use WebCrypto for signatures and digests;
// @meeco/sd-jwt demands a digest that is not awaited, so it needs `node:crypto`. Issuer keys are imported before, Holder keys are not.
import { decodeJWT, verifySDJWT } from "@meeco/sd-jwt";
import { SDJwtInstance } from "@sd-jwt/core";
import { Answering, Challenge, Unchecked, parseTrustedIssuers, verifyPresentation } from "../packages/verifier/src/index.js";

const { createHash } = await import("node:crypto").catch(() => ({}));
const [HOW, CURVE] = [{ name: "ECDSA", hash: "SHA-256" }, { name: "ECDSA", namedCurve: "P-256" }];
const utf8 = (text) => new TextEncoder().encode(text);
const importKey = ({ kty, crv, x, y }) => crypto.subtle.importKey("jwk", { kty, crv, x, y }, CURVE, false, ["verify"]);
const bytesOf = (text) => Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (c) => c.charCodeAt(0));
const checked = async (key, data, signature) => crypto.subtle.verify(HOW, await key, bytesOf(signature), utf8(data));

const LIBRARIES = {
  async ours({ trust, audience, now }) {
    const [issuers, status] = [await parseTrustedIssuers(trust), new Unchecked("a benchmark")];
    return ([text, nonce]) => verifyPresentation(text, { issuers, status, keyBinding: new Answering(new Challenge(nonce, audience), { consume: () => true }) }, now);
  },

  async core({ jwk, audience, now }) {
    const issuer = importKey(jwk);
    const library = new SDJwtInstance({
      hasher: async (data, algorithm) => new Uint8Array(await crypto.subtle.digest(algorithm.toUpperCase(), typeof data === "string" ? utf8(data) : data)),
      verifier: (data, signature) => checked(issuer, data, signature),
      kbVerifier: (data, signature, payload) => checked(importKey(payload.cnf.jwk), data, signature),
    });
    return async ([text, nonce]) => {
      const { kb } = await library.verify(text, { currentDate: now, keyBindingNonce: nonce });
      if (kb.payload.aud !== audience) throw new Error("another audience"); // left to the caller
    };
  },

  async meeco({ jwk, audience, now }) {
    if (!createHash) return null;
    const issuer = importKey(jwk);
    const hasher = (data) => createHash("sha256").update(data).digest("base64url");
    const read = async (jwt, key) => {
      const end = jwt.lastIndexOf(".");
      if (!(await checked(key, jwt.slice(0, end), jwt.slice(end + 1)))) throw new Error("signature");
      return decodeJWT(jwt).payload;
    };
    let expected;
    const kb = {
      verifier: async (jwt, holder) => {
        const { aud, nonce } = await read(jwt, importKey(holder));
        return aud === audience && nonce === expected;
      },
    };
    const verifier = async (jwt) => (await read(jwt, issuer)).exp > now;
    return ([text, nonce]) => {
      expected = nonce;
      return verifySDJWT(text, verifier, async () => hasher, { kb });
    };
  },
};

const made = {};

/** Verify each presentation of a block once; false where the runtime lacks what the library needs. */
export async function runBlock({ library, block, given }) {
  made[library] ??= await LIBRARIES[library](given);
  if (!made[library]) return false;
  for (const one of block) await made[library](one);
  return true;
}

/** Microseconds of a verification in each block, the libraries in turn: each sees each presentation once. */
export async function measure({ libraries, blocks, given }) {
  const found = Object.fromEntries(libraries.map((library) => [library, []]));
  for (const block of blocks) {
    for (const library of libraries) {
      const begun = performance.now();
      if (await runBlock({ library, block, given })) found[library].push(((performance.now() - begun) * 1000) / block.length);
    }
  }
  return found;
}

export default {
  fetch: async (request) => Response.json(await runBlock(await request.json())),
};
