"""What is refused while digests are replaced: RFC 9901 7.1, steps 2.d to 5, one function a rule, in its order.

``processing.py`` walks the payload and calls them; none of them knows the walk. A function that gives something back
gives what it has checked.
"""

from collections.abc import Collection, Container, Mapping, Sequence, Set
from typing import cast

from sdcard.encoding import JsonObject
from sdcard.errors import Part, Refused, Where
from sdcard.jose.algorithms import DigestAlgorithm, parse_digest_algorithm
from sdcard.names import ELLIPSIS, RESERVED_ANYWHERE, SD, SD_ALG
from sdcard.rules import Rule
from sdcard.sdjwt.disclosure import Disclosure, where_of

RESERVED_NAMES = RESERVED_ANYWHERE | {SD_ALG}
"""What no Disclosure may name: ``_sd_alg`` has its meaning at the top of what the Issuer signed, and nowhere else."""


def read_digest_algorithm(payload: JsonObject) -> DigestAlgorithm:
    """Step 2.d: what ``_sd_alg`` names, sha-256 where it is absent. 4.1.1 (R-12, R-13, R-14, R-54).

    Raises:
        Refused: ``sd.alg``, at ``issuer-jwt/_sd_alg``.
    """
    if SD_ALG not in payload:
        return DigestAlgorithm.SHA_256
    return parse_digest_algorithm(payload[SD_ALG], Where(Part.ISSUER_JWT, (SD_ALG,)))


def index_by_digest(disclosures: Sequence[str], algorithm: DigestAlgorithm) -> dict[str, int]:
    """Step 3.a: the number of each Disclosure by the digest of its text as received (R-55).

    Refuse one that was sent twice: nothing could refer to the second. 7.1 step 5 (R-70, R-78).

    Raises:
        Refused: ``disclosure.repeated``, at the second one.
    """
    indexed: dict[str, int] = {}
    for number, text in enumerate(disclosures):
        digest = algorithm.digest(text)
        if digest in indexed:
            raise Refused(Rule.DISCLOSURE_REPEATED, where_of(number))
        indexed[digest] = number
    return indexed


def check_no_algorithm(members: JsonObject, where: Where) -> None:
    """Refuse ``_sd_alg`` anywhere but at the top of the payload. 4.1.1 (R-11).

    Raises:
        Refused: ``sd.reserved-name``.
    """
    if SD_ALG in members:
        raise Refused(Rule.SD_RESERVED_NAME, where, "`_sd_alg` belongs at the top level.")


def check_no_placeholder(members: JsonObject, where: Where) -> None:
    """Step 3.b: refuse ``...`` in an object that is no element of an array. 4.1 (R-7, R-56).

    Raises:
        Refused: ``sd.placeholder``.
    """
    if ELLIPSIS in members:
        raise Refused(Rule.SD_PLACEHOLDER, where)


def read_digest_list(members: JsonObject, where: Where) -> list[str]:
    """Step 3.b: the digests in an object's ``_sd``; none where there is no ``_sd``. 4.2.4.1 (R-25, R-26, R-56).

    Raises:
        Refused: ``sd.digest-list`` for anything but an array of strings.
    """
    digests = members.get(SD, [])
    if not isinstance(digests, list) or not {str}.issuperset(map(type, digests)):
        raise Refused(Rule.SD_DIGEST_LIST, where)
    return cast(list[str], digests)


def read_placeholder(element: JsonObject, where: Where) -> str:
    """Step 3.b: the digest in an array element that has a member ``...``. 4.2.4.2 (R-28, R-56).

    Raises:
        Refused: ``sd.placeholder`` when it is no string, or has company.
    """
    digest = element[ELLIPSIS]
    if len(element) != 1 or not isinstance(digest, str):
        raise Refused(Rule.SD_PLACEHOLDER, where)
    return digest


def check_is_claim(disclosure: Disclosure, where: Where) -> str:
    """Step 3.c.ii.1: the claim's name; refuse salt and value alone behind a digest in ``_sd`` (R-59).

    Raises:
        Refused: ``disclosure.kind``.
    """
    if disclosure.name is None:
        raise Refused(Rule.DISCLOSURE_KIND, where, "An object's claim needs salt, name and value.")
    return disclosure.name


def check_name_is_free(name: str, where: Where) -> None:
    """Step 3.c.ii.2: refuse a name that has a meaning of its own. 4.2.1 (R-11, R-18, R-60).

    Raises:
        Refused: ``disclosure.name-reserved``.
    """
    if name in RESERVED_NAMES:
        raise Refused(Rule.DISCLOSURE_NAME, where)


def check_claim_is_new(name: str, level: Container[str], where: Where) -> None:
    """Step 3.c.ii.3: refuse a name that is already there, in the clear or by another Disclosure. 4.2.1 (R-18, R-61).

    Raises:
        Refused: ``disclosure.claim-exists``.
    """
    if name in level:
        raise Refused(Rule.DISCLOSURE_COLLISION, where)


def check_is_element(disclosure: Disclosure, where: Where) -> None:
    """Step 3.c.iii.1: refuse a name behind a digest in ``...`` (R-64).

    Raises:
        Refused: ``disclosure.kind``.
    """
    if disclosure.name is not None:
        raise Refused(Rule.DISCLOSURE_KIND, where, "An array element has a salt and a value only.")


def check_digests_are_new(digests: Collection[str], met: Set[str], where: Where) -> None:
    """Step 4: refuse a digest met before or twice among these, whether or not a Disclosure matches it. 4.1 (R-8, R-69).

    Raises:
        Refused: ``digest.repeated``.
    """
    if not met.isdisjoint(digests) or (len(digests) > 1 and len(set(digests)) != len(digests)):
        raise Refused(Rule.DIGEST_REPEATED, where)


def check_all_referenced(unreferenced: Mapping[str, int]) -> None:
    """Step 5: refuse Disclosures that no digest referred to, directly or through others (R-70).

    Raises:
        Refused: ``disclosure.unreferenced``, at the first one.
    """
    if unreferenced:
        raise Refused(Rule.DISCLOSURE_UNREFERENCED, where_of(min(unreferenced.values())))
