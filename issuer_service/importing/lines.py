"""A line of an import file → the registration request that it stands for. Pure.

A line is a JSON object with ``card``, ``public_key``, and ``agent_id`` unless the card has one. What else a request
says is the operator's: the contexts; and that nobody has proven the key.
"""

from collections.abc import Sequence

from issuer_service.registration.reading import Registration, Terms, read_request
from issuer_service.registration.schemas import REQUEST
from sdcard.encoding import JsonObject, parse_json_object
from sdcard.errors import Finding, Refused
from sdcard.lenient import lenient_document
from sdcard.rules import Rule

_MEMBERS = ("agent_id", "card", "public_key")
_OF_CARD = ("name", "description", "version")


def read_line(line: bytes, contexts: Sequence[str], terms: Terms, most_bytes: int) -> Registration:
    """Read a line by the rules of a registration.

    Raises:
        Refused: ``limit.bytes`` for more than ``most_bytes``; ``request.malformed`` for members that a line does not
            have; as ``read_registration``.
    """
    if len(line.removesuffix(b"\n")) > most_bytes:
        raise Refused(Rule.LIMIT_BYTES, REQUEST, f"A line has at most {most_bytes} bytes.")
    given = parse_json_object(lenient_document(line), REQUEST, terms.limits.json_depth)
    unknown = [name for name in given if name not in _MEMBERS]
    if unknown:
        hint = f"A line has {', '.join(_MEMBERS)}, and nothing else."
        raise Refused.because([Finding(Rule.REQUEST, REQUEST.within(name[:64]), hint) for name in unknown])
    card = given.get("card")
    if not isinstance(card, dict):
        raise Refused(Rule.REQUEST, REQUEST.within("card"), "A line has a card, which is an object.")
    said = {name: card[name] for name in (*_OF_CARD, "agent_id") if name in card}
    request: JsonObject = {**said, **given, "disclosure_contexts": [{"context": context} for context in contexts]}
    return read_request(request, terms)
