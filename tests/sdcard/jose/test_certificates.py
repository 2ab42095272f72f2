"""Issuers that are trusted by certificate roots. The confusions of ``x5c`` are vectors: ``vectors/certificates``."""

import base64
import pickle
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID
from hypothesis import given
from hypothesis import strategies as st

from sdcard import (
    Expectations,
    Misuse,
    Refused,
    TrustedIssuers,
    Unbound,
    Unchecked,
    VerificationCache,
    VerifiedCard,
    parse_trusted_issuers,
    verify_presentation,
)
from sdcard.encoding import encode_base64url, encode_json
from sdcard.errors import Part, Where
from sdcard.instants import Instant
from sdcard.io.published_keys import IssuerKeys
from sdcard.jose.certificates import CertificateRoots
from sdcard.trust import encode_trusted_issuers, issue_trust_list, read_trusted_issuers, verify_trust_list
from tests.world import key, raises_rule
from vectors.actors import ISSUER, ISSUER_ID, NOW, STRANGER, claims, header, jwt
from vectors.certificates import AT, DAY, GOOD, HOST, MIDDLE, OTHER_ROOT, ROOT, TRUST, certify, dns, signed

CHAIN: list[Any] = [GOOD.text, MIDDLE.text]
ROOTS = read_trusted_issuers(TRUST)


def show(document: object, trust: TrustedIssuers = ROOTS, now: Instant = NOW, cache: Any = None) -> VerifiedCard:
    reason = "the test is about the Issuer"
    expected = Expectations(
        issuers=trust, published_keys=frozenset(), key_binding=Unbound(reason), status=Unchecked(reason)
    )
    return verify_presentation(str(document), expected, now, cache)


def test_a_cached_sd_card_is_refused_when_its_certificate_has_expired() -> None:
    leaf = certify("short", MIDDLE, dns(HOST), valid=(NOW - DAY, NOW + 10))
    card, cache = signed(leaf, [leaf.text, MIDDLE.text]), VerificationCache()
    assert show(card, cache=cache) == show(card, now=NOW + 10, cache=cache)
    with raises_rule("x5c.chain", at=AT):
        show(card, now=NOW + 11, cache=cache)


def test_a_cached_sd_card_is_refused_when_its_root_is_no_longer_trusted() -> None:
    cache = VerificationCache()
    show(signed(GOOD, CHAIN), cache=cache)
    other = read_trusted_issuers({"issuers": {ISSUER_ID: {"x5c_roots": [OTHER_ROOT.text]}}})
    with raises_rule("x5c.chain", at=AT):
        show(signed(GOOD, CHAIN), other, cache=cache)
    with raises_rule("issuer.key-unknown", at="issuer-header/kid"):
        show(signed(GOOD, CHAIN), TrustedIssuers.of(ISSUER_ID, STRANGER.public_key), cache=cache)


def test_an_rsa_certificate_is_refused() -> None:
    private = rsa.generate_private_key(65537, 2048)
    start = datetime.fromtimestamp(NOW, UTC)
    leaf = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([]))
        .issuer_name(MIDDLE.certificate.subject)
        .public_key(private.public_key())
        .serial_number(7)
        .not_valid_before(start - timedelta(days=1))
        .not_valid_after(start + timedelta(days=1))
        .add_extension(x509.KeyUsage(True, *[False] * 8), critical=True)
        .add_extension(x509.SubjectAlternativeName(dns(HOST)), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(MIDDLE.actor.private.public_key()), critical=False
        )
        .sign(MIDDLE.actor.private, hashes.SHA256())
    )
    text = base64.b64encode(leaf.public_bytes(Encoding.DER)).decode()
    with raises_rule("x5c.chain", at=f"{AT}/0"):
        show(signed(GOOD, [text, MIDDLE.text]))


def test_name_constraints_of_an_authority_hold() -> None:
    for permitted, is_valid in ((HOST, True), ("other.example", False)):
        limits = x509.NameConstraints([x509.DNSName(permitted)], None)
        limited = certify(f"limited to {permitted}", ROOT, authority=True, limits=limits)
        leaf = certify("limited leaf", limited, dns(HOST))
        card = signed(leaf, [leaf.text, limited.text])
        if is_valid:
            assert show(card).issuer == ISSUER_ID
        else:
            with raises_rule("x5c.chain", at=AT):
                show(card)


def test_a_status_list_is_signed_under_the_same_roots() -> None:
    where = Where(Part.STATUS_LIST)
    key = ROOTS.status_key_for(ISSUER_ID, {"x5c": CHAIN}, NOW)
    assert key == GOOD.actor.public_key
    for hidden, rule, at in (({}, "issuer.key-unknown", "kid"), ({"x5c": CHAIN[:1]}, "x5c.chain", "x5c")):
        with raises_rule(rule, at=str(where.within(at))):
            ROOTS.status_key_for(ISSUER_ID, hidden, NOW)


def test_published_keys_do_not_replace_roots() -> None:
    """The mechanism is that of the trust document (VC-11), so no metadata is fetched."""
    keys = IssuerKeys(ROOTS)
    assert keys.for_presentation(str(signed(GOOD, CHAIN)), NOW) is ROOTS
    assert keys.for_status_list(ISSUER_ID, None, NOW) is ROOTS


def test_roots_survive_documents_lists_and_pickling() -> None:
    assert encode_trusted_issuers(ROOTS) == TRUST
    signer = key(40)
    signed_list = issue_trust_list(ROOTS, signer, NOW, NOW + 60)
    assert verify_trust_list(signed_list, [signer.public_key], NOW).roots == ROOTS.roots
    assert pickle.loads(pickle.dumps(ROOTS)) == ROOTS
    assert parse_trusted_issuers(encode_json(TRUST)) == ROOTS


def test_an_issuer_with_keys_and_roots_is_a_mistake() -> None:
    with pytest.raises(Misuse, match="not both"):
        TrustedIssuers({ISSUER_ID: {"a": ISSUER.public_key}}, roots=ROOTS.roots)
    with pytest.raises(Misuse, match="one DER certificate"):
        CertificateRoots((b"nothing",))
    with pytest.raises(Misuse, match="one DER certificate"):
        CertificateRoots(())


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.just(GOOD.text),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(), inner, max_size=3),
)


@given(JUNK)
def test_a_hostile_x5c_is_refused_with_a_rule_of_its_own(value: Any) -> None:
    with pytest.raises(Refused) as refusal:
        show(signed(GOOD, value))
    assert refusal.value.rule.startswith(("x5c.", "jws.", "encoding.", "json."))


@given(st.integers(0, len(base64.b64decode(GOOD.text)) - 1), st.integers(1, 255))
def test_no_changed_byte_of_a_certificate_passes(position: int, change: int) -> None:
    der = bytearray(base64.b64decode(GOOD.text))
    der[position] ^= change
    with pytest.raises(Refused) as refusal:
        show(signed(GOOD, [base64.b64encode(der).decode(), MIDDLE.text]))
    assert refusal.value.rule.startswith("x5c.")


def test_a_header_without_a_chain_never_uses_the_kid_of_a_certificate() -> None:
    text = jwt(claims(), header(GOOD.actor, kid=encode_base64url(b"x")), GOOD.actor)
    with raises_rule("issuer.key-unknown", at="issuer-header/kid"):
        show(f"{text}~")


def test_a_certificate_for_tls_signs_no_sd_card() -> None:
    """RFC 5280 4.2.1.12: a key is used for the listed purposes only."""
    for purposes in (
        [ExtendedKeyUsageOID.SERVER_AUTH],
        [ExtendedKeyUsageOID.CODE_SIGNING, ExtendedKeyUsageOID.CLIENT_AUTH],
    ):
        leaf = certify("for another purpose", MIDDLE, dns(HOST), purposes=purposes)
        with raises_rule("x5c.chain", at=AT):
            show(signed(leaf, [leaf.text, MIDDLE.text]))
    leaf = certify("for any purpose", MIDDLE, dns(HOST), purposes=[ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE])
    assert show(signed(leaf, [leaf.text, MIDDLE.text])).issuer == ISSUER_ID


def test_a_root_is_an_authority() -> None:
    leaf = certify("pinned", names=dns(HOST))
    with raises_rule("trust.malformed", at=f"trust/issuers/{ISSUER_ID}/x5c_roots"):
        read_trusted_issuers({"issuers": {ISSUER_ID: {"x5c_roots": [leaf.text]}}})


@pytest.mark.parametrize("issuer", ["https://[", "https://a.example\uff0fx"])
def test_an_issuer_that_is_no_url_is_named_by_no_certificate(issuer: str) -> None:
    trust = read_trusted_issuers({"issuers": {issuer: {"x5c_roots": [ROOT.text]}}})
    with raises_rule("x5c.name", at=f"{AT}/0"):
        trust.key_for(issuer, {"x5c": CHAIN}, NOW)


def test_the_key_of_a_certificate_is_on_an_elliptic_curve() -> None:
    private = ed25519.Ed25519PrivateKey.from_private_bytes(bytes(32))
    start = datetime.fromtimestamp(NOW, UTC)
    above = MIDDLE.actor.private.public_key()
    leaf = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([]))
        .issuer_name(MIDDLE.certificate.subject)
        .public_key(private.public_key())
        .serial_number(8)
        .not_valid_before(start - timedelta(days=1))
        .not_valid_after(start + timedelta(days=1))
        .add_extension(x509.KeyUsage(True, *[False] * 8), critical=True)
        .add_extension(x509.SubjectAlternativeName(dns(HOST)), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(above), critical=False)
        .sign(MIDDLE.actor.private, hashes.SHA256())
    )
    text = base64.b64encode(leaf.public_bytes(Encoding.DER)).decode()
    with pytest.raises(Refused) as refusal:
        ROOTS.key_for(ISSUER_ID, {"x5c": [text, MIDDLE.text]}, NOW)
    assert refusal.value.rule == "x5c.chain"
