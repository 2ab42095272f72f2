// Agent card documents: names that no card may use, and the signatures of A2A cards, as sdcard/cards/a2a/signatures/. The
// format is detected in packages/verifier/src/formats.js. The shapes of members are not checked here.

const CARD_FAMILIES = ["encoding", "json", "limit", "yaml", "card", "agentcard", "key", "trust"];

function readCardDocument(text, limits) {
  if (!text.isWellFormed()) throw new Refused("encoding.utf8", "card");
  const data = utf8(text);
  if (data.length > limits.card_bytes) throw new Refused("limit.bytes", "card", `A card has at most ${limits.card_bytes} bytes.`);
  if (/^[ \t\r\n]*"(?:[^"\\]|\\[^])*"[ \t\r\n]*$/.test(text)) {
    const inner = parseJson(data, "card", limits.json_depth);
    if (isText(inner) && /^[ \t\r\n]*\{/.test(inner)) {
      const document = parseJsonObject(utf8(inner), "card", limits.json_depth);
      if (!isAgentCard(document)) throw new Refused("json.malformed", "card", "A JSON object is expected; only an AgentCard may be in a string.");
      return document;
    }
  }
  return parseJsonObject(data, "card", limits.json_depth);
}

// Places of members whose names would land on claims with another meaning.
function reservedMembers(document) {
  const found = [...document.keys()].filter((name) => DATA.reserved_at_top.includes(name)).map((name) => [name]);
  const look = (value, place) => {
    if (isObject(value)) {
      for (const name of value.keys()) if (DATA.reserved_anywhere.includes(name)) found.push([...place, name]);
      for (const [name, inner] of value) look(inner, [...place, name]);
    } else if (Array.isArray(value)) {
      value.forEach((inner, i) => look(inner, [...place, i]));
    }
  };
  look(document, []);
  return found;
}

function hasMoreValues(value, most) {
  const waiting = [value];
  for (const one of waiting) {
    for (const inner of isObject(one) ? one.values() : Array.isArray(one) ? one : []) waiting.push(inner);
    if (waiting.length > most) return true;
  }
  return false;
}

async function inspectCard(text, given) {
  const options = optionsOf(given);
  const report = new Report(CARD_FAMILIES);
  const found = { kind: "card", report, options, signatures: [] };
  found.document = await report.step("Form", "The document is strict JSON", ["limit.bytes", ...ENCODING.slice(1), ...JSON_RULES], () => readCardDocument(text, options.limits));
  const unread = found.document ? "" : STOPPED;
  found.format = await report.step("Form", "It is of a known format", ["card.format"], () => {
    const name = detectFormat(found.document);
    if (!name) throw new Refused("card.format", "card", "This looks like no agent card that SD-Card knows.");
    return name;
  }, unread);
  await report.step("Form", "It has not too many values", ["limit.containers"], () => {
    if (hasMoreValues(found.document, DATA.most_card_values)) throw new Refused("limit.containers", "card");
  }, unread || (found.format ? "" : STOPPED));
  await report.step("Members", "No name belongs to a claim of SD-JWTs", ["card.reserved-member"], () => {
    const [first] = reservedMembers(found.document);
    if (first) throw new Refused("card.reserved-member", ["card", ...first].join("/"), "Rename this member.");
  }, unread || (found.format ? "" : STOPPED));
  await checkCardSignatures(options, report, found, unread || (found.format ? "" : STOPPED));
  return found;
}

// -- signatures -------------------------------------------------------------------------------------------------------

async function checkCardSignatures(options, report, found, whyNot) {
  const group = "Card signatures";
  const signatures = found.document?.get("signatures");
  const forms = DATA.forms[found.format] ?? [];
  const none = whyNot || (forms.length === 0 ? "This format has no signatures." : Array.isArray(signatures) ? "" : "The card has no signatures.");
  const signers = await report.step("Your keys", "The keys you chose", ["trust.malformed", "key.published", ...KEY_RULES], () => cardSigners(options),
    none || (options.keys ? "" : "Paste the signer's keys, as keys you trust."));
  const noKeys = none || (signers ? "" : whyNone(report));
  await report.step(group, "There are not too many", ["card.member-value"], () => {
    if (signatures.length > DATA.most_signatures) throw new Refused("card.member-value", "card/signatures");
  }, none);
  const tooMany = report.steps.at(-1).state === "refused" ? STOPPED : "";
  await report.step(group, "A trusted key signed it, and no trusted key's signature is wrong", ["card.signature-invalid", "card.signature-untrusted", "card.signature-verified"], async () => {
    const verifier = new SignatureVerifier(found.document, forms, signers);
    for (const [number, one] of signatures.entries()) {
      if (isObject(one)) found.signatures.push({ number, ...(await verifier.outcome(one)) });
    }
    found.unsigned = unsignedMembers(found.signatures.filter((one) => one.canonical).map((one) => one.canonical));
    const invalid = found.signatures.find((one) => one.rule === "card.signature-invalid");
    if (invalid) throw new Refused(invalid.rule, `card/signatures/${invalid.number}/${invalid.place}`, invalid.hint);
    if (!found.signatures.some((one) => one.canonical)) throw new NotChecked("No trusted key can verify a signature of the card.");
  }, noKeys || tooMany);
}

async function cardSigners(options) {
  const trust = await parseTrust(options.keys, options.limits.json_depth, (key, where) => checkNotPublished(key, options.published, where));
  if (trust.named) throw new NotChecked("A trust document names Issuers: paste the signer's JWK, as a key you trust.");
  return trust.keys;
}

const untrusted = (hint) => ({ rule: "card.signature-untrusted", hint });
const invalid = (place, hint) => ({ rule: "card.signature-invalid", place, hint });

class SignatureVerifier {
  constructor(document, forms, signers) {
    Object.assign(this, { document, forms, signers, canonical: null });
  }

  async outcome(signature) {
    const text = signature.get("protected");
    const header = isText(text) ? tryOr(() => parseJsonObject(decodeBase64url(text, "card"), "card", 8), null) : null;
    if (!header) return untrusted("The protected header cannot be read, so the signature names no key.");
    const kid = header.get("kid");
    if (!isText(kid)) return untrusted("The protected header has no `kid`, so the signature names no key.");
    const key = findKey(this.signers, kid, header.get("alg"));
    if (!key) return untrusted("Its key is not among those you gave.");
    return this.fault(header, signature.get("header"), key) ?? this.verify(text, signature.get("signature"), key);
  }

  fault(header, unprotected, key) {
    if (header.has("crit") || header.has("b64")) return invalid("protected", "No extension may be critical, and the payload is always encoded.");
    if ((header.has("typ") ? header.get("typ") : "JOSE") !== "JOSE") return invalid("protected", "`typ` is JOSE or absent.");
    if (!headerNames(key.algorithm).includes(header.get("alg"))) return invalid("protected", `The trusted key signs with ${key.algorithm} and nothing else.`);
    const loose = isObject(unprotected) ? [...unprotected.keys()] : [];
    if (loose.some((name) => header.has(name) || name === "crit" || name === "b64")) return invalid("header", "Nobody signed the unprotected header; it cannot say these things.");
    return null;
  }

  async verify(text, encoded, key) {
    const signature = isText(encoded) ? tryOr(() => decodeBase64url(encoded, "card"), null) : null;
    if (!signature) return invalid("signature", "This is no base64url without padding.");
    this.canonical ??= this.forms.map((form) => canonicalForm(this.document, form)).filter(Boolean);
    for (const canonical of this.canonical) {
      if (await key.verifies(utf8(`${text}.${encodeBase64url(utf8(canonical.payload))}`), signature)) return { rule: "card.signature-verified", canonical, hint: `Verified with the key ${key.thumbprint}, over ${canonical.form.name}.` };
    }
    return invalid("signature", "It is not this card's, or it was changed.");
  }
}

class Uncanonical extends Error {}

function canonicalForm(document, form) {
  const card = new Map([...document].filter(([name]) => name !== "signatures"));
  const reading = new CardReading(form.drops_empty);
  const carried = form.message === null ? card : reading.message(card, DATA.messages[form.message], ["card"]);
  try {
    return { form, payload: ENCODERS[form.encoder](carried), unsigned: reading.unsigned };
  } catch (problem) {
    if (problem instanceof Uncanonical) return null;
    throw problem;
  }
}

// RFC 8785: names in the order of their UTF-16 units, numbers as ECMAScript writes doubles.
function canonicalJson(value) {
  if (isObject(value)) return `{${[...value.keys()].sort().map((name) => `${jcsText(name)}:${canonicalJson(value.get(name))}`).join(",")}}`;
  if (Array.isArray(value)) return `[${value.map(canonicalJson).join(",")}]`;
  if (isNumber(value)) return jcsNumber(value);
  return isText(value) ? jcsText(value) : JSON.stringify(value);
}

function jcsText(text) {
  if (!text.isWellFormed()) throw new Uncanonical();
  return JSON.stringify(text);
}

function jcsNumber(value) {
  const text = String(Number(numberOf(value)));
  if (typeof value === "bigint" && text !== String(value)) throw new Uncanonical();
  return text === "-0" ? "0" : text;
}

// What Python's json writes: other characters escaped, floats as Python shows them.
function asciiJson(value, asFloats) {
  if (isObject(value)) return `{${[...value.keys()].sort(codePointOrder).map((name) => `${asciiText(name)}:${asciiJson(value.get(name), asFloats)}`).join(",")}}`;
  if (Array.isArray(value)) return `[${value.map((one) => asciiJson(one, asFloats)).join(",")}]`;
  if (value instanceof Real) return pythonFloat(value.value);
  if (isInteger(value)) {
    if (asFloats) jcsNumber(value);
    return asFloats ? pythonFloat(Number(value)) : String(value);
  }
  return isText(value) ? asciiText(value) : JSON.stringify(value);
}

const asciiText = (text) => JSON.stringify(text).replace(/[\x7f-\uffff]/g, (c) => (c === "\x7f" ? c : `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`));

function pythonFloat(value) {
  if (Object.is(value, -0)) return "-0.0";
  const [, sign, whole, fraction = "", exponent] = /^(-?)([0-9]+)(?:\.([0-9]+))?(?:e([-+]?[0-9]+))?$/.exec(value.toExponential());
  const power = Number(exponent);
  const digits = whole + fraction;
  if (power < -4 || power >= 16) {
    return `${sign}${whole}${fraction ? `.${fraction}` : ""}e${power < 0 ? "-" : "+"}${String(Math.abs(power)).padStart(2, "0")}`;
  }
  if (power < 0) return `${sign}0.${"0".repeat(-power - 1)}${digits}`;
  const padded = digits.padEnd(power + 1, "0");
  return `${sign}${padded.slice(0, power + 1)}.${padded.slice(power + 1) || "0"}`;
}

const ENCODERS = {
  canonical_json: canonicalJson,
  _ascii_json: (value) => asciiJson(value, false),
  _ascii_json_of_floats: (value) => asciiJson(value, true),
};

const jsonOf = (plain) => new JsonReader(JSON.stringify(plain), "").read();
const EMPTY = [null, "", [], new Map()];

// One way through a card that remembers what it did not take along: places that are not signed.
class CardReading {
  constructor(dropsEmpty) {
    Object.assign(this, { dropsEmpty, unsigned: [] });
  }

  message(value, message, where) {
    if (!isObject(value)) return value;
    const carried = new Map();
    const known = new Set();
    const kind = value.get("type");
    const variant = isText(kind) && Object.hasOwn(message.variants, kind) ? message.variants[kind] : {};
    for (const [name, one] of Object.entries({ ...message.members, ...variant })) {
      known.add(name).add(snakeCase(name));
      const [spelling, content] = findMember(value, name) ?? [name, null];
      if (content === null || sameJson(content, jsonOf(one.default))) continue;
      for (const kept of this.kept(content, [...where, spelling], this.field(one))) carried.set(name, kept);
    }
    for (const name of value.keys()) if (!known.has(name)) this.unsigned.push([...where, name]);
    return carried;
  }

  field(one) {
    if (one.message === null) return (value, where) => this.any(value, where);
    const message = DATA.messages[one.message];
    const each = (value, where) => this.message(value, message, where);
    return one.repeated ? (value, where) => this.each(value, where, each) : each;
  }

  any(value, where) {
    return this.dropsEmpty ? this.each(value, where, (inner, place) => this.any(inner, place)) : value;
  }

  each(value, where, step) {
    if (isObject(value)) {
      return new Map([...value].flatMap(([name, inner]) => this.kept(inner, [...where, name], step).map((kept) => [name, kept])));
    }
    return Array.isArray(value) ? value.flatMap((inner, i) => this.kept(inner, [...where, i], step)) : value;
  }

  kept(value, where, step) {
    const before = this.unsigned.length;
    const made = step(value, where);
    if (!this.dropsEmpty || !EMPTY.some((empty) => sameJson(made, empty))) return [made];
    this.unsigned.splice(before, Infinity, where);
    return [];
  }
}

// The places that are in none of the forms that were signed.
function unsignedMembers(signed) {
  const texts = signed.map((canonical) => new Set(canonical.unsigned.map((place) => JSON.stringify(place))));
  const all = new Map(signed.flatMap((canonical) => canonical.unsigned.map((place) => [JSON.stringify(place), place])));
  const inside = (place, set) => place.some((_, end) => set.has(JSON.stringify(place.slice(0, end + 1))));
  return [...all.values()].filter((place) => texts.every((set) => inside(place, set)));
}
