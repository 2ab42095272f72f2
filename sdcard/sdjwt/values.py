"""SD-JWT and SD-JWT+KB as values, whatever form they arrived in (RFC 9901 4)."""

from dataclasses import dataclass, field
from typing import TypeAlias

from sdcard.jose.algorithms import DigestAlgorithm
from sdcard.names import SEPARATOR


@dataclass(frozen=True, slots=True)
class SdJwt:
    """An Issuer-signed JWT and the Disclosures sent with it, as text and in the order sent."""

    issuer_jwt: str
    disclosures: tuple[str, ...] = field(repr=False)

    def __str__(self) -> str:
        return SEPARATOR.join((self.issuer_jwt, *self.disclosures, ""))


@dataclass(frozen=True, slots=True)
class SdJwtWithKeyBinding:
    """SD-JWT+KB: an SD-JWT followed by its KB-JWT."""

    sd_jwt: SdJwt
    kb_jwt: str

    def __str__(self) -> str:
        return SEPARATOR.join((self.sd_jwt.issuer_jwt, *self.sd_jwt.disclosures, self.kb_jwt))


def sd_hash_of(sd_jwt: SdJwt, algorithm: DigestAlgorithm) -> str:
    """The digest over the compact form, up to and with the last ``~`` (4.3.1)."""
    return algorithm.digest(str(sd_jwt))


AnySdJwt: TypeAlias = SdJwt | SdJwtWithKeyBinding
