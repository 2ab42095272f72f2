"""Mutated documents in Python and in Node: ``python -m tests.runtimes.differential COUNT [SEED [TOPIC]]``.

A document of a vector is changed as a text, or within a signed part that is signed again, and both languages give their
outcome. Rules and places must be equal. Prints each difference, and the number of texts for each outcome.
"""

import base64
import json
import random
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from pages.javascript import our_vectors
from sdcard.encoding import decode_base64url, encode_base64url
from sdcard.errors import Misuse, Part, Refused, Where
from sdcard.sdjwt.model import DigestAlgorithm
from sdcard.vectors import _run
from tests.runtimes.changed_der import changed_der, read
from tests.runtimes.runtimes import PACKAGE, program
from vectors.actors import CARD_SIGNER, HOLDER, ISSUER, Actor
from vectors.certificates import MIDDLE, ROOT
from vectors.crafted import OF_EC, sign, tlv

CHUNK = 200
TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|-?[0-9][0-9.eE+-]*|true|false|null|[\[\]{},:]')
CHARACTERS = 'AZaz09-_~.=+/ ,"\\{}[]:\t\n\0é\u2028\U0001f600'
VALUES = (
    *("null", "true", "false", "0", "1", "-1", "-0", "1.0", "1e3", "1E400", "0.1", "1800000000.5", "9007199254740993"),
    *('""', '"a"', '"__proto__"', '"..."', '"_sd"', '"_sd_alg"', '"\\ud800"', '"\\u0000"', '"sha-256"', '"sha-512"'),
    *("[]", "{}", "[[]]", '{"_sd":[]}', '{"...":"x"}', '{"_sd_alg":"sha-256"}', '["a","a"]', "NaN", "253402300800"),
    *('"iss"', '"crit"', '"b64"', '"kid"', '"typ"', '"cnf"', '"jwk"', '"aud"', '"nbf"', '"exp"', '"status"', '"x5c"'),
)  # fmt: skip


def mutated(chance: random.Random, text: str) -> str:
    """A text with one to three characters or runs changed."""
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        at, kind = chance.randrange(len(text) + 1), chance.randrange(6)
        other = chance.choice(CHARACTERS)
        if kind == 0:
            text = text[:at] + other + text[at + 1 :]
        elif kind == 1:
            text = text[:at] + other + text[at:]
        elif kind == 2:
            text = text[:at] + text[at + 1 :]
        elif kind == 3:
            text = text[:at]
        else:
            end = min(len(text), at + chance.randrange(1, 40))
            text = text[:at] + text[at:end] * (2 if kind == 4 else 0) + text[end:]
    return text


def mutated_json(chance: random.Random, text: str) -> str:
    """A JSON text with a token replaced, repeated, exchanged or left out."""
    found = list(TOKEN.finditer(text))
    if not found or chance.random() < 0.1:
        return mutated(chance, text)
    for one in sorted(chance.sample(found, min(len(found), chance.choice((1, 1, 1, 2)))), key=lambda it: -it.start()):
        other = chance.choice((chance.choice(VALUES), chance.choice(found)[0], "", one[0] * 2, f"{one[0]},{one[0]}"))
        text = text[: one.start()] + other + text[one.end() :]
    return text


def changed_part(chance: random.Random, jws: str, signer: Actor) -> str:
    """A JWS with a changed header or payload, signed again."""
    parts = jws.split(".")
    number = chance.choice((0, 1, 1, 1))
    text = decode_base64url(parts[number], Where(Part.PRESENTATION)).decode("utf-8", "surrogateescape")
    parts[number] = encode_base64url(mutated_json(chance, text).encode("utf-8", "surrogateescape"))
    signing_input = ".".join(parts[:2])
    return f"{signing_input}.{encode_base64url(signer.sign(signing_input.encode()))}"


def changed_presentation(chance: random.Random, text: str) -> str:
    """A presentation with a changed JWT or Disclosure, in which everything else fits again."""
    jwt, *shown, kb = text.split("~")
    kind = chance.randrange(4)
    if shown and kind == 0:
        number = chance.randrange(len(shown))
        before = shown[number]
        inner = decode_base64url(before, Where(Part.PRESENTATION)).decode()
        shown[number] = encode_base64url(mutated_json(chance, inner).encode())
        header, payload, _ = jwt.split(".")
        old, new = (DigestAlgorithm.SHA_256.digest(one) for one in (before, shown[number]))
        body = decode_base64url(payload, Where(Part.PRESENTATION)).decode().replace(old, new)
        jwt = f"{header}.{encode_base64url(body.encode())}"
        jwt += f".{encode_base64url(ISSUER.sign(jwt.encode()))}"
    elif kb and kind == 1:
        return f"{'~'.join((jwt, *shown))}~{changed_part(chance, kb, HOLDER)}"
    else:
        jwt = changed_part(chance, jwt, ISSUER)
    if kb and chance.random() < 0.8:
        header, payload, _ = kb.split(".")
        claims = json.loads(decode_base64url(payload, Where(Part.KB_JWT)))
        claims["sd_hash"] = DigestAlgorithm.SHA_256.digest("~".join((jwt, *shown)) + "~")
        kb = f"{header}.{encode_base64url(json.dumps(claims).encode())}"
        kb += f".{encode_base64url(HOLDER.sign(kb.encode()))}"
    return "~".join((jwt, *shown, kb))


def changed_certificate(chance: random.Random, text: str) -> str:
    """A card with a changed certificate of its chain, which its authority has signed again in most cases."""
    jwt, *rest = text.split("~")
    head, payload, _ = jwt.split(".")
    header = json.loads(decode_base64url(head, Where(Part.ISSUER_HEADER)))
    chain = header["x5c"]
    number = chance.randrange(min(len(chain), 2))
    der = bytearray(base64.b64decode(chain[number]))
    is_signed_again = chance.random() < 0.8
    if is_signed_again:
        der = bytearray(read(bytes(der))[0].members[0].encoded())
    if chance.random() < 0.8:
        der = bytearray(changed_der(chance, bytes(der))) or der
    else:
        der[chance.randrange(len(der))] = chance.choice((0, 1, 127, 128, 255, chance.randrange(256)))
    if chance.random() < 0.05:
        del der[chance.randrange(len(der)) :]
    if is_signed_again:
        made = sign((MIDDLE, ROOT)[number].actor.private, bytes(der), OF_EC["256"])
        der = bytearray(tlv(0x30, bytes(der), OF_EC["256"], tlv(3, b"\0", made)))
    header["x5c"] = [*chain[:number], base64.b64encode(bytes(der)).decode(), *chain[number + 1 :]]
    jwt = f"{encode_base64url(json.dumps(header).encode())}.{payload}"
    return "~".join((f"{jwt}.{encode_base64url(ISSUER.sign(jwt.encode()))}", *rest))


def changed_lines(chance: random.Random, text: str) -> str:
    """A text with a line, or a word of a line, changed, repeated, moved or left out."""
    lines = text.split("\n")
    at, other = chance.randrange(len(lines)), chance.randrange(len(lines))
    words = lines[at].split(" ")
    word = chance.randrange(len(words))
    words[word] = chance.choice(
        (mutated(chance, words[word]), chance.choice(lines[other].split(" ")), "0", "64", "all")
    )
    kept, rest = lines[:at], lines[at + 1 :]
    changed = ([*kept, *rest], [*kept, lines[other], *lines[at:]], [*kept, lines[other], *rest])
    return "\n".join(chance.choice((*changed, *[[*kept, " ".join(words), *rest]] * 3)))


def changed(chance: random.Random, name: str, vector: dict[str, Any]) -> dict[str, Any]:
    """A vector with another document or another trust document."""
    document, way = vector["document"], chance.random()
    try:
        if "trust" in vector and way < 0.08:
            return {**vector, "trust": json.loads(mutated_json(chance, json.dumps(vector["trust"])))}
        if name.startswith("certificates/") and way < 0.9:
            return {**vector, "document": changed_certificate(chance, document)}
        if vector["kind"] == "log-proof" and way < 0.4:
            given = vector["expectations"]
            return {**vector, "expectations": {**given, "policy": changed_lines(chance, given["policy"])}}
        if vector["kind"] == "log-proof" and way < 0.8:
            return {**vector, "document": changed_lines(chance, document)}
        if vector["kind"] in ("status-list", "trust-list") and way < 0.8:
            signer = ISSUER if vector["kind"] == "status-list" else CARD_SIGNER
            return {**vector, "document": changed_part(chance, document, signer)}
        if vector["kind"] in ("verify", "accept", "agent-proof", "present") and document[0] != "{" and way < 0.75:
            return {**vector, "document": changed_presentation(chance, document)}
        if document.startswith("{"):
            return {**vector, "document": mutated_json(chance, document)}
    except (Refused, ValueError, IndexError, KeyError, TypeError):
        pass  # a document that has no such part
    return {**vector, "document": mutated(chance, document)}


def texts(count: int, seed: int, topic: str) -> Iterator[dict[str, Any]]:
    """Changed vectors of a topic, or of all, always the same for a seed."""
    chance = random.Random(seed)
    small = {name: text for name, text in our_vectors().items() if len(text) < 12_000}
    names = [name for name in small if name.startswith(topic) and "ml-dsa" not in name]
    vectors = {name: json.loads(small[name]) for name in names}
    while count > 0:
        name = chance.choice(names)
        vector = changed(chance, name, vectors[name])
        if vector["kind"] == "status-list":
            vector.setdefault("result", {"bits": 1})  # which the package's runner reads
        if is_strict(vector):
            count -= 1
            yield vector


def is_strict(vector: dict[str, Any]) -> bool:
    """Whether a vector can be a strict JSON document: no lone surrogate, no NaN."""
    try:
        json.dumps(vector, ensure_ascii=False, allow_nan=False).encode()
    except ValueError:
        return False
    return True


def in_python(vector: dict[str, Any]) -> str:
    """The outcome of this library."""
    try:
        return _run(vector).replace("with another result", "with other claims")
    except Misuse as misuse:
        return f"Misuse: {misuse}"[:6]


def in_node(node: "subprocess.Popen[str]", lines: Sequence[str]) -> list[str]:
    """The outcomes of the package."""
    assert node.stdin
    assert node.stdout
    node.stdin.writelines(f"{line}\n" for line in lines)
    node.stdin.flush()
    return [json.loads(node.stdout.readline()) for _ in lines]


def differences(count: int, seed: int, topic: str = "") -> tuple[Counter[str], list[tuple[str, str, str]]]:
    """Texts for each outcome, and what differs: the outcomes and the vector."""
    outcomes, found = Counter[str](), []
    command = [program("node"), str(PACKAGE / "test" / "run.mjs"), "outcomes"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as node:
        waiting: list[dict[str, Any]] = []

        def compare() -> None:
            lines = [json.dumps(one) for one in waiting]
            for vector, line, other in zip(waiting, lines, in_node(node, lines), strict=True):
                ours = in_python(vector)
                if not vector.keys() & {"claims", "result"}:  # nothing to compare with
                    ours, other = ours.split(",")[0], other.split(",")[0]
                outcomes[ours.split(" at ")[0]] += 1
                if ours != other:
                    found.append((ours, other, line))
            waiting.clear()

        for vector in texts(count, seed, topic):
            waiting.append(vector)
            if len(waiting) == CHUNK:
                compare()
        compare()
        node.stdin and node.stdin.close()
    return outcomes, found


if __name__ == "__main__":
    total, begun = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1
    counted, differing = differences(total, begun, sys.argv[3] if len(sys.argv) > 3 else "")
    for python, javascript, line in differing:
        print(f"{python} | {javascript} | {line}")
    print(f"{total} texts, {len(differing)} differences, {len(counted)} outcomes: {dict(counted.most_common())}")
