"""TLS of the registry's own socket: 1.3 only, with a private key file.

Only its owner may read the file.
"""

import ssl
import stat
from pathlib import Path

from issuer_service.settings import Settings
from sdcard.errors import Misuse


def tls_of(settings: Settings) -> ssl.SSLContext | None:
    """Return the TLS context of the settings; None is plain HTTP.

    Raises:
        Misuse, OSError: as ``tls_context``; and for half of what is needed.
    """
    if settings.tls_cert and settings.tls_key:
        return tls_context(settings.tls_cert, settings.tls_key)
    if settings.tls_cert or settings.tls_key:
        raise Misuse("SDCARD_TLS_CERT and SDCARD_TLS_KEY go together")
    return None


def tls_context(certificate: Path, key: Path) -> ssl.SSLContext:
    """Build the TLS 1.3 context of a server.

    A renewed certificate is read when the registry restarts.

    Raises:
        Misuse: when the key's file is open to others, and for files that hold no certificate, or no key of its own in
            the clear.
        OSError: when a file cannot be read.
    """
    mode = key.stat().st_mode
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise Misuse(f"{key} is open to others; chmod 600 it, and replace the key if they may have read it")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    try:
        context.load_cert_chain(certificate, key, password=_refuse)
    except Misuse:
        raise
    except Exception as error:  # ssl documents no closed set; its message may quote the key file
        if isinstance(error, OSError) and not isinstance(error, ssl.SSLError):
            raise
        raise Misuse(f"{certificate} and {key} are not a certificate in PEM and its private key") from None
    return context


def _refuse() -> str:
    """OpenSSL would ask at the terminal."""
    raise Misuse("the TLS key is encrypted; the registry reads keys in the clear, in a file of mode 0600")
