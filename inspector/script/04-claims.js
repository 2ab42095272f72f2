// What is asked of claims, key binding and status lists: RFC 7519, RFC 9901 7.3, Token Status List 8.3.

const isInstant = (value) => isNumber(value) && numberOf(value) >= 0 && numberOf(value) < DATA.max_instant + 1;

function numericDate(value, where) {
  if (!isNumber(value)) throw new Refused("claim.type", where, "A NumericDate is a JSON number.");
  if (!isInstant(value)) throw new Refused("claim.value", where, "A NumericDate is within the years 1970 to 9999.");
  return numberOf(value);
}

function textClaim(claims, name, where) {
  const value = claims.get(name);
  if (!isText(value)) throw new Refused("claim.type", `${where}/${name}`, "The claim must be a string.");
  if (!value) throw new Refused("claim.value", `${where}/${name}`, "The claim must not be empty.");
  return value;
}

function required(claims, name, where) {
  if (!claims.has(name)) throw new Refused("claim.missing", `${where}/${name}`);
  return claims.get(name);
}

function requiredText(claims, name, where) {
  const value = required(claims, name, where);
  if (!isText(value)) throw new Refused("claim.type", `${where}/${name}`, "The claim must be a single string.");
  return value;
}

// RFC 9901 9.7, SD-JWT VC 2.2.2.2: what decides whether a token counts is not for a Holder to hide.
function checkNotSelective(payload, processed, guarded) {
  const disclosed = processed.revealed.map((one) => one.place[0]).filter((name) => guarded.includes(name));
  const hiding = guarded.filter((name) => payload.has(name) && holdsDigests(payload.get(name))).sort();
  for (const name of [...disclosed, ...hiding]) throw new Refused("claim.not-in-clear", `issuer-jwt/${name}`);
}

function holdsDigests(value) {
  if (isObject(value)) return DATA.reserved_anywhere.some((name) => value.has(name)) || holdsDigests([...value.values()]);
  return Array.isArray(value) && value.some(holdsDigests);
}

function checkPresent(payload, names) {
  for (const name of names.toSorted()) required(payload, name, "issuer-jwt");
}

function checkNotExpired(claims, now, where, hint) {
  if (claims.has("exp") && now >= numericDate(claims.get("exp"), `${where}/exp`)) throw new Refused("time.expired", `${where}/exp`, hint);
}

function checkAlreadyValid(claims, now, where, hint) {
  if (claims.has("nbf") && now < numericDate(claims.get("nbf"), `${where}/nbf`)) throw new Refused("time.not-yet-valid", `${where}/nbf`, hint);
}

function checkAlreadyIssued(claims, now, where) {
  if (claims.has("iat") && now < numericDate(claims.get("iat"), `${where}/iat`)) throw new Refused("time.issued-in-future", `${where}/iat`);
}

function checkLifetime(claims, longest) {
  const [expires, issued] = ["exp", "iat"].map((name) => Number(numericDate(claims.get(name), `issuer-jwt/${name}`)));
  if (expires - issued > longest) throw new Refused("time.lifetime", "issuer-jwt/exp", `At most ${longest} s are accepted.`);
}

function checkAddressed(claims, audience, where) {
  if (!claims.has("aud")) return;
  const value = claims.get("aud");
  const audiences = Array.isArray(value) ? value : [value];
  if (!audiences.every(isText)) throw new Refused("claim.type", `${where}/aud`);
  if (!audiences.includes(audience)) throw new Refused("audience.mismatch", `${where}/aud`);
}

function checkVct(claims, profile) {
  if (claims.has("vct") && !profile.accepted_vcts.includes(textClaim(claims, "vct", "issuer-jwt"))) {
    throw new Refused("profile.vct", "issuer-jwt/vct", `Profile: ${profile.name}.`);
  }
}

// RFC 7800 3.1: one key, in one form. As sdcard/jose/claims.py.
async function parseConfirmation(claims) {
  const cnf = claims.get("cnf");
  const jwk = isObject(cnf) ? cnf.get("jwk") : undefined;
  if (!isObject(jwk) || jwk.size === 0) throw new Refused("cnf.malformed", "issuer-jwt/cnf");
  const others = DATA.unchecked_confirmations;
  if (others.some((name) => cnf.has(name))) {
    throw new Refused("cnf.malformed", "issuer-jwt/cnf", `Remove ${others.join(", ")} from cnf: each could name a second key.`);
  }
  if (cnf.has("kid") && !isText(cnf.get("kid"))) throw new Refused("cnf.malformed", "issuer-jwt/cnf", "A `kid` is a string.");
  const key = await parsePublicJwk(jwk, "issuer-jwt/cnf/jwk");
  if (cnf.has("jkt") && cnf.get("jkt") !== key.thumbprint) {
    throw new Refused("cnf.malformed", "issuer-jwt/cnf", "`jkt` is not the thumbprint of the key in `jwk`.");
  }
  return key;
}

// -- key binding ------------------------------------------------------------------------------------------------------

function checkFreshness(claims, window, now) {
  const issued = numericDate(required(claims, "iat", "kb-jwt"), "kb-jwt/iat");
  if (issued < now - window.past) throw new Refused("kb.stale", "kb-jwt/iat");
  if (issued > now + window.future) throw new Refused("kb.from-future", "kb-jwt/iat");
}

function checkNonce(claims, expected) {
  const nonce = requiredText(claims, "nonce", "kb-jwt");
  if (!nonce || codePoints(nonce) > DATA.max_nonce_length) {
    throw new Refused("claim.value", "kb-jwt/nonce", `A nonce has 1 to ${DATA.max_nonce_length} characters.`);
  }
  if (expected !== null && nonce !== expected) throw new Refused("kb.nonce-mismatch", "kb-jwt/nonce");
}

function checkAudience(claims, expected) {
  const audience = requiredText(claims, "aud", "kb-jwt");
  if (expected !== null && audience !== expected) throw new Refused("kb.audience-mismatch", "kb-jwt/aud");
}

async function checkSdHash(claims, arrived, algorithm) {
  const text = `${[arrived.issuerJwt, ...arrived.disclosures].join("~")}~`;
  if (requiredText(claims, "sd_hash", "kb-jwt") !== (await digestText(algorithm, text))) {
    throw new Refused("kb.sd-hash", "kb-jwt/sd_hash");
  }
}

function checkInteraction(claims, expected) {
  const given = claims.has("interaction_id") ? requiredText(claims, "interaction_id", "kb-jwt") : null;
  if (expected !== null && given !== expected) throw new Refused("kb.interaction-id", "kb-jwt/interaction_id");
}

// -- status -----------------------------------------------------------------------------------------------------------

function parseStatus(value) {
  const entry = isObject(value) ? value.get("status_list") : undefined;
  const [uri, index] = isObject(entry) ? [entry.get("uri"), entry.get("idx")] : [];
  if (isText(uri) && uri && isInteger(index) && index >= 0) return { uri, index };
  throw new Refused("status.malformed", "issuer-jwt/status");
}

function judgeStatus(value) {
  if (value === 1) throw new Refused("status.revoked", "issuer-jwt/status");
  if (value === 2) throw new Refused("status.suspended", "issuer-jwt/status");
  if (value === null) throw new Refused("status.unavailable", "issuer-jwt/status", "The list has no such entry.");
  if (value !== 0) throw new Refused("status.unavailable", "issuer-jwt/status", "The status value is unknown.");
}

function readStatusListToken(text, limits) {
  if (codePoints(text) > 2 * limits.status_list_bytes) throw new Refused("limit.bytes", "status-list");
  if (!/^[\0-\x7f]*$/.test(text)) throw new Refused("jws.format", "status-list");
  return parseJws(text, "status-list", "status-list", limits.json_depth);
}

function checkListClaims(claims, uri, now) {
  if (uri !== null && required(claims, "sub", "status-list") !== uri) throw new Refused("status-list.other", "status-list/sub");
  checkAddressed(claims, null, "status-list");
  checkAlreadyValid(claims, now, "status-list");
  const issued = numericDate(required(claims, "iat", "status-list"), "status-list/iat");
  if (issued > now) throw new Refused("time.issued-in-future", "status-list/iat");
  if (claims.has("exp") && now >= numericDate(claims.get("exp"), "status-list/exp")) throw new Refused("time.expired", "status-list/exp");
  if (claims.has("ttl") && !(numericDate(claims.get("ttl"), "status-list/ttl") > 0)) {
    throw new Refused("claim.value", "status-list/ttl", "A positive number of seconds is expected.");
  }
}

async function parseStatusList(value, limits) {
  const where = "status-list/status_list";
  const [bits, text] = isObject(value) ? [value.get("bits"), value.get("lst")] : [];
  if (![1, 2, 4, 8].includes(bits) || !isText(text)) throw new Refused("status-list.malformed", where);
  return { bits, packed: await inflate(decodeBase64url(text, `${where}/lst`), `${where}/lst`, limits.status_list_bytes) };
}

async function inflate(bytes, where, most) {
  const reader = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate")).getReader();
  const parts = [];
  let size = 0;
  for (;;) {
    let step;
    try {
      step = await reader.read();
    } catch {
      throw new Refused("status-list.malformed", where, "This is no ZLIB stream, or it ends too soon or too late.");
    }
    if (step.done) break;
    size += step.value.length;
    parts.push(step.value);
    if (size > most) {
      reader.cancel();
      throw new Refused("limit.bytes", where, `A status list has at most ${most} bytes.`);
    }
  }
  const whole = new Uint8Array(size);
  parts.reduce((at, part) => (whole.set(part, at), at + part.length), 0);
  return whole;
}

function statusAt(list, index) {
  const perByte = 8 / list.bits;
  if (index >= list.packed.length * perByte) return null;
  return (list.packed[Math.floor(Number(index) / perByte)] >> ((Number(index) % perByte) * list.bits)) & ((1 << list.bits) - 1);
}
