"""Cases of domain control: what the hosts of a card publish, and what that proves."""

import json
from collections.abc import Iterator

from sdcard.domain_control import DomainTerms
from sdcard.encoding import JsonObject, JsonValue
from vectors.actors import HOLDER, ISSUER_ID, STRANGER
from vectors.case import Case

STANDARD = "domain control"
HOST, PROVIDER = "georoute.example", "geo.example"
OWNER = "geo"
ENDPOINT = "card/supportedInterfaces/0/url"
THUMBPRINT, OTHER_THUMBPRINT = HOLDER.public_key.thumbprint, STRANGER.public_key.thumbprint


def values(host: str, *thumbprints: str, issuer: str = ISSUER_ID, owner: str = OWNER) -> list[str]:
    """The values that a host publishes."""
    return list(DomainTerms(issuer, owner, thumbprints or (THUMBPRINT,)).values(host))


def published(*lines: str, txt: list[str] | None = None, wildcard: list[str] | None = None) -> JsonObject:
    """Lines of a host's file, and its TXT records of one string each."""
    return {
        "file": "".join(f"{line}\n" for line in lines),
        "txt": [[one] for one in txt or []],
        "wildcard": [[one] for one in wildcard or []],
    }


def controls(card: JsonObject) -> Iterator[Case]:
    """Hosts of a card with one endpoint and a provider."""
    good: JsonObject = {HOST: published(*values(HOST)), PROVIDER: published(*values(PROVIDER))}

    def case(name: str, about: str, *rules: str, url: str = f"https://{HOST}/a2a", **more: JsonValue) -> Case:
        interface = {"url": url, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
        document = json.dumps({**card, "supportedInterfaces": [interface]})
        expectations: JsonObject = {"issuer": ISSUER_ID, "owner": OWNER, "thumbprints": [THUMBPRINT], "published": good}
        given = expectations | more
        named = [HOST, PROVIDER] if url == f"https://{HOST}/a2a" else [PROVIDER]
        thumbprints = given["thumbprints"]
        assert isinstance(thumbprints, list)
        shown: JsonObject = {host: list[JsonValue](values(host, *map(str, thumbprints))) for host in named}
        findings = tuple([f"{rule} at {ENDPOINT} (warning)" for rule in rules])
        kind = "domain-control"
        return Case(name, about, STANDARD, document, kind=kind, expectations=given, result=shown, findings=findings)

    def of_host(name: str, about: str, *rules: str, **what: JsonObject) -> Case:
        return case(name, about, *rules, published={**good, HOST: what["host"]})

    yield case("file", "both hosts have the file")
    yield of_host("txt", "a TXT record", host=published(txt=values(HOST)))
    yield of_host("txt-in-two-strings", "a TXT record of two strings",
                  host={**published(), "txt": [[values(HOST)[0][:20], values(HOST)[0][20:]]]})  # fmt: skip
    yield of_host("among-others", "other lines, white space and carriage returns",
                  host=published("# ours", f" {values(HOST)[0]}\t\r", values(HOST, OTHER_THUMBPRINT)[0]))  # fmt: skip
    keys = (THUMBPRINT, OTHER_THUMBPRINT)
    both, of_provider = list[JsonValue](keys), published(*values(PROVIDER, *keys))
    halves = published(values(HOST)[0], txt=values(HOST, OTHER_THUMBPRINT))
    yield case("two-keys", "a value for each key, one of them in DNS", thumbprints=both,
               published={HOST: halves, PROVIDER: of_provider})  # fmt: skip
    yield case("two-keys-one-value", "the value of a key is missing", "domain.absent", "domain.absent",
               thumbprints=both, published={HOST: good[HOST], PROVIDER: of_provider})  # fmt: skip
    yield case("pending", "a host was not checked", "domain.pending", published={PROVIDER: good[PROVIDER]})
    yield of_host("absent", "nothing is published", "domain.absent", "domain.absent", host=published())
    for name, about, lines in (
        ("other-registry", "a value for another registry", values(HOST, issuer="https://other.example")),
        ("other-owner", "a value for another owner", values(HOST, owner="stranger")),
        ("other-key", "a value for another key", values(HOST, OTHER_THUMBPRINT)),
        ("other-host", "a value for another host", values(PROVIDER)),
        ("parent", "a value for the parent domain", values("example")),
    ):
        yield of_host(name, about, "domain.other", "domain.absent", host=published(*lines))
    for name, about, line in (
        ("joined", "two values in one line", values(HOST)[0] * 2),
        ("quoted", "a value in quotes", f'"{values(HOST)[0]}"'),
        ("cut", "a value that is cut", values(HOST)[0][:-1]),
    ):
        yield of_host(name, about, "domain.absent", "domain.absent", host=published(line))
    yield of_host("wildcard", "every name of the host has the record", "domain.absent",
                  "domain.wildcard", host=published(txt=values(HOST), wildcard=values(HOST)))  # fmt: skip
    yield of_host("wildcard-beside-the-file", "the file counts beside a wildcard",
                  host=published(*values(HOST), txt=values(HOST), wildcard=values(HOST)))  # fmt: skip
    for name, about, url in (
        ("address", "an IP address", "https://192.0.2.1/a2a"),
        ("not-ascii", "a name outside of ASCII", "https://geor\u00f6ute.example/a2a"),
        ("last-dot", "a last dot", f"https://{HOST}./a2a"),
    ):
        yield case(name, about, "domain.host", url=url)
