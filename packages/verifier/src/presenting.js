// A `fetch` for agents that present their SD-Card. As sdcard/web/client_auth.py.
import { HeldSdCard, checkSigner, present, selectRequested } from "./holder.js";
import { INTERACTION_HEADER, checkChallenge, encodeCredentials, isHeaderText, parseChallenge } from "./http.js";
import { Misuse } from "./json.js";
import { checkOrigin } from "./urls.js";

/** @import { Selection, Signer } from "./holder.js" */

const MOST_STREAMED = 16 * 2 ** 20;

/**
 * @typedef {object} Presenting
 * @property {string} origin the server; a presentation goes nowhere else
 * @property {string} audience the server's; challenges with another audience are not answered
 * @property {HeldSdCard} held
 * @property {Selection} allowed the most that this server may see
 * @property {Signer} signer
 * @property {() => number} clock
 */

/**
 * A `fetch` that answers the challenges of one server with an SD-Card. Each challenge is answered once, for the request that it came
 * with. Redirects are not followed. Requests to other servers are sent unchanged.
 *
 * The content is sent again after a challenge. So a streamed body, or that of a `Request`, is read into memory before anything is sent;
 * one of more than 16 MiB is `Misuse`. Texts, bytes, forms and `Blob`s in `init.body` have no such limit.
 * @param {Presenting} presenting
 * @param {typeof fetch} fetcher
 * @returns {(input: RequestInfo | URL, init?: RequestInit) => Promise<Response>}
 */
export function presentingFetch({ origin, audience, held, allowed, signer, clock }, fetcher) {
  checkOrigin(origin);
  if (!isHeaderText(audience)) throw new Misuse("an audience is printable ASCII");
  checkSigner(held, signer);
  return async (input, init) => {
    const request = new Request(input, init);
    if (new URL(request.url).origin !== origin) return fetcher(request);
    const made = await repeatable(request, input, init);
    const again = made();
    const response = await fetcher(made());
    const offered = response.headers.get("www-authenticate");
    const received = response.status === 401 && offered !== null ? parseChallenge([offered]) : null;
    if (!received) return response;
    await response.body?.cancel();
    const challenge = checkChallenge(received, audience, request.headers.get(INTERACTION_HEADER));
    const { selection } = selectRequested(held, received.request, allowed);
    again.headers.set("authorization", encodeCredentials(await present(held, selection, challenge, signer, clock())));
    return fetcher(again);
  };
}

/**
 * Makes the request as often as needed.
 * @param {Request} request of the input and init
 * @param {RequestInfo | URL} input
 * @param {RequestInit} [init]
 * @returns {Promise<() => Request>}
 */
async function repeatable(request, input, init) {
  const own = init?.body ?? null;
  const isStream = own === null ? request.body !== null : own instanceof ReadableStream || Symbol.asyncIterator in Object(own);
  if (!isStream) return () => new Request(input, { ...init, redirect: "manual" });
  const body = await readStream(/** @type {ReadableStream<Uint8Array>} */ (request.body));
  return () => new Request(request, { body, redirect: "manual" });
}

/** @param {ReadableStream<Uint8Array>} stream */
async function readStream(stream) {
  const reader = stream.getReader();
  const parts = [];
  let size = 0;
  for (let next = await reader.read(); !next.done; next = await reader.read()) {
    parts.push(next.value);
    size += next.value.length;
    if (size <= MOST_STREAMED) continue;
    await reader.cancel();
    throw new Misuse("a streamed body has at most 16 MiB: give a Blob");
  }
  return new Blob(/** @type {Uint8Array<ArrayBuffer>[]} */ (parts));
}
