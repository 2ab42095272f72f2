// A protected route, for a Worker and for a page: it tells whose card it admitted, as the app of the Python tests does.
import { AdmissionPolicy, Unchecked, memoryChallenges, parseTrustedIssuers, protect, systemRandomness } from "../src/index.js";

export const SHOWN = (card, headers, body) => ({
  subject: card.subject, members: Object.keys(card.members).sort(), undisclosed: card.undisclosed, interaction: card.keyBinding.interactionId, headers, body,
});

/** The decisions of the route. @param {{ trust: string, audience: string, now: number }} given */
export async function decisions({ trust, audience, now }) {
  const issuers = await parseTrustedIssuers(trust);
  const policy = new AdmissionPolicy({ issuers, formats: ["a2a/1.0"], requires: { claims: ["endpoints", "provider"], skills: ["route-optimizer-traffic"] } });
  return { policy, audience, challenges: memoryChallenges(audience, systemRandomness), status: new Unchecked("a test of something else"), clock: () => now };
}

export async function newServer(given) {
  return protect(await decisions(given), async (request, card) => Response.json(SHOWN(card, [...request.headers.keys()], (await request.text()).length)));
}

let server; // one in an isolate, so that it knows its challenges

export default {
  async fetch(request, env) {
    server ??= newServer(JSON.parse(env.GIVEN));
    return (await server)(request);
  },
};
