// JWS, Disclosures and digests: RFC 7515, RFC 9901 4, 7.1 and 8. As sdcard/jose/jws.py and sdcard/sdjwt/.

function parseJws(text, headerWhere, payloadWhere, depth) {
  const parts = text.split(".");
  if (parts.length !== 3 || parts.includes("")) throw new Refused("jws.format", payloadWhere);
  const header = parseJsonObject(decodeBase64url(parts[0], headerWhere), headerWhere, depth);
  const payload = parseJsonObject(decodeBase64url(parts[1], payloadWhere), payloadWhere, depth);
  const signature = decodeBase64url(parts[2], `${payloadWhere}/signature`);
  for (const name of ["alg", "typ", "kid"]) {
    if (header.has(name) && !isText(header.get(name))) throw new Refused("jws.header", `${headerWhere}/${name}`);
  }
  return { header, payload, signature, signingInput: utf8(`${parts[0]}.${parts[1]}`), headerWhere, payloadWhere };
}

function checkAlgorithm(jws, key) {
  if (!headerNames(key.algorithm).includes(jws.header.get("alg"))) {
    throw new Refused("jws.alg", `${jws.headerWhere}/alg`, `The key signs with ${key.algorithm}.`);
  }
}

function checkNothingCritical(jws) {
  if (jws.header.has("crit")) throw new Refused("jws.crit", `${jws.headerWhere}/crit`);
  if (jws.header.has("b64") && jws.header.get("b64") !== true) throw new Refused("jws.crit", `${jws.headerWhere}/b64`, "The payload is always encoded.");
}

async function checkSignature(jws, key) {
  const found = await verifies(key, jws.signingInput, jws.signature);
  if (found === undefined) throw new Unchecked(`This browser has no ${key.algorithm}.`);
  if (!found) throw new Refused("jws.signature", `${jws.payloadWhere}/signature`);
}

function checkType(jws, types) {
  if (!types.includes(jws.header.get("typ"))) {
    throw new Refused("jws.typ", `${jws.headerWhere}/typ`, `Expected: ${types.toSorted().join(", ")}.`);
  }
}

// -- the forms --------------------------------------------------------------------------------------------------------

// Text → {issuerJwt, disclosures, kbJwt}; kbJwt is null for an SD-JWT.
function parseSdJwt(text, limits) {
  if (codePoints(text) > limits.presentation_bytes) throw new Refused("limit.bytes", "presentation");
  const parsed = text.startsWith("{") ? parseJsonForm(text, limits) : parseCompact(text);
  if (parsed.disclosures.length > limits.disclosures) throw new Refused("limit.disclosures", "presentation");
  return parsed;
}

function parseCompact(text) {
  const [issuerJwt, ...disclosures] = text.split("~");
  if (disclosures.length === 0) throw new Refused("sd-jwt.format", "presentation", text ? "There is no `~`." : "It is empty.");
  return { issuerJwt, kbJwt: disclosures.pop() || null, disclosures };
}

function parseJsonForm(text, limits) {
  if (!text.isWellFormed()) throw new Refused("encoding.utf8", "presentation");
  const data = utf8(text);
  if (data.length > limits.presentation_bytes) throw new Refused("limit.bytes", "presentation");
  const document = parseJsonObject(data, "presentation", limits.json_depth);
  checkAbsent(document, ["disclosures", "kb_jwt"], "presentation", "It belongs in the unprotected header.");
  const payload = textMember(document, "payload", "presentation");
  const [signature, where] = firstSignature(document);
  const header = unprotectedHeader(signature, where);
  const signed = textMember(signature, "protected", where);
  if (header.has("crit")) throw new Refused("jws.crit", `${where}/header/crit`, "An unprotected header is not signed.");
  checkDisjoint(header, signed, `${where}/header`, limits);
  const issuerJwt = `${signed}.${payload}.${textMember(signature, "signature", where)}`;
  const disclosures = header.has("disclosures") ? header.get("disclosures") : [];
  if (!Array.isArray(disclosures)) throw new Refused("sd-jwt.format", `${where}/header/disclosures`, "An array of Disclosures is expected.");
  if (!disclosures.every(isText)) throw new Refused("sd-jwt.format", `${where}/header/disclosures`, "Each Disclosure is a string.");
  return { issuerJwt, disclosures, kbJwt: header.has("kb_jwt") ? textMember(header, "kb_jwt", `${where}/header`) : null };
}

function firstSignature(document) {
  if (!document.has("signatures")) return [document, "presentation"];
  checkAbsent(document, ["protected", "signature", "header"], "presentation", "In the general form it belongs in `signatures`.");
  const where = "presentation/signatures";
  const signatures = document.get("signatures");
  if (!Array.isArray(signatures) || signatures.length === 0) {
    throw new Refused("sd-jwt.format", where, "An array with one signature or more is expected.");
  }
  for (const [number, one] of signatures.entries()) objectOf(one, `${where}/${number}`);
  for (const [number, other] of signatures.entries()) {
    if (number === 0) continue;
    textMember(other, "signature", `${where}/${number}`);
    const header = unprotectedHeader(other, `${where}/${number}`);
    checkAbsent(header, ["disclosures", "kb_jwt"], `${where}/${number}/header`, "Only the first signature may have it.");
  }
  return [signatures[0], `${where}/0`];
}

function checkDisjoint(header, signed, where, limits) {
  if (header.size === 0) return;
  const names = parseJsonObject(decodeBase64url(signed, "issuer-header"), "issuer-header", limits.json_depth);
  if ([...header.keys()].some((name) => names.has(name))) {
    throw new Refused("jws.header", where, "A parameter is in the protected header too.");
  }
}

const unprotectedHeader = (signature, where) => (signature.has("header") ? objectOf(signature.get("header"), `${where}/header`) : new Map());

function objectOf(value, where) {
  if (!isObject(value)) throw new Refused("sd-jwt.format", where, "A JSON object is expected.");
  return value;
}

function textMember(members, name, where) {
  const value = members.get(name);
  if (!isText(value) || !value) throw new Refused("sd-jwt.format", `${where}/${name}`, "A string that is not empty is expected.");
  return value;
}

function checkAbsent(members, names, where, hint) {
  for (const name of names) {
    if (members.has(name)) throw new Refused("sd-jwt.format", `${where}/${name}`, hint);
  }
}

// -- Disclosures and digests ------------------------------------------------------------------------------------------

function parseDisclosure(encoded, number, depth) {
  const where = `disclosure/${number}`;
  const array = parseJson(decodeBase64url(encoded, where), where, depth);
  if (Array.isArray(array) && isText(array[0])) {
    const [salt, second, third] = array;
    if (array.length === 2) return { number, encoded, salt, name: null, value: second };
    if (array.length === 3 && isText(second)) return { number, encoded, salt, name: second, value: third };
  }
  throw new Refused("disclosure.format", where);
}

async function processPayload(payload, texts, limits) {
  const algorithm = payload.has("_sd_alg") ? payload.get("_sd_alg") : "sha-256";
  if (!DATA.digest_algorithms.includes(algorithm)) throw new Refused("sd.alg", "issuer-jwt/_sd_alg");
  const disclosures = texts.map((text, number) => parseDisclosure(text, number, limits.json_depth));
  const unreferenced = new Map();
  for (const disclosure of disclosures) {
    disclosure.digest = await digestText(algorithm, disclosure.encoded);
    if (unreferenced.has(disclosure.digest)) throw new Refused("disclosure.repeated", `disclosure/${disclosure.number}`);
    unreferenced.set(disclosure.digest, disclosure);
  }
  const walk = new Walk(unreferenced, limits);
  const members = new Map([...payload].filter(([name]) => name !== "_sd_alg"));
  const claims = walk.object(members, { place: [], where: "issuer-jwt", holder: null });
  for (const disclosure of disclosures) {
    if (unreferenced.has(disclosure.digest)) throw new Refused("disclosure.unreferenced", `disclosure/${disclosure.number}`);
  }
  return { algorithm, disclosures, claims, revealed: walk.revealed, hidden: walk.hidden };
}

// RFC 9901 7.1, steps 3 and 4: one walk, each digest looked up once.
class Walk {
  constructor(unreferenced, limits) {
    Object.assign(this, { unreferenced, limits, met: new Set(), revealed: [], hidden: [] });
  }

  value(value, spot) {
    if (isObject(value)) {
      if (value.has("_sd_alg")) throw new Refused("sd.reserved-name", spot.where, "`_sd_alg` belongs at the top level.");
      return this.object(value, spot);
    }
    return Array.isArray(value) ? this.array(value, spot) : value;
  }

  object(members, spot) {
    this.checkDepth(spot);
    if (members.has("...")) throw new Refused("sd.placeholder", spot.where);
    const digests = members.has("_sd") ? members.get("_sd") : [];
    if (!Array.isArray(digests) || !digests.every(isText)) throw new Refused("sd.digest-list", spot.where);
    const result = new Map();
    for (const [name, value] of members) {
      if (name !== "_sd") result.set(name, this.value(value, this.step(spot, name)));
    }
    for (const digest of digests) this.insert(digest, result, spot);
    return result;
  }

  insert(digest, result, spot) {
    const disclosure = this.lookUp(digest, spot, false);
    if (!disclosure) return;
    const where = `disclosure/${disclosure.number}`;
    const { name } = disclosure;
    if (name === null) throw new Refused("disclosure.kind", where, "An object's claim needs salt, name and value.");
    if (DATA.reserved_in_disclosures.includes(name)) throw new Refused("disclosure.name-reserved", where);
    if (result.has(name)) throw new Refused("disclosure.claim-exists", where);
    const place = [...spot.place, name];
    this.revealed.push({ place, disclosure, parent: spot.holder });
    result.set(name, this.value(disclosure.value, { place, where, holder: disclosure }));
  }

  array(elements, spot) {
    this.checkDepth(spot);
    const result = [];
    for (const [position, element] of elements.entries()) {
      const here = { ...this.step(spot, position), place: [...spot.place, result.length] };
      if (!isObject(element) || !element.has("...")) {
        result.push(this.value(element, here));
        continue;
      }
      const digest = element.get("...");
      if (element.size !== 1 || !isText(digest)) throw new Refused("sd.placeholder", here.where);
      const disclosure = this.lookUp(digest, here, true);
      if (!disclosure) continue;
      const where = `disclosure/${disclosure.number}`;
      if (disclosure.name !== null) throw new Refused("disclosure.kind", where, "An array element has a salt and a value only.");
      this.revealed.push({ place: here.place, disclosure, parent: spot.holder });
      result.push(this.value(disclosure.value, { place: here.place, where, holder: disclosure }));
    }
    return result;
  }

  step(spot, name) {
    return { place: [...spot.place, name], where: spot.holder ? spot.where : `${spot.where}/${name}`, holder: spot.holder };
  }

  lookUp(digest, spot, isElement) {
    if (this.met.has(digest)) throw new Refused("digest.repeated", spot.where);
    this.met.add(digest);
    if (this.met.size > this.limits.digests) throw new Refused("limit.digests", spot.where);
    const disclosure = this.unreferenced.get(digest);
    this.unreferenced.delete(digest);
    if (!disclosure) this.hidden.push({ digest, place: isElement ? spot.place.slice(0, -1) : spot.place });
    return disclosure;
  }

  checkDepth(spot) {
    if (spot.place.length >= this.limits.json_depth) throw new Refused("json.depth", spot.where);
  }
}
