// A proof that a transparency log has the SD-Card. The checks are those of packages/verifier/src/log-proofs.js.

const NO_LOG = "No proof and no policy of logs were given.";
const NO_ED25519 = "This browser has no Ed25519, so nothing that a log or a witness signed is checked.";

// The same steps as `sdcard verify --explain`. Without a policy, the path from the SD-Card to the root is still checked.
async function checkLog(options, report, found) {
  const { logPolicy, now } = options;
  const log = (found.log = {});
  const step = (title, rules, work, why = "") => report.step("Transparency log", title, rules, work, why);
  const notAsked = found.kb?.payload.has("log_proof") ? "The presentation has a proof of a log: paste a policy of logs." : NO_LOG;
  const nothing = logPolicy || options.logProof ? "" : notAsked;
  const noPolicy = nothing || (logPolicy ? "" : "Paste a policy of logs and witnesses.");
  log.policy = await step("Your policy reads", ["limit.bytes", "log.policy-malformed"], () => readLogPolicy(logPolicy), noPolicy);
  const noKeys = noPolicy || (log.policy ? "" : whyNone(report));
  log.proof = await step("There is a proof", ["log.proof-missing", "claim.type", "limit.bytes", "log.proof-malformed"], () => {
    const attached = found.kb ? attachedProof(found.kb.payload) : undefined;
    const proof = options.logProof || attached;
    if (proof === undefined) throw new Refused("log.proof-missing", "log/proof");
    return parseLogProof(proof);
  }, nothing);
  const unread = nothing || (log.proof ? "" : STOPPED);
  log.checkpoint = await step("Its checkpoint reads", ["log.checkpoint-malformed"], () => parseCheckpoint(log.proof.checkpoint), unread);
  const none = unread || (log.checkpoint ? "" : STOPPED);
  log.lines = none || noKeys ? null : await log.policy.judge(log.checkpoint, now);
  await step("The log that you trust signed it", ["log.unknown", "log.signature"], () => log.policy.checkLog(log.checkpoint, log.lines), none || noKeys);
  log.counted = await step("Enough witnesses cosigned it", ["log.signature", "log.witnesses"], () => log.policy.checkWitnesses(log.lines), none || noKeys);
  const noCard = none || (found.arrived ? "" : "Paste the whole presentation.");
  log.isOfCard = await step("It has this SD-Card", ["log.inclusion"], async () => {
    const { salt, index, path } = log.proof;
    log.root = await rootOf(await cardLeaf(salt, found.arrived.issuerJwt), index, log.checkpoint.size, path);
    checkRoot(log.root, log.checkpoint);
    return true;
  }, noCard);
}

async function readLogPolicy(text) {
  try {
    return await parseLogPolicy(text);
  } catch (problem) {
    throw problem instanceof Refused && problem.rule === "key.unsupported" ? new NotChecked(NO_ED25519) : problem;
  }
}

// -- what a person sees -----------------------------------------------------------------------------------------------

const base64 = (bytes) => btoa(String.fromCharCode(...bytes));
const LINE_MARKS = { valid: "passed", invalid: "refused", "from the future": "unchecked", unknown: "unchecked" };

function logFacts(found) {
  const { proof, checkpoint, policy, lines, root, isOfCard } = found.log;
  const { now } = found.options;
  const counted = lines ? policy.counted(lines) : [];
  const newest = Math.max(...counted.map(([, at]) => at));
  return el("div", {},
    el("dl", { class: "facts" },
      fact("Of this SD-Card", isOfCard ? "yes: the path from its leaf leads to the root" : root ? "no: the path leads to another root" : "no path that can be followed"),
      fact("Log", safe(checkpoint.origin)),
      fact("Leaf", `${proof.index} of ${checkpoint.size}, hashes of the path: ${proof.path.length}`),
      fact("Root of the checkpoint", code(base64(checkpoint.root))),
      root ? fact("Root of the path", code(base64(root))) : "",
      fact("Quorum", quorumText(policy, counted)),
      counted.length > 0 ? fact("Last cosigned", when(newest), el("span", { class: "aside" }, relative(newest, now))) : ""),
    el("h3", {}, "Signature lines of the checkpoint"),
    el("ul", { class: "outcomes" }, (lines ?? checkpoint.lines).map((line) => lineRow(line, now))));
}

function quorumText(policy, counted) {
  if (!policy) return "not checked here";
  if (policy.quorum === null) return "the policy asks for no witness";
  const { threshold = 1, members = [policy.quorum] } = policy.groups.get(policy.quorum) ?? {};
  const names = counted.map(([name]) => name);
  const met = policy.isFulfilled(names) ? "met" : "not met";
  return el("span", {}, `${met}: ${members.filter((one) => policy.isFulfilled(names, one)).length} of `, safe(members.join(", ")), `; ${threshold} needed`);
}

function lineRow({ name, witness, state, at }, now) {
  const who = witness === undefined || state === "unknown" ? "" : witness === null ? "the log" : `witness ${witness}`;
  const said = state === undefined ? "not checked here" : state === "unknown" ? "a key that the policy does not have" : state;
  const time = state === "valid" && at !== null ? [", ", when(Number(at)), ` (${relative(Number(at), now)})`] : [];
  return el("li", {}, mark(LINE_MARKS[state] ?? "unchecked"), el("span", {}, code(name), who ? [" ", safe(who)] : "", `: ${said}`, ...time));
}
