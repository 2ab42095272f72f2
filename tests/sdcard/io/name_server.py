"""A DNS server on loopback, by UDP and TCP, whose answers a test chooses; and hosts that publish proofs of control."""

import socket
import socketserver
import ssl
import struct
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeAlias

import dns.flags
import dns.message
import dns.name
import dns.rcode
import dns.rdatatype
import dns.resolver
import dns.rrset
import trustme

from sdcard.io.domain_lookups import DomainLookups
from sdcard.io.egress_policy import LOOPBACK, EgressPolicy
from tests.sdcard.io.fetchers import RawServer, ok, sending, serving

Answer: TypeAlias = "Sequence[str] | dns.rcode.Rcode | None"
"""Records as text, a code, or silence."""


@dataclass
class NameServer:
    """Answers from ``records``: name and type → answer. A name that begins with ``*.`` is a wildcard.

    A CNAME is the only record of its name. ``asked`` has every question.
    """

    port: int = 0
    records: dict[tuple[str, str], Answer] = field(default_factory=dict)
    asked: list[tuple[str, str]] = field(default_factory=list)

    def find(self, name: str, kind: str) -> Answer:
        for owner in (name, *(f"*.{name.split('.', start)[-1]}" for start in range(1, name.count(".") + 1))):
            if (owner, kind) in self.records:
                return self.records[owner, kind]
            if any(known == owner for known, _ in self.records):
                return ()
        return dns.rcode.NXDOMAIN

    def answer(self, data: bytes, most: int) -> bytes | None:
        query = dns.message.from_wire(data)
        question = query.question[0]
        name, kind = question.name.to_text(omit_final_dot=True).lower(), dns.rdatatype.to_text(question.rdtype)
        self.asked.append((name, kind))
        reply = dns.message.make_response(query, recursion_available=True)
        while True:
            target = self.records.get((name, "CNAME"))
            if not isinstance(target, Sequence):
                break
            reply.answer.append(dns.rrset.from_text(f"{name}.", 60, "IN", "CNAME", f"{target[0]}."))
            name = target[0]
        found = self.find(name, kind)
        if found is None:
            return None
        if isinstance(found, dns.rcode.Rcode):
            reply.set_rcode(found)
        elif found:
            reply.answer.append(dns.rrset.from_text(f"{name}.", 60, "IN", kind, *found))
        try:
            return reply.to_wire(max_size=most)
        except dns.exception.TooBig:
            reply.answer.clear()
            reply.flags |= dns.flags.TC
            return reply.to_wire()

    def resolve(self, host: str, port: int) -> Sequence[str]:
        """Resolve a host to addresses, for an ``EgressPolicy``."""
        resolver = dns.resolver.Resolver(configure=False)
        resolver.nameservers, resolver.port = ["127.0.0.1"], self.port
        try:
            return [str(one) for one in resolver.resolve(f"{host}.", "A", search=False, lifetime=2)]
        except dns.exception.DNSException:
            raise OSError("no address") from None


@contextmanager
def name_server() -> Iterator[NameServer]:
    """A name server for as long as the block."""
    server = NameServer()

    class Udp(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            answer = server.answer(self.request[0], 512)
            if answer is not None:
                self.request[1].sendto(answer, self.client_address)

    class Tcp(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.settimeout(2)
            (size,) = struct.unpack("!H", self.request.recv(2, socket.MSG_WAITALL))
            answer = server.answer(self.request.recv(size, socket.MSG_WAITALL), 65_535)
            if answer is not None:
                self.request.sendall(struct.pack("!H", len(answer)) + answer)

    with socketserver.ThreadingUDPServer(("127.0.0.1", 0), Udp) as udp:
        server.port = udp.server_address[1]
        with socketserver.ThreadingTCPServer(("127.0.0.1", server.port), Tcp) as tcp:
            for one in (udp, tcp):
                threading.Thread(target=one.serve_forever, args=(0.02,), daemon=True).start()
            yield server
            udp.shutdown()
            tcp.shutdown()


@dataclass
class Hosts:
    """Names that lead to one https server on loopback, and the look-ups that find both."""

    names: NameServer
    https: RawServer
    lookups: DomainLookups

    def publish(self, values: Sequence[str], status: str = "200 OK", media_type: str = "text/plain") -> None:
        """Serve the file at every name."""
        body = "".join(f"{value}\n" for value in values).encode()
        self.https.answer = sending(ok(body, media_type).replace(b"200 OK", status.encode(), 1))

    def txt(self, name: str, *values: str) -> None:
        """Publish TXT records at a name."""
        self.names.records[name, "TXT"] = [f'"{value}"' for value in values]

    def address(self, name: str, *addresses: str) -> None:
        self.names.records[name, "A"] = list(addresses or ("127.0.0.1",))


@contextmanager
def hosts(*certified: str, seconds: float = 2.0) -> Iterator[Hosts]:
    """Hosts that publish nothing yet. Their certificate is for these names."""
    authority, tls = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(*certified).configure_cert(tls)
    with name_server() as names, serving(sending(b"HTTP/1.1 404 no\r\n\r\n"), tls=tls) as https:
        pem = authority.cert_pem.bytes().decode()
        egress = EgressPolicy(LOOPBACK.networks, pem, names.resolve, seconds)
        found = Hosts(names, https, DomainLookups(egress, ("127.0.0.1",), names.port, https.port))
        for name in certified:
            found.address(name)
        yield found
