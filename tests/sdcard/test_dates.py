"""Every date that is read, and every number that is none: a typed refusal at its place."""

import ast
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import pytest

from sdcard import Misuse, Refused, Unbound, parse_trusted_issuers
from sdcard.audit_chain import verify_checkpoint
from sdcard.cli.options import parse_instant
from sdcard.encoding import encode_base64url
from sdcard.instants import MAX_INSTANT
from sdcard.jose.jws import Signer, join_signature
from sdcard.oauth import parse_access_token, verify_access_token
from sdcard.policy.document import parse_policy
from sdcard.transparency.promises import verify_log_promise
from sdcard.trust import verify_trust_list
from sdcard.vectors import parse_vector
from tests import identity
from tests.sdcard import test_audit_chain as checkpoints
from tests.sdcard import test_dpop as dpop
from tests.sdcard import test_possession as possession
from tests.sdcard import test_status_list as status_lists
from tests.sdcard import test_trust as trust_lists
from tests.sdcard.transparency import test_promises as promises
from tests.shared import ROOT
from tests.sources import PRODUCT, files, name_of, tree
from tests.world import ISSUER, NOW, World, decode_part, outcome
from vectors.actors import ISSUER as PROMISER

MARK = 77_777_777
"""Stands for the number under test, until the token is signed again."""
BEYOND = {
    "claim.value": ("-1", "-0.5", str(MAX_INSTANT + 1), "1e300", "-1e300", "1E16", "1" + "0" * 399, "-1" + "0" * 399),
    "json.number": ("1e400", "-1e400", "NaN", "Infinity", "-Infinity", "1" + "0" * 5_000, "0.1000000000000000055"),
    "claim.type": ("true", "false", "null", '"1800000000"', "[1800000000]", "{}"),
}
USABLE = ("0", "-0.0", "1.5", "1E3", str(NOW), f"{NOW}.25", str(MAX_INSTANT), f"{MAX_INSTANT}.5")


@dataclass(frozen=True)
class Place:
    """A date: where it is, a document with ``MARK`` there, what signed the document, and what reads it."""

    where: str
    document: str
    signer: Signer | None
    verify: Callable[[str], object]

    def read(self, literal: str) -> object:
        """Read the document with another number in the place of the mark, signed again."""
        if self.signer is None:
            return self.verify(self.document.replace(str(MARK), literal))
        tail = "~" if self.document.endswith("~") else ""
        before, tilde, token = self.document.removesuffix("~").rpartition("~")
        header, payload, _ = token.split(".")
        claims = json.dumps(decode_part(payload)).replace(str(MARK), literal)
        signing_input = f"{header}.{encode_base64url(claims.encode())}".encode()
        signed = join_signature(signing_input, self.signer.sign(signing_input))
        return self.verify(f"{before}{tilde}{signed}{tail}")


def places() -> Iterator[Place]:
    """Return a place for each claim that is read as a date."""
    world = World()
    issuer, holder, verifier = world.issuer, world.holder, world.verifier
    for name in ("exp", "nbf", "iat"):
        text = f"{issuer.sign(issuer.claims({name: MARK}))}~"
        yield Place(f"issuer-jwt/{name}", text, issuer.signer, lambda text: verifier.verify(text, Unbound("dates")))
        text = holder.bind(holder.unbound(), world.challenge, {name: MARK})
        unsolicited = verifier.unsolicited()
        yield Place(f"kb-jwt/{name}", text, holder.signer, partial(verifier.verify, expected=unsolicited))
        yield Place(f"dpop/{name}", dpop.made({name: MARK}), dpop.CLIENT, dpop.verify)
        yield Place(f"access-token/{name}", identity.access_token({name: MARK}), identity.SIGNER, verify_token)
    for name in ("iat", "exp"):
        yield Place(f"trust/{name}", trust_lists.signed({name: MARK}), trust_lists.SIGNER, verify_list)
    for name in ("iat", "exp", "ttl"):
        yield Place(
            f"status-list/{name}",
            status_lists.token(None, status_lists.KEY, **{name: MARK}),
            status_lists.KEY,
            status_lists.verify,
        )
    yield Place("possession/iat", possession.made({"iat": MARK}), possession.HOLDER, possession.verify)
    yield Place("audit-checkpoint/iat", checkpoints.signed(iat=MARK), checkpoints.SIGNER, verify_one_checkpoint)
    for name in ("iat", "by"):
        yield Place(f"log/{name}", promises.signed({name: MARK}), PROMISER, verify_promise)
    document = json.dumps({"issuers": {ISSUER: {"keys": [dict(issuer.signer.public_key.to_jwk())]}}, "exp": MARK})
    yield Place("trust/exp", document, None, lambda text: parse_trusted_issuers(text.encode()))


def verify_token(text: str) -> object:
    return verify_access_token(parse_access_token(text), identity.SIGNER.public_key, identity.SERVER, ISSUER, NOW)


def verify_list(text: str) -> object:
    return verify_trust_list(text, trust_lists.PINNED, NOW)


def verify_one_checkpoint(text: str) -> object:
    return verify_checkpoint(text, checkpoints.KEYS)


def verify_promise(text: str) -> object:
    return verify_log_promise(text, promises.TRUSTED, NOW)


PLACES = list(places())


@pytest.mark.parametrize("rule", BEYOND)
@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.where)
def test_a_number_that_is_no_date_is_refused_at_its_place(place: Place, rule: str) -> None:
    at = place.where.partition("/")[0] if rule == "json.number" else place.where
    for literal in BEYOND[rule]:
        with pytest.raises(Refused) as caught:
            place.read(literal)
        assert (str(caught.value.rule), str(caught.value.where)) == (rule, at), literal[:20]


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.where)
def test_a_date_is_never_refused_as_a_number(place: Place) -> None:
    for literal in USABLE:
        found = outcome(lambda literal=literal: place.read(literal))  # type: ignore[misc]  # is bound at once
        zero = place.where == "status-list/ttl" and float(literal) == 0
        assert zero or not isinstance(found, Refused) or found.rule.split(".")[0] not in ("claim", "json"), literal


READERS = {
    "sdcard/jose/claims.py:check_not_expired": ("issuer-jwt/exp", "kb-jwt/exp", "dpop/exp"),
    "sdcard/jose/claims.py:check_already_valid": ("issuer-jwt/nbf", "kb-jwt/nbf", "dpop/nbf", "access-token/nbf"),
    "sdcard/jose/claims.py:check_already_issued": ("issuer-jwt/iat", "trust/iat"),
    "sdcard/jose/claims.py:check_freshness": ("kb-jwt/iat", "possession/iat", "dpop/iat"),
    "sdcard/acceptance.py:check_terms": ("issuer-jwt/iat", "issuer-jwt/exp"),
    "sdcard/acceptance.py:_check_rules": ("issuer-jwt/iat", "issuer-jwt/exp", "issuer-jwt/nbf"),
    "sdcard/cli/explain.py:_explain_claims": ("issuer-jwt/iat", "issuer-jwt/exp"),
    "sdcard/oauth.py:verify_access_token": ("access-token/iat", "access-token/exp"),
    "sdcard/trust.py:read_trusted_issuers": ("trust/exp",),
    "sdcard/status_list.py:verify_status_list_token": ("status-list/iat", "status-list/exp"),
    "sdcard/status_list.py:_ttl": ("status-list/ttl",),
    "sdcard/audit_chain.py:verify_checkpoint": ("audit-checkpoint/iat",),
    "sdcard/transparency/promises.py:verify_log_promise": ("log/iat", "log/by"),
    "sdcard/instants.py:read_numeric_date": (),
    "issuer_service/delegation/service.py:_last_second": ("access-token/exp",),
}
"""Functions that read dates, and the places where they do."""
OTHERS = {
    "sdcard/linkability/comparison.py:of": "compares without verifying; what is no instant is text to it",
    "sdcard/cli/explain.py:_comparisons": "only shows it; what is no instant is shown as text",
    **dict.fromkeys(
        (
            *("sdcard/vectors/cards.py:run_published", "sdcard/vectors/cards.py:run_issue"),
            *("sdcard/vectors/tokens.py:_trust_list", "sdcard/vectors/tokens.py:_status_list"),
            "sdcard/vectors/tokens.py:_delegated_token",
        ),
        "a member of a vector, which its JSON Schema checks",
    ),
    "sdcard/io/registry_answers.py:read_registered": "a whole number, which only says when to renew",
}
_DATES = {"exp", "nbf", "iat", "ttl"}
_PARSERS = {"parse_numeric_date", "read_numeric_date"}


def functions() -> Iterator[tuple[str, ast.AST]]:
    for file in files(*PRODUCT):
        for one in ast.walk(tree(file)):
            if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef):
                yield f"{name_of(file)}:{one.name}", one


def takes_a_date(function: ast.AST) -> bool:
    """Whether it takes a claim with the name of a date out of something."""
    for one in ast.walk(function):
        named: list[ast.expr] = []
        if isinstance(one, ast.Subscript) and isinstance(one.ctx, ast.Load):
            named = [one.slice]
        elif isinstance(one, ast.Call) and isinstance(one.func, ast.Attribute) and one.func.attr in {"get", "pop"}:
            named = one.args[:1]
        elif isinstance(one, ast.Call) and isinstance(one.func, ast.Name) and one.func.id == "required":
            named = one.args[1:2]
        if any(isinstance(name, ast.Constant) and name.value in _DATES for name in named):
            return True
    return False


def test_every_function_that_reads_a_date_is_in_the_table_with_its_places() -> None:
    calling = {
        name
        for name, function in functions()
        for one in ast.walk(function)
        if isinstance(one, ast.Call) and isinstance(one.func, ast.Name) and one.func.id in _PARSERS
    }
    assert calling == set(READERS)
    assert {where for named in READERS.values() for where in named} == {place.where for place in PLACES}


def test_no_date_is_taken_out_of_a_document_but_by_the_one_parser() -> None:
    taking = {name for name, function in functions() if takes_a_date(function)}
    assert taking - READERS.keys() == OTHERS.keys()


# -- dates that are in no claim ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("literal", ["-1", str(MAX_INSTANT + 1), "1e300", "1" + "0" * 399, "true", '"1e300"', "1.5"])
@pytest.mark.parametrize("name", ["expires", "not_before"])
def test_an_agreement_with_no_date_is_refused_by_the_policys_own_rule(name: str, literal: str) -> None:
    dates = {"expires": str(NOW), name: literal}
    members = ",".join(f'"{one}":{date}' for one, date in dates.items())
    with pytest.raises(Refused) as caught:
        parse_policy(f'{{"agreements":[{{"partner":"p","discloses":["name"],{members}}}]}}'.encode())
    assert (str(caught.value.rule), str(caught.value.where)) == ("policy.malformed", f"policy/agreements/0/{name}")


@pytest.mark.parametrize("literal", ["inf", "nan", "-inf", "1e300", "0001-01-01T00:00:00Z"])
def test_an_agreement_in_toml_with_no_date_is_refused(literal: str) -> None:
    text = f'[[agreements]]\npartner = "p"\ndiscloses = ["name"]\nexpires = {literal}\n'
    with pytest.raises(Refused):
        parse_policy(text.encode())


@pytest.mark.parametrize(
    "text", ["", "-1", str(MAX_INSTANT + 1), "1e300", "1" + "0" * 399, "nan", "0001-01-01T00:00:00Z", "1.5", "\u0661"]
)
def test_an_option_takes_an_instant_or_says_what_it_takes(text: str) -> None:
    with pytest.raises(Misuse, match="--now takes"):
        parse_instant(text, "--now")


@pytest.mark.parametrize("literal", ["-1", str(MAX_INSTANT + 1), "1e300", "1" + "0" * 399, "true", '"now"', "null"])
def test_a_vector_has_a_now_that_is_an_instant(literal: str) -> None:
    vector = (ROOT / "vectors" / "times" / "exp-now.json").read_text("utf-8")
    with pytest.raises(Misuse, match=r"^now: "):
        parse_vector(vector.replace(f'"now": {NOW}', f'"now": {literal}').encode())
