"""Issuer keys from certificate chains: ``x5c`` (RFC 7515 4.1.6, RFC 5280 6).

A chain counts only for an Issuer whose entry in the trust document has ``x5c_roots`` and no keys, so a token cannot
choose the mechanism (VC-11). ``cryptography`` verifies the path offline: nothing is fetched, the system's roots are not
used, and the revocation of certificates is not checked.
"""

import base64
import binascii
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from hashlib import sha256
from urllib.parse import urlsplit

from cryptography import x509
from cryptography.x509 import verification
from cryptography.x509.oid import ExtendedKeyUsageOID, ExtensionOID

from sdcard.errors import Misuse, Refused, Where
from sdcard.instants import Instant
from sdcard.jose.algorithms import EC_PARAMETERS
from sdcard.jose.keys import LIBRARY_FAILS, PublicKey, public_key
from sdcard.rules import Rule

MOST_CERTIFICATES = 4
MOST_BYTES = 16_384
"""Of the certificates of one chain together, in DER."""
_EPOCH = datetime(1970, 1, 1)


@dataclass(frozen=True, slots=True)
class CertificateRoots:
    """Root certificates that a Verifier trusts for one Issuer.

    Attributes:
        der: the certificates in DER, at least one.
    """

    der: tuple[bytes, ...]
    store: verification.Store = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        try:
            roots = [x509.load_der_x509_certificate(one) for one in self.der]
            object.__setattr__(self, "store", verification.Store(roots))
        except LIBRARY_FAILS as error:
            raise Misuse("roots are one DER certificate or more") from error

    def __reduce__(self) -> tuple[object, ...]:
        return CertificateRoots, (self.der,)

    def fingerprints(self) -> list[bytes]:
        """Return the SHA-256 digest of each root."""
        return [sha256(one).digest() for one in self.der]

    def key_of(self, issuer: str, header: Mapping[str, object], now: Instant, where: Where) -> PublicKey:
        """Verify the chain of a header, and return the key of its first certificate.

        Args:
            issuer: ``iss``, which the certificate must name: as a URI, or its host as a DNS name.
            header: the JOSE header, with ``x5c``.
            now: Unix seconds. Every certificate of the path must be valid then.
            where: the header.

        Raises:
            Refused: ``x5c.format``, ``x5c.chain`` or ``x5c.name``.
        """
        if "jwk" in header or "jku" in header:
            raise Refused(Rule.X5C_FORMAT, where.within("x5c"), "A header with `x5c` has neither `jwk` nor `jku`.")
        where = where.within("x5c")
        chain = [_parse(one, where.within(number)) for number, one in enumerate(_decode(header["x5c"], where))]
        leaf, *others = (certificate for certificate, _ in chain)
        self._check_path(leaf, others, now, where)
        _check_name(chain[0][1], issuer, where.within(0))
        try:
            key = public_key(leaf.public_key())
            if key.algorithm in EC_PARAMETERS:
                return key
            raise Misuse("not an EC key")
        except (Misuse, Refused, *LIBRARY_FAILS):
            raise Refused(Rule.X5C_CHAIN, where.within(0), "The key has no supported algorithm.") from None

    def _check_path(
        self, leaf: x509.Certificate, others: Sequence[x509.Certificate], now: Instant, where: Where
    ) -> None:
        try:
            builder = verification.PolicyBuilder().store(self.store).max_chain_depth(MOST_CERTIFICATES - 1)
            builder = builder.time(_EPOCH + timedelta(seconds=now))
            builder = builder.extension_policies(ca_policy=_AUTHORITY, ee_policy=_LEAF)
            builder.build_client_verifier().verify(leaf, list(others))
        except (verification.VerificationError, *LIBRARY_FAILS):
            hint = "No valid path leads to a root that the trust document lists for the Issuer."
            raise Refused(Rule.X5C_CHAIN, where, hint) from None


def _signs(_: verification.Policy, __: x509.Certificate, usage: x509.KeyUsage) -> None:
    if not usage.digital_signature or usage.key_cert_sign:
        raise ValueError("not a certificate for signatures over documents")


def _is_no_authority(_: verification.Policy, __: x509.Certificate, basic: x509.BasicConstraints | None) -> None:
    if basic is not None and basic.ca:
        raise ValueError("an authority")


def _is_for_any_purpose(_: verification.Policy, __: x509.Certificate, usage: x509.ExtendedKeyUsage | None) -> None:
    if usage is not None and ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE not in usage:
        raise ValueError("a certificate for other purposes, such as TLS")


_AUTHORITY = verification.ExtensionPolicy.webpki_defaults_ca()
_LEAF = (
    verification.ExtensionPolicy.permit_all()
    .require_present(x509.KeyUsage, verification.Criticality.AGNOSTIC, _signs)
    .may_be_present(x509.BasicConstraints, verification.Criticality.AGNOSTIC, _is_no_authority)
    .may_be_present(x509.ExtendedKeyUsage, verification.Criticality.AGNOSTIC, _is_for_any_purpose)
)


def _decode(value: object, where: Where) -> list[bytes]:
    """Decode ``x5c``: base64 of DER, not base64url (RFC 7515 4.1.6)."""
    if not isinstance(value, list) or not 1 <= len(value) <= MOST_CERTIFICATES:
        raise Refused(Rule.X5C_FORMAT, where, f"`x5c` is an array of 1 to {MOST_CERTIFICATES} certificates.")
    certificates: list[bytes] = []
    for number, text in enumerate(value):
        here = where.within(number)
        if not isinstance(text, str) or len(text) > 2 * MOST_BYTES:
            raise Refused(Rule.X5C_FORMAT, here, "A certificate is a string: base64 of DER.")
        try:
            certificates.append(base64.b64decode(text, validate=True))
        except (binascii.Error, ValueError):
            raise Refused(Rule.X5C_FORMAT, here, "A certificate is a string: base64 of DER.") from None
        if base64.b64encode(certificates[-1]).decode() != text:
            raise Refused(Rule.X5C_FORMAT, here, "The base64 is not canonical.")
    if sum(map(len, certificates)) > MOST_BYTES:
        raise Refused(Rule.X5C_FORMAT, where, f"The certificates have at most {MOST_BYTES} bytes together.")
    return certificates


def _parse(der: bytes, where: Where) -> tuple[x509.Certificate, x509.Extensions]:
    try:
        _check_serial_number(der)
        return x509.load_der_x509_certificate(der), _used_extensions(der)
    except (x509.DuplicateExtension, x509.UnsupportedGeneralNameType, x509.InvalidVersion, *LIBRARY_FAILS):
        raise Refused(Rule.X5C_FORMAT, where, "The certificate cannot be read.") from None


def _check_serial_number(der: bytes) -> None:
    """Refuse a serial number below one (RFC 5280 4.1.2.2).

    The library would warn about it, and will refuse it in a later version.
    """
    first, second, *_ = _elements(_content(_elements(_content(der))[0]))
    if int.from_bytes(_content(second if first[0] == _VERSION else first), signed=True) < 1:
        raise ValueError("a serial number is positive")


def _used_extensions(der: bytes) -> x509.Extensions:
    """Parse the extensions that decide about a path.

    ``cryptography`` parses all that its version knows, and fails if one is malformed. A certificate's verdict does not
    depend on that: other extensions are ignored (RFC 5280 4.2), unless they are critical, which a path may not have.

    Args:
        der: a certificate that ``cryptography`` has loaded, so its elements are well-formed.
    """
    signed, *signature = _elements(_content(der))
    *fields, last = _elements(_content(signed))
    if last[0] != _EXTENSIONS:
        return x509.load_der_x509_certificate(der).extensions
    extensions = _elements(_content(_content(last)))
    names = [_elements(_content(one))[0] for one in extensions]
    if len(set(names)) < len(names):
        raise ValueError("an extension is repeated")
    used = [one for name, one in zip(names, extensions, strict=True) if name in _USED]
    kept = [_element(_EXTENSIONS, _element(_SEQUENCE, *used))] if used else []
    copy = _element(_SEQUENCE, _element(_SEQUENCE, *fields, *kept), *signature)
    return x509.load_der_x509_certificate(copy).extensions


_SEQUENCE, _VERSION, _EXTENSIONS = 0x30, 0xA0, 0xA3
_USED = frozenset(
    bytes.fromhex(digits)
    for digits in (
        *("0603551d0e", "0603551d0f", "0603551d11", "0603551d13"),  # key ids, usage, alternative names, basic
        *("0603551d1e", "0603551d23", "0603551d25", "06082b06010505070101"),  # names, authority, purposes, access
    )
)
"""Object identifiers in DER: those that ``cryptography`` looks at in a path."""


def _header(der: bytes) -> tuple[int, int]:
    """Return where the content of the first element begins and ends."""
    begin = 2 + (der[1] & 0x7F if der[1] & 0x80 else 0)
    return begin, begin + (int.from_bytes(der[2:begin]) if begin > 2 else der[1])


def _content(der: bytes) -> bytes:
    begin, end = _header(der)
    return der[begin:end]


def _elements(der: bytes) -> list[bytes]:
    found = []
    while der:
        _, end = _header(der)
        found.append(der[:end])
        der = der[end:]
    return found


def _element(tag: int, *parts: bytes) -> bytes:
    content = b"".join(parts)
    size = len(content).to_bytes((len(content).bit_length() + 7) // 8)
    return bytes([tag, *([0x80 | len(size)] if len(content) > 0x7F else []), *(size or b"\0")]) + content


def _check_name(extensions: x509.Extensions, issuer: str, where: Where) -> None:
    """Check that a certificate names the Issuer in its ``subjectAltName``, exactly.

    A wildcard, a parent domain and the common name do not count.

    Raises:
        Refused: ``x5c.name``.
    """
    try:
        names = extensions.get_extension_for_oid(ExtensionOID.SUBJECT_ALTERNATIVE_NAME).value
        assert isinstance(names, x509.SubjectAlternativeName)
        uris, hosts = (names.get_values_for_type(kind) for kind in (x509.UniformResourceIdentifier, x509.DNSName))
    except (x509.ExtensionNotFound, *LIBRARY_FAILS):
        uris, hosts = [], []
    if issuer in uris:
        return
    try:
        parts = urlsplit(issuer)
        if parts.scheme == "https" and parts.netloc and parts.netloc == parts.hostname and parts.hostname in hosts:
            return
    except ValueError:  # not a URL: only a URI that is equal names it
        pass
    raise Refused(Rule.X5C_NAME, where, "Its subjectAltName has neither the URI `iss` nor the DNS name of its host.")


def read_roots(entry: object, where: Where) -> CertificateRoots:
    """Read the roots of an Issuer: an array of certificates as in ``x5c``.

    Raises:
        Refused: ``trust.malformed``.
    """
    try:
        der = tuple(_decode(entry, where))
        for number, one in enumerate(der):
            _, extensions = _parse(one, where.within(number))
            constraints = extensions.get_extension_for_class(x509.BasicConstraints)
            if not constraints.value.ca:
                raise Misuse("not an authority")
        return CertificateRoots(der)
    except (Refused, Misuse, x509.ExtensionNotFound):
        hint = f"Roots are an array of 1 to {MOST_CERTIFICATES} certificates of authorities, each base64 of DER."
        raise Refused(Rule.TRUST_MALFORMED, where, hint) from None


def encode_roots(roots: CertificateRoots) -> list[str]:
    """Encode roots for a trust document."""
    return [base64.b64encode(one).decode() for one in roots.der]
