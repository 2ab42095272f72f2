// A `fetch` for agents that present their SD-Card. As sdcard/web/client_auth.py.
import { HeldSdCard, present, selectRequested } from "./holder.js";
import { INTERACTION_HEADER, checkChallenge, encodeCredentials, isHeaderText, parseChallenge } from "./http.js";
import { Misuse } from "./json.js";
import { checkOrigin } from "./urls.js";

/** @import { Selection, Signer } from "./holder.js" */

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
 * @param {Presenting} presenting
 * @param {typeof fetch} fetcher
 * @returns {(input: RequestInfo | URL, init?: RequestInit) => Promise<Response>}
 */
export function presentingFetch({ origin, audience, held, allowed, signer, clock }, fetcher) {
  checkOrigin(origin);
  if (!isHeaderText(audience)) throw new Misuse("an audience is printable ASCII");
  if (signer.publicKey.thumbprint !== held.issued.holderKey.thumbprint) throw new Misuse("the signer does not hold the key that the SD-Card is bound to");
  return async (input, init) => {
    const request = new Request(input, init);
    if (new URL(request.url).origin !== origin) return fetcher(request);
    const again = new Request(request.clone(), { redirect: "manual" });
    const response = await fetcher(new Request(request, { redirect: "manual" }));
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
