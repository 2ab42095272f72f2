// What a person pastes as keys. The reader of trust documents and JWK sets is packages/verifier/src/trust.js.

const saidOf = (refusals) => refusals.map((one) => `${one.rule} at ${one.where}`).join(", ");

// What a person pastes as keys: a trust document, issuer metadata, a JWK set, or one JWK.
// `issuer` is null where the keys come without one: then they count as keys of the Issuer that the card names.
async function parseTrust(text, depth, check = () => {}) {
  const document = parseJsonObject(utf8(text), "trust", depth);
  if (document.has("kty")) {
    const key = await readPublicJwk(document, "trust");
    check(key, "trust");
    const kid = document.has("kid") ? document.get("kid") : key.thumbprint;
    return { named: null, keys: new Map([[kid, [key]]]), alone: key };
  }
  if (document.has("keys")) {
    return { named: null, ...(await readKeySet(document, "trust", "keys", check)) };
  }
  if (document.has("issuer")) {
    if (!document.has("jwks")) throw new Refused("trust.malformed", "trust/jwks", "This metadata has no keys in it. Paste its `jwks_uri`'s document.");
    const { keys, leftOut } = await readKeySet(document.get("jwks"), "trust/jwks");
    return { named: new TrustedIssuers(new Map([[document.get("issuer"), keys]]), new Map(), null, leftOut), leftOut };
  }
  const issuers = document.get("issuers");
  if (!isObject(issuers) || issuers.size === 0) {
    throw new Refused("trust.malformed", "trust", "Paste a JWK, a JWK set, issuer metadata, or a trust document with `issuers`.");
  }
  const named = await readTrustedIssuers(document);
  return { named, leftOut: named.leftOut };
}

async function keyFor(trust, issuer, header, now) {
  if (trust.named) return trust.named.keyFor(issuer, header, now);
  return trust.alone ?? pick(trust.keys, header.get("kid"), "issuer-header/kid", "The Issuer is trusted, but this key is not listed.", header.get("alg"));
}

function pick(keys, kid, where, hint, alg) {
  const key = findKey(keys, kid, alg);
  if (!key) throw new Refused("issuer.key-unknown", where, hint);
  return key;
}
