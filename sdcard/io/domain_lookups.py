"""Look-ups of proofs of domain control: a file by https, and DNS TXT records.

The author of a card chooses the host, so the file is fetched as every untrusted address is (``sdcard.io.http``): https
only, no redirect, permitted addresses, bounded size and time. TXT records come from the operator's resolver.

Needs ``httpx2`` and ``dnspython``, which the extra ``service`` has.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

import dns.asyncresolver
import dns.resolver

from sdcard.domain_control import FILE_PATH, MOST_FILE_BYTES, TXT_LABEL, Published, Way, parse_file, parse_txt
from sdcard.errors import Finding, Level, Part, Refused, Where, foreign_code
from sdcard.io.egress_policy import PUBLIC, EgressPolicy
from sdcard.io.http import fetch_async
from sdcard.rules import Rule

MEDIA_TYPES = ("text/plain", "application/octet-stream")
"""Servers send a file without an extension as one or the other."""
_MOST_STRINGS = 4_096
"""Strings of TXT records that are read. An answer has at most 64 kB."""


@dataclass(frozen=True, slots=True)
class DomainLookups:
    """A way to ask hosts for their values.

    Attributes:
        egress: permitted addresses, and the seconds for one answer.
        nameservers: IP addresses of resolvers; empty for this machine's.
        dns_port: the port of these resolvers.
        https_port: the port of files. It is not in a card: who runs another port need not run the host.
    """

    egress: EgressPolicy = PUBLIC
    nameservers: tuple[str, ...] = ()
    dns_port: int = 53
    https_port: int = 443

    async def find(self, host: str, label: str) -> Published:
        """Look up what a host publishes. It takes at most ``egress.seconds``.

        Args:
            host: a DNS name in lower case.
            label: a random DNS label, which no host publishes anything at. A TXT record that it has too is a wildcard.
        """
        file, (txt, wildcard) = await asyncio.gather(self._file(host), self._txt(host, label))
        return Published(file, txt, wildcard)

    async def _file(self, host: str) -> frozenset[str] | Finding:
        port = "" if self.https_port == 443 else f":{self.https_port}"
        try:
            url = f"https://{host}{port}{FILE_PATH}"
            found = await fetch_async(url, self.egress, MEDIA_TYPES, MOST_FILE_BYTES)
        except Refused as refusal:
            rule = Rule.DOMAIN_ABSENT if refusal.rule is Rule.FETCH_ABSENT else refusal.rule
            return _finding(rule, host, Way.FILE, refusal.findings[0].hint)
        return parse_file(found.data)

    async def _txt(self, host: str, label: str) -> tuple[frozenset[str] | Finding, frozenset[str]]:
        """Return the values at the host's name, and those that a wildcard answers with."""
        try:
            async with asyncio.timeout(self.egress.seconds):
                values = parse_txt(await self._ask(f"{TXT_LABEL}.{host}"))
                wildcard = parse_txt(await self._ask(f"{label}.{host}")) if values else frozenset[str]()
                return values, wildcard
        except (TimeoutError, Refused):
            return _finding(Rule.DOMAIN_DNS, host, Way.TXT), frozenset()

    async def _ask(self, name: str) -> Sequence[Sequence[bytes]]:
        """Ask for the TXT records of a name; none if the name or its records do not exist.

        Raises:
            Refused: ``domain.dns``.
        """
        with foreign_code(Refused, Rule.DOMAIN_DNS, Where(Part.FETCHED)):
            resolver = dns.asyncresolver.Resolver(configure=not self.nameservers)
            if self.nameservers:
                resolver.nameservers, resolver.port = [*self.nameservers], self.dns_port
            try:
                answer = await resolver.resolve(f"{name}.", "TXT", search=False, lifetime=self.egress.seconds)
            except (dns.resolver.NXDOMAIN, dns.resolver.NoAnswer):
                return ()
            return [one.strings for one in answer][:_MOST_STRINGS]


def _finding(rule: Rule, host: str, way: Way, hint: str = "") -> Finding:
    return Finding(rule, Where(Part.FETCHED, (host, way.value)), hint, Level.WARNING)
