"""Cases of Issuers with certificate roots: ``x5c`` (RFC 7515 4.1.6, RFC 5280)."""

import base64
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding

from sdcard.encoding import JsonObject, JsonValue
from sdcard.jose.algorithms import SignatureAlgorithm
from sdcard.rules import Rule
from sdcard.sdjwt.model import SdJwt
from vectors.actors import ISSUER, ISSUER_ID, NOW, STRANGER, Actor, claims, header, jwt, trust
from vectors.case import Case, no, yes

NEEDS = ("sd-card", "x5c")
HOST = "registry.example"
DAY = 86_400
AT = "issuer-header/x5c"
USAGES = (
    *("digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement"),
    *("key_cert_sign", "crl_sign", "encipher_only", "decipher_only"),
)


@dataclass(frozen=True)
class Certified:
    """A key with its certificate."""

    actor: Actor
    certificate: x509.Certificate

    @property
    def text(self) -> str:
        """The certificate as a member of ``x5c``."""
        return base64.b64encode(self.certificate.public_bytes(Encoding.DER)).decode()


def certify(
    role: str,
    by: "Certified | None" = None,
    names: Sequence[x509.GeneralName] = (),
    authority: bool = False,
    valid: tuple[int, int] = (NOW - 30 * DAY, NOW + 30 * DAY),
    usages: Sequence[str] | None = None,
    algorithm: SignatureAlgorithm = SignatureAlgorithm.ES256,
    limits: x509.NameConstraints | None = None,
    purposes: Sequence[x509.ObjectIdentifier] = (),
) -> Certified:
    """Make a certificate: of an authority's own key, or of the Issuer's key.

    Its serial number follows from the role, and its signature is deterministic.
    """
    actor = Actor(role) if authority else Actor("issuer", algorithm)
    used = usages if usages is not None else (("key_cert_sign", "crl_sign") if authority else ("digital_signature",))
    key, signer = actor.private, (by.actor if by else actor).private
    issuer_name = by.certificate.subject if by else _name(role)
    builder = (
        x509.CertificateBuilder()
        .subject_name(_name(role))
        .issuer_name(issuer_name)
        .public_key(key.public_key())
        .serial_number(int.from_bytes(hashlib.sha256(role.encode()).digest()[:8], "big") | 1)
        .not_valid_before(datetime.fromtimestamp(valid[0], UTC))
        .not_valid_after(datetime.fromtimestamp(valid[1], UTC))
        .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
    )
    if used:
        builder = builder.add_extension(x509.KeyUsage(**{name: name in used for name in USAGES}), critical=True)
    if purposes:
        builder = builder.add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
    if limits:
        builder = builder.add_extension(limits, critical=True)
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return Certified(actor, builder.sign(signer, hashes.SHA256(), ecdsa_deterministic=True))


def _name(role: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, role)])


def dns(name: str) -> list[x509.GeneralName]:
    """A subjectAltName with one DNS name."""
    return [x509.DNSName(name)]


def uri(name: str) -> list[x509.GeneralName]:
    """A subjectAltName with one URI."""
    return [x509.UniformResourceIdentifier(name)]


ROOT = certify("root", authority=True)
OTHER_ROOT = certify("other root", authority=True)
MIDDLE = certify("intermediate", ROOT, authority=True)
GOOD = certify("certified issuer", MIDDLE, dns(HOST))
TRUST: JsonObject = {"issuers": {ISSUER_ID: {"x5c_roots": [ROOT.text]}}}


def signed(by: Certified, x5c: JsonValue, /, payload: JsonObject | None = None, **changes: Any) -> SdJwt:
    """An SD-Card with this ``x5c`` in its header."""
    protected = header(by.actor, x5c=x5c, **changes)
    return SdJwt(jwt(payload or claims(), protected, by.actor), ())


def certificates() -> Iterator[Case]:
    """SD-JWT VC: the Issuer's key by ``x5c``."""
    chain: list[JsonValue] = [GOOD.text, MIDDLE.text]
    yield from _accepted(chain)
    yield from _formats(chain)
    yield from _paths()
    yield from _names()
    yield from _mechanisms(chain)


def _accepted(chain: list[JsonValue]) -> Iterator[Case]:
    def good(name: str, about: str, leaf: Certified, *above: Certified, **more: Any) -> Case:
        x5c: list[JsonValue] = [leaf.text, *(one.text for one in above)]
        payload = more.pop("payload", claims())
        return yes(name, payload, about, "RFC 7515 4.1.6, VC-10", signed(leaf, x5c, payload),
                   trust=more.pop("trust", TRUST), needs=NEEDS)  # fmt: skip

    yield good("dns-name", "the leaf has the host of `iss` as DNS name", GOOD, MIDDLE)
    yield good("uri", "the leaf has `iss` as URI", certify("uri leaf", MIDDLE, uri(ISSUER_ID)), MIDDLE)
    yield good("directly-below-the-root", "a chain of one certificate", certify("direct", ROOT, dns(HOST)))
    yield good("with-the-root", "the chain repeats the root", GOOD, MIDDLE, ROOT)
    yield good("one-of-two-names", "another name beside that of the Issuer",
               certify("two names", MIDDLE, [*dns("other.example"), *dns(HOST)]), MIDDLE)  # fmt: skip
    yield good("es384", "a leaf with a key of P-384",
               certify("p384", MIDDLE, dns(HOST), algorithm=SignatureAlgorithm.ES384), MIDDLE)  # fmt: skip
    spiffe = "spiffe://example.org/registry"
    yield good("spiffe", "an Issuer with a SPIFFE ID", certify("spiffe", MIDDLE, uri(spiffe)), MIDDLE,
               payload=claims(iss=spiffe), trust={"issuers": {spiffe: {"x5c_roots": [ROOT.text]}}})  # fmt: skip
    yield good("two-roots", "one of two roots", GOOD, MIDDLE,
               trust={"issuers": {ISSUER_ID: {"x5c_roots": [OTHER_ROOT.text, ROOT.text]}}})  # fmt: skip
    last = certify("last second", MIDDLE, dns(HOST), valid=(NOW - DAY, NOW))
    yield good("not-after-is-inclusive", "the last second of the leaf (RFC 5280 4.1.2.5)", last, MIDDLE)
    first = certify("first second", MIDDLE, dns(HOST), valid=(NOW, NOW + DAY))
    yield good("not-before-is-inclusive", "the first second of the leaf (RFC 5280 4.1.2.5)", first, MIDDLE)


def _formats(chain: list[JsonValue]) -> Iterator[Case]:
    def bad(name: str, x5c: JsonValue, at: str = AT, **changes: Any) -> Case:
        return no(name, Rule.X5C_FORMAT, at, "`x5c` that is no chain of certificates", "RFC 7515 4.1.6",
                  signed(GOOD, x5c, **changes), trust=TRUST, needs=NEEDS)  # fmt: skip

    url_safe = GOOD.text.replace("+", "-").replace("/", "_")
    assert url_safe != GOOD.text
    fat = base64.b64encode(b"\0" * 8_300).decode()
    yield bad("text", GOOD.text)
    yield bad("empty", [])
    yield bad("null", None)
    yield bad("five-certificates", [*chain, ROOT.text, OTHER_ROOT.text, OTHER_ROOT.text])
    yield bad("too-many-bytes", [fat, fat])
    yield bad("number", [*chain, 1], f"{AT}/2")
    yield bad("base64url", [url_safe, MIDDLE.text], f"{AT}/0")
    yield bad("line-feed", [f"{GOOD.text}\n", MIDDLE.text], f"{AT}/0")
    yield bad("pem", [f"-----BEGIN CERTIFICATE-----\n{GOOD.text}\n-----END CERTIFICATE-----", MIDDLE.text], f"{AT}/0")
    yield bad("no-certificate", [base64.b64encode(b"no certificate").decode(), MIDDLE.text], f"{AT}/0")
    trailing = base64.b64encode(base64.b64decode(GOOD.text) + b"\0").decode()
    yield bad("trailing-byte", [trailing, MIDDLE.text], f"{AT}/0")
    yield bad("beside-jwk", chain, jwk=GOOD.actor.jwk)
    yield bad("beside-jku", chain, jku="https://registry.example/keys")


def _paths() -> Iterator[Case]:
    def bad(name: str, about: str, leaf: Certified, *above: Certified, at: str = AT) -> Case:
        return no(name, Rule.X5C_CHAIN, at, about, "RFC 5280 6, VC-10",
                  signed(leaf, [leaf.text, *(one.text for one in above)]), trust=TRUST, needs=NEEDS)  # fmt: skip

    other_middle = certify("other intermediate", OTHER_ROOT, authority=True)
    yield bad("other-root", "the chain of a root that is not listed", certify("other leaf", other_middle, dns(HOST)),
              other_middle, OTHER_ROOT)  # fmt: skip
    yield bad("no-intermediate", "the intermediate is missing", GOOD)
    yield bad("leaf-last", "the order of the chain is reversed", MIDDLE, GOOD)
    yield bad("self-signed", "a self-signed leaf", certify("self-signed", names=dns(HOST)))
    yield bad("root-as-leaf", "the root signs itself", certify("root", authority=True, names=dns(HOST)))
    yield bad("authority-as-leaf", "the first certificate is an authority",
              certify("authority leaf", MIDDLE, dns(HOST), authority=True,
                      usages=("digital_signature", "key_cert_sign")), MIDDLE)  # fmt: skip
    no_authority = certify("no authority", MIDDLE, usages=("digital_signature", "key_cert_sign"))
    yield bad("intermediate-is-no-authority", "an intermediate that is no authority",
              certify("below it", no_authority, dns(HOST)), no_authority, MIDDLE)  # fmt: skip
    yield bad("expired", "the leaf expired a second ago",
              certify("expired", MIDDLE, dns(HOST), valid=(NOW - DAY, NOW - 1)), MIDDLE)  # fmt: skip
    yield bad("not-yet-valid", "the leaf is valid in a second",
              certify("not yet valid", MIDDLE, dns(HOST), valid=(NOW + 1, NOW + DAY)), MIDDLE)  # fmt: skip
    late = certify("expired intermediate", ROOT, authority=True, valid=(NOW - 2 * DAY, NOW - 1))
    yield bad("expired-intermediate", "the intermediate has expired", certify("under it", late, dns(HOST)), late)
    yield bad("no-digital-signature", "the leaf's key is not for digital signatures",
              certify("key agreement", MIDDLE, dns(HOST), usages=("key_agreement",)), MIDDLE)  # fmt: skip
    yield bad("no-key-usage", "the leaf has no key usage", certify("no usage", MIDDLE, dns(HOST), usages=()), MIDDLE)
    tampered = bytearray(base64.b64decode(GOOD.text))
    tampered[-1] ^= 1
    spoilt: list[JsonValue] = [base64.b64encode(bytes(tampered)).decode(), MIDDLE.text]
    yield no("certificate-tampered", Rule.X5C_CHAIN, AT, "the signature of the leaf is wrong", "RFC 5280 6, VC-10",
             signed(GOOD, spoilt), trust=TRUST, needs=NEEDS)  # fmt: skip


def _names() -> Iterator[Case]:
    def bad(name: str, about: str, names: Sequence[x509.GeneralName], iss: str = ISSUER_ID) -> Case:
        leaf = certify(name, MIDDLE, names)
        document = signed(leaf, [leaf.text, MIDDLE.text], claims(iss=iss))
        return no(name, Rule.X5C_NAME, f"{AT}/0", about, "VC-10", document,
                  trust={"issuers": {iss: {"x5c_roots": [ROOT.text]}}}, needs=NEEDS)  # fmt: skip

    yield bad("other-host", "the DNS name of another host", dns("other.example"))
    yield bad("wildcard", "a wildcard", dns("*.example"))
    yield bad("parent-domain", "the parent domain", dns("example"))
    yield bad("subdomain", "a host below that of the Issuer", dns(f"a.{HOST}"))
    yield bad(HOST, "the host as common name alone", [])
    yield bad("other-uri", "the URI with a slash at its end", uri(f"{ISSUER_ID}/"))
    yield bad("uri-of-the-host", "the host as URI", uri(HOST))
    yield bad("port", "a DNS name says nothing about a port", dns(HOST), f"{ISSUER_ID}:8443")
    yield bad("http", "a DNS name says nothing about http", dns(HOST), f"http://{HOST}")
    yield bad("email", "the host as e-mail address", [x509.RFC822Name(f"registry@{HOST}")])


def _mechanisms(chain: list[JsonValue]) -> Iterator[Case]:
    at = "issuer-header/kid"
    yield no("listed-by-keys", Rule.ISSUER_KEY_UNKNOWN, at, "an Issuer that is listed with keys has no roots", "VC-11",
             signed(GOOD, chain), trust=trust(STRANGER), needs=NEEDS)  # fmt: skip
    yield yes("ignored-beside-a-listed-key", claims(), "`x5c` adds nothing for an Issuer that is listed with keys",
              "VC-11", SdJwt(jwt(claims(), header(x5c=["no certificate"])), ()), needs=NEEDS)  # fmt: skip
    yield no("without-x5c", Rule.ISSUER_KEY_UNKNOWN, at, "an Issuer with roots has no keys", "VC-11",
             SdJwt(jwt(claims()), ()), trust=TRUST, needs=NEEDS)  # fmt: skip
    yield no("key-of-another", Rule.JWS_SIGNATURE, "issuer-jwt/signature", "signed with another key than the leaf's",
             "R-52", SdJwt(jwt(claims(), header(x5c=chain), STRANGER), ()), trust=TRUST, needs=NEEDS)  # fmt: skip
    entry = f"trust/issuers/{ISSUER_ID}"
    both: JsonObject = {"keys": [ISSUER.jwk], "x5c_roots": [ROOT.text]}
    roots: dict[str, tuple[str, JsonValue]] = {"empty": ("", []), "text": ("", ROOT.text), "jwk": ("", [ISSUER.jwk])}
    yield no("keys-and-roots", Rule.TRUST_MALFORMED, entry, "an Issuer with keys and roots", "VC-11",
             signed(GOOD, chain), trust={"issuers": {ISSUER_ID: both}}, needs=NEEDS)  # fmt: skip
    for name, (below, value) in roots.items():
        yield no(f"roots-{name}", Rule.TRUST_MALFORMED, f"{entry}/x5c_roots{below}", "roots that are none", "trust",
                 signed(GOOD, chain), trust={"issuers": {ISSUER_ID: {"x5c_roots": value}}}, needs=NEEDS)  # fmt: skip
