// What tests call: the same checks that the page draws, as plain values.
const plain = (found) => ({
  signatures: found.signatures?.map((one) => one.rule) ?? [],
  refusal: found.report.refusal && `${found.report.refusal.rule} at ${found.report.refusal.where}`,
  rows: found.report.rows(),
  log: found.log?.isOfCard ? { origin: found.log.checkpoint.origin, index: Number(found.log.proof.index), size: Number(found.log.checkpoint.size), witnesses: Object.fromEntries(found.log.counted ?? []) } : null,
  hidden: found.processed?.hidden.length ?? null,
  claims: found.processed ? sortedText(found.processed.claims) : null,
});
const explainRows = (part) => [[placeText(part.place), ...part.treatments], ...part.parts.flatMap(explainRows)];

function explainPlain(cardText, policyText, profile, partner) {
  try {
    const document = readCardDocument(cardText, DATA.limits);
    const { policy, findings } = policyText ? parsePolicy(policyText) : { policy: defaultPolicy(), findings: [] };
    if (!policy) return findings.map((one) => `${one.rule} at ${one.where}`);
    const shown = explain(document, detectFormat(document), policy, profile, partner);
    return { format: shown.format.split("/")[0] === "agentcard" ? "agentcard" : shown.format, contexts: shown.contexts, parts: shown.parts.flatMap(explainRows) };
  } catch (problem) {
    if (problem instanceof Refused) return `${problem.rule} at ${problem.where}`;
    throw problem;
  }
}

function policyPlain(text) {
  try {
    return [...new Set(parsePolicy(text).findings.map((one) => `${one.rule} at ${one.where}`))].sort();
  } catch (problem) {
    if (problem instanceof Refused) return [`${problem.rule} at ${problem.where}`];
    if (problem instanceof NotChecked) return ["not read here"];
    throw problem;
  }
}

window.inspector = Object.freeze({
  sdJwt: async (text, options) => plain(await inspectSdJwt(text, options)),
  explain: explainPlain,
  policy: policyPlain,
  kbJwt: async (text, options) => plain(await inspectKbJwt(text, options)),
  card: async (text, options) => plain(await inspectCard(text, options)),
  key: async (text) => {
    try {
      return (await readPublicJwk(parseJsonObject(utf8(text), "trust", 64), "trust")).thumbprint;
    } catch (problem) {
      if (problem instanceof Refused) return `${problem.rule} at ${problem.where}`;
      throw problem;
    }
  },
  advice: (text) => adviceFor(text)?.sentence ?? null,
  links: async (one, other) => compareSdJwts(one, other),
  lenient: (text) => [lenientToken(text), lenientDocument(text)],
  jsonHint: (text) => {
    try {
      parseJson(utf8(text), "", DATA.limits.json_depth);
      return "";
    } catch (problem) {
      return problem.hint;
    }
  },
  json: (bytes) => {
    try {
      parseJson(Uint8Array.from(bytes), "", DATA.limits.json_depth);
      return "kept";
    } catch (problem) {
      if (problem instanceof Refused) return problem.rule;
      throw problem;
    }
  },
  statusList: async (text, options) => plain(await inspectStatusList(text, options)),
});
