"""Cases about a small transparency log with three witnesses."""

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from sdcard.encoding import JsonObject, JsonValue, decode_base64url
from sdcard.errors import Part, Where
from sdcard.jose.algorithms import SignatureAlgorithm
from sdcard.rules import Rule
from sdcard.transparency.notes import Checkpoint, KeyType, NoteKey, cosign_checkpoint, encode_base64, sign_checkpoint
from sdcard.transparency.proofs import LogProof, card_entry
from sdcard.transparency.tree import MerkleTree, leaf_hash, node_hash, prove_consistency, prove_inclusion, root_hash
from sdcard.transparency.watching import Submission
from vectors.actors import ISSUER, NOW, Actor, claims, header, jwt
from vectors.case import Case, no

ORIGIN = "registry.example/log"
LOG = Actor("log", SignatureAlgorithm.EDDSA)
WITNESSES = {f"w{number}.example": Actor(f"witness {number}", SignatureAlgorithm.EDDSA) for number in (1, 2, 3)}
LOG_KEY = NoteKey(ORIGIN, KeyType.ED25519, LOG.public_key)
WITNESS_KEYS = [NoteKey(name, KeyType.COSIGNATURE, actor.public_key) for name, actor in WITNESSES.items()]
POLICY = f"""# a log with three witnesses
log {LOG_KEY}
witness one {WITNESS_KEYS[0]}
witness two {WITNESS_KEYS[1]} https://w2.example/witness
witness three\t{WITNESS_KEYS[2]}

group two-of-three 2 one two three
quorum two-of-three
"""
TWINS = (6319, 69977)
"""Actors whose keys have the same key id under the name of the first witness."""
SALT = bytes(range(32))
CARD = jwt(claims(), header(), ISSUER)
STANDARD = "C2SP tlog-proof, tlog-checkpoint, tlog-cosignature, tlog-policy"


def checkpoint(tree: MerkleTree, *witnesses: str, at: int = NOW, origin: str = ORIGIN) -> Checkpoint:
    """A signed checkpoint of a tree, with cosignatures."""
    signed = sign_checkpoint(origin, len(tree), root_hash(tree, len(tree)), LOG)
    lines = [cosign_checkpoint(signed, name, WITNESSES[name], at) for name in witnesses]
    return replace(signed, signatures=(*signed.signatures, *lines))


def log_with(issuer_jwt: str, size: int = 9, index: int = 5) -> MerkleTree:
    """A log that has an SD-Card among other leaves."""
    leaves = [leaf_hash(number.to_bytes(32, "big")) for number in range(size)]
    leaves[index] = leaf_hash(card_entry(SALT, issuer_jwt))
    return MerkleTree(leaves)


def proof(issuer_jwt: str, *witnesses: str, index: int = 5, **changes: Any) -> LogProof:
    """A proof that an SD-Card is in that log."""
    tree = log_with(issuer_jwt, index=index)
    return LogProof(SALT, index, prove_inclusion(tree, index, len(tree)), str(checkpoint(tree, *witnesses, **changes)))


def proofs() -> Iterator[Case]:
    """Proofs that an SD-Card is in a log."""
    one, two, three = WITNESSES
    good = proof(CARD, one, three)
    text = str(good)

    def case(name: str, rule: Rule, where: str, about: str, document: object, policy: str = POLICY) -> Case:
        expectations: JsonObject = {"policy": policy, "issuer_jwt": CARD}
        return no(name, rule, where, about, STANDARD, document, kind="log-proof", expectations=expectations)

    def passes(name: str, about: str, document: object, *witnesses: str, policy: str = POLICY, index: int = 5) -> Case:
        result: JsonObject = {"origin": ORIGIN, "index": index, "size": 9, "witnesses": dict.fromkeys(witnesses, NOW)}
        return replace(case(name, Rule.LOG_PROOF, "", about, document, policy), expect=None, result=result)

    yield passes("proof", "two of three witnesses cosigned", text, "one", "three")
    last = proof(CARD, two, three, index=8)
    yield passes("proof-of-the-last-leaf", "the path is shorter than that of others", last, "three", "two", index=8)
    other = str(WITNESS_KEYS[0]).replace("w1", "w9")
    stranger = good.checkpoint + good.checkpoint.split("\n\n")[1].replace("w1.example", "w9.example")
    yield passes(
        "line-unknown", "lines of unknown keys are ignored", replace(good, checkpoint=stranger), "one", "three"
    )
    alone = f"log {LOG_KEY}\nquorum none\n"
    yield passes("quorum-none", "the policy asks for no witness", proof(CARD), policy=alone)
    too_few = (Rule.LOG_WITNESSES, "log/checkpoint")
    yield case("witness-alone", *too_few, "one of three witnesses cosigned", proof(CARD, one))
    again = cosign_checkpoint(checkpoint(log_with(CARD), one), one, WITNESSES[one], NOW + 1)
    yield case("witness-twice", *too_few, "one witness with two lines", f"{proof(CARD, one)}{again}")
    yield case("witness-from-the-future", *too_few, "cosigned in 61 s", proof(CARD, one, two, at=NOW + 61))
    yield from several_lines(passes)
    spoilt = str(good).replace("— w3.example ", "— w3.example A", 1)
    yield case("line-malformed", Rule.LOG_CHECKPOINT, "log/checkpoint", "a line is no base64", spoilt)
    read = checkpoint(log_with(CARD), one, two)
    forged = replace(read, signatures=(*read.signatures[:2], read.signatures[2]._replace(signature=bytes(72))))
    forged_text = replace(good, checkpoint=str(forged))
    yield case("cosignature", Rule.LOG_SIGNATURE, "log/checkpoint", "a cosignature is not valid", forged_text)
    unsigned = replace(good, checkpoint=str(replace(read, signatures=read.signatures[1:])))
    yield case("log-signature-missing", Rule.LOG_SIGNATURE, "log/checkpoint", "the log did not sign", unsigned)
    elsewhere = proof(CARD, one, two, origin="other.example/log")
    yield case("log-unknown", Rule.LOG_UNKNOWN, "log/checkpoint/origin", "a log that the policy lacks", elsewhere)
    excluded = (Rule.LOG_INCLUSION, "log/proof")
    yield case("card-other", *excluded, "a proof of another SD-Card", proof(CARD + "x.y", one, two))
    yield case("salt-other", *excluded, "another salt", replace(good, salt=bytes(32)))
    yield case("index-other", *excluded, "the index of another leaf", replace(good, index=4))
    yield case("path-short", *excluded, "a hash is missing", replace(good, path=good.path[:-1]))
    yield case("path-long", *excluded, "a hash too many", replace(good, path=(*good.path, bytes(32))))
    yield case("path-63-hashes", *excluded, "as many hashes as a tree can have", replace(good, path=(bytes(32),) * 63))
    longest = replace(good, path=(bytes(32),) * 64)
    yield case("path-64-hashes", Rule.LOG_PROOF, "log/proof", "more hashes than a tree can have", longest)
    beyond = replace(good, index=9)
    yield case("index-beyond", Rule.LOG_INCLUSION, "log/proof/index", "the tree has no such leaf", beyond)
    yield case("missing", Rule.LOG_PROOF_MISSING, "log/proof", "no proof", "")
    malformed = (Rule.LOG_PROOF, "log/proof")
    yield case("salt-missing", *malformed, "no salt", "\n".join(text.split("\n")[:1] + text.split("\n")[2:]))
    yield case("index-leading-zero", *malformed, "a number with a leading zero", text.replace("index 5", "index 05"))
    yield from paths()
    yield from policies(case, passes)
    yield case("policy-same-key", Rule.LOG_POLICY, "log/policy/6", "a witness's key twice", text,
               POLICY.replace("\n\n", f"\nwitness four {WITNESS_KEYS[0]}\n", 1))  # fmt: skip
    yield case("policy-key-id", Rule.LOG_POLICY, "log/policy/6", "a key with the id of another name", text,
               POLICY.replace("\n\n", f"\nwitness nine {other}\n", 1))  # fmt: skip


def several_lines(passes: Callable[..., Case]) -> Iterator[Case]:
    """Several valid lines of one witness: the latest not in the future counts."""
    one, two, _ = WITNESSES
    signed = checkpoint(log_with(CARD))
    times = {
        "a-later-line-is-of-the-future": (-10, 61, 1_000),
        "an-earlier-line-is-of-the-future": (1_000, -10),
        "a-later-line-is-older": (-10, -1_000),
    }
    for name, ages in times.items():
        lines = [cosign_checkpoint(signed, one, WITNESSES[one], NOW + age) for age in ages]
        lines.insert(1, cosign_checkpoint(signed, two, WITNESSES[two], NOW))
        text = replace(proof(CARD), checkpoint=f"{signed}{''.join(map(str, lines))}")
        made = passes(name, "the latest line that is not in the future counts", text, "one", "two")
        result: JsonObject = {"origin": ORIGIN, "index": 5, "size": 9, "witnesses": {"one": NOW - 10, "two": NOW}}
        yield replace(made, result=result)


def paths() -> Iterator[Case]:
    """Paths of a wrong length to a root that no tree of that size has."""
    leaf, other = leaf_hash(card_entry(SALT, CARD)), bytes(32)
    one, two, _ = WITNESSES
    lies = {
        "path-longer-than-the-tree": (1, node_hash(other, leaf), (other,)),
        "path-shorter-than-the-tree": (2, leaf, ()),
    }
    for name, (size, root, path) in lies.items():
        signed = sign_checkpoint(ORIGIN, size, root, LOG)
        lines = [cosign_checkpoint(signed, witness, WITNESSES[witness], NOW) for witness in (one, two)]
        document = LogProof(SALT, 0, path, f"{signed}{''.join(map(str, lines))}")
        about, given = "the log signed a root that fits the path, not the size", {"policy": POLICY, "issuer_jwt": CARD}
        yield no(name, Rule.LOG_INCLUSION, "log/proof", about, STANDARD, document, kind="log-proof", expectations=given)


def typed_key(name: str, kind: int, actor: Actor) -> str:
    """A key of a log or witness, of any name and type."""
    typed = bytes([kind]) + decode_base64url(str(actor.jwk["x"]), Where(Part.LOG))
    key_id = hashlib.sha256(name.encode() + b"\n" + typed).digest()[:4]
    return f"{name}+{key_id.hex()}+{encode_base64(typed)}"


def policies(case: Callable[..., Case], passes: Callable[..., Case]) -> Iterator[Case]:
    """Policies beside a good proof, each refused for one reason or just accepted."""
    one, _, three = WITNESSES
    text = str(proof(CARD, one, three))
    new = Actor("witness 4", SignatureAlgorithm.EDDSA)

    def bad(name: str, line: int, about: str, policy: str) -> Case:
        where = f"log/policy/{line}" if line else "log/policy"
        return case(f"policy-{name}", Rule.LOG_POLICY, where, about, text, policy)

    def fourth(key: str) -> str:
        return POLICY.replace("\n\n", f"\nwitness four {key}\n", 1)

    def grouped(lines: str) -> str:
        return POLICY.partition("group")[0] + lines

    quorum, group = "quorum two-of-three\n", "group two-of-three 2 one two three\n"
    nested = grouped("group some any one two\ngroup both all some three\nquorum both\n")
    yield passes("policy-nested", "a group in a group", text, "one", "three", policy=nested)
    second = POLICY.replace("\n\n", f"\nwitness one {typed_key(one, 4, new)}\n\n", 1)
    yield passes("policy-two-keys", "two keys of one witness", text, "one", "three", policy=second)
    chain = "".join(f"group g{n} 1 g{n - 1}\n" for n in range(2, 65))
    most = grouped(f"group g1 1 one\n{chain}quorum g64\n")
    yield passes("policy-64-groups", "as many groups as are supported", text, "one", "three", policy=most)
    more = most.replace("quorum g64", "group g65 1 g64\nquorum g65")
    yield bad("65-groups", 71, "a group too many", more)
    yield bad("unfinished", 0, "the last line does not end", POLICY[:-1])
    yield bad("control-character", 1, "a control character in a comment", POLICY.replace("# a", "# \x01a", 1))
    yield bad("two-names", 6, "a second name for one witness", fourth(typed_key(one, 4, new)))
    yield bad(
        "other-id",
        6,
        "a new key with the id of another name",
        fourth(typed_key("w8.example", 4, new).replace("8", "9", 1)),
    )
    twins = [typed_key(one, 4, Actor(f"twin {number}", SignatureAlgorithm.EDDSA)) for number in TWINS]
    both = POLICY.replace("\n\n", f"\nwitness one {twins[0]}\nwitness one {twins[1]}\n\n", 1)
    yield bad("same-key-id", 7, "two keys of one witness with one key id", both)
    yield bad("nameless", 6, "a key without a name", fourth(typed_key("", 4, new)))
    yield bad("type-unknown", 6, "a key of type 0x02", fourth(typed_key("w4.example", 2, new)))
    yield bad("type-log", 6, "a log's key for a witness", fourth(typed_key("w4.example", 1, new)))
    yield bad("key-base64", 6, "a key that is no base64", fourth("w4.example+00000000+AA"))
    yield bad("threshold-zero", 7, "a threshold of 0", POLICY.replace(group, group.replace("2", "0", 1)))
    yield bad("threshold-high", 7, "a threshold of 4 for 3 members", POLICY.replace(group, group.replace("2", "4", 1)))
    yield bad("member-twice", 7, "a member twice", POLICY.replace(" two three", " two two"))
    yield bad("member-unknown", 7, "a member that is not defined", POLICY.replace(" two three", " two five"))
    yield bad("member-of-two", 8, "a member of two groups", POLICY.replace(quorum, f"group again 1 one\n{quorum}"))
    yield bad("quorum-missing", 0, "no quorum", POLICY.replace(quorum, ""))
    yield bad("quorum-twice", 0, "two quorums", POLICY + quorum)
    yield bad("quorum-unknown", 8, "a quorum that is not defined", POLICY.replace(quorum, "quorum nobody\n"))


def submissions() -> Iterator[Case]:
    """Submissions to a witness that has cosigned an older checkpoint."""
    trees = [MerkleTree(leaf_hash(bytes([number])) for number in range(size)) for size in range(9)]
    forked = MerkleTree([leaf_hash(b"x"), *(leaf_hash(bytes([number])) for number in range(1, 8))])
    one, two, _ = WITNESSES

    def case(
        name: str,
        about: str,
        seen: MerkleTree | None,
        new: MerkleTree,
        rule: Rule = Rule.LOG_CONSISTENCY,
        where: str = "log/proof",
        old: int | None = None,
        path: tuple[bytes, ...] = (),
        **changes: Any,
    ) -> Case:
        expectations: JsonObject = {"policy": POLICY}
        if seen is not None:
            expectations["older"] = str(checkpoint(seen, one, two))
        sent = len(seen or ()) if old is None else old
        document = str(Submission(sent, path, checkpoint(new, **changes)))
        return no(name, rule, where, about, "C2SP tlog-witness, RFC 9162 2.1.4.2", document,
                  kind="log-submission", expectations=expectations)  # fmt: skip

    def passes(name: str, about: str, seen: int, new: int, result: JsonValue = None, **sent: Any) -> Case:
        path = prove_consistency(trees[new], sent.get("old", seen), new) if result is None else ()
        made = case(name, about, trees[seen] if seen else None, trees[new], path=path, **sent)
        return replace(made, expect=None, result=result)

    yield passes("appended", "leaves were appended", 3, 8)
    yield passes("appended-to-a-full-tree", "a tree of four leaves grew", 4, 7)
    yield passes("unchanged", "nothing was appended", 5, 5)
    yield passes("first", "the first checkpoint", 0, 6)
    yield passes("empty", "an empty tree", 0, 0)
    yield passes("from-another-size", "the witness has seen more", 6, 8, result=6, old=3)
    yield passes("from-nothing", "the witness has seen something", 6, 8, result=6, old=0)
    path = prove_consistency(trees[8], 3, 8)
    signed = (Rule.LOG_SIGNATURE, "log/checkpoint")
    yield case("forked", "the first leaf was replaced", trees[3], forked, path=prove_consistency(forked, 3, 8))
    yield case("split-view", "two trees of one size", trees[8], forked, Rule.LOG_SPLIT_VIEW, "log/checkpoint")
    yield case("smaller", "the tree is smaller than the old one", trees[8], trees[3], Rule.LOG_SUBMISSION,
               "log/submission/old")  # fmt: skip
    yield case("path-missing", "no proof", trees[3], trees[8])
    yield case("proof-long", "a hash too many", trees[3], trees[8], path=(*path, bytes(32)))
    yield case("proof-short", "a hash is missing", trees[3], trees[8], path=path[:-1])
    yield case("proof-from-nothing", "a proof from the empty tree", None, trees[8], path=path)
    yield case("origin-unknown", "a log that the policy lacks", None, trees[3], Rule.LOG_UNKNOWN,
               "log/checkpoint/origin", origin="other.example/log")  # fmt: skip
    good = case("unsigned", "the log did not sign", None, trees[3], *signed)
    yield replace(good, document=good.document.replace(f"— {ORIGIN}", "— other.example"))
    forged = checkpoint(trees[3]).signatures[0]._replace(signature=bytes(64))
    yield replace(good, name="forged", about="the log's line is not valid", document=f"{good.document}{forged}")
    body = (Rule.LOG_SUBMISSION, "log/submission")
    bad = case("old-missing", "no old size", None, trees[3], *body)
    yield replace(bad, document=bad.document.partition("\n")[2])
    zero = bad.document.replace("old 0", "old 00")
    yield replace(bad, name="old-leading-zero", about="a leading zero", document=zero)
    yield replace(bad, name="hash-short", about="a short hash", document=bad.document.replace("\n", "\nAAAA\n", 1))
    yield case("hashes-many", "64 hashes", trees[3], trees[8], *body, path=(bytes(32),) * 64)
    ended = replace(good, expect=Rule.LOG_CHECKPOINT, name="checkpoint-cut", about="no line feed at the end")
    yield replace(ended, document=good.document[:-1])
