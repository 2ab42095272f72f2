"""Whatever outlives a request is bounded, and strangers cannot fill what others need. A new place fails here."""

import ast
from collections.abc import Iterator
from enum import StrEnum

from issuer_service.db.tables import metadata
from sdcard.io.sql_replay_cache import _METADATA as RECORDS
from tests.shared import ROOT
from tests.sources import PRODUCT, files, name_of, tree

KEEPING = {
    *(
        "OrderedDict",
        "VerificationCache",
        "Semaphore",
        "WeakValueDictionary",
        "WeakKeyDictionary",
        "deque",
        "defaultdict",
        "Queue",
    ),
    *(
        "TokenBuckets",
        "ConcurrencyLimit",
        "FairSemaphore",
        "_UsedNonces",
        "ThreadPoolExecutor",
        "Queue",
        "dict",
        "list",
        "set",
        "lru_cache",
        "cache",
    ),
}


class Why(StrEnum):
    """Reasons why strangers cannot fill a place at the expense of others."""

    WORK = "lives for one piece of work, whose size is limited"
    CODE = "its keys are in the code, the settings or the policy"
    SPEED = "bounded, and what is pushed out is computed again"
    VERIFIED = "bounded, and entered by what a trusted key signed"
    ADMITTED = "bounded, entered last; full refuses"
    EACH = "a share for each caller"
    OWNED = "the process's own resources, of fixed number"


PLACES: dict[Why, str] = {
    Why.WORK: """
        sdcard/audit_chain.py:ChainVerifier._checkpoints sdcard/audit_chain.py:ChainVerifier._findings
        sdcard/transparency/tree.py:TileNodes._tiles sdcard/transparency/policy.py:_PolicyLines._logs
        sdcard/transparency/policy.py:_PolicyLines._witnesses sdcard/transparency/policy.py:_PolicyLines._groups
        sdcard/transparency/policy.py:_PolicyLines._quorums
        sdcard/conformance/route.py:Route.control sdcard/conformance/services.py:Service.registered
        sdcard/conformance/services.py:Service.known
        sdcard/cards/conversion.py:Losses._found sdcard/cards/conversion.py:Losses._spelt
        sdcard/cards/a2a/signed_form.py:_Reading.unsigned
        sdcard/cards/documents.py:_Builder.findings sdcard/cards/documents.py:_Builder._open
        sdcard/cards/kno/conversion.py:_Converter._lost sdcard/policy/plan.py:_Walk.shown
        issuer_service/db/state_check.py:_Comparison._findings issuer_service/db/log_check.py:_Tree._right
        issuer_service/db/log_check.py:_Tree._unknown issuer_service/db/log_check.py:_Tree._padding
        sdcard/paths.py:PathNode.parts sdcard/policy/rules.py:Position._inside
        issuer_service/discovery/renewal.py:_Failures.positions
        issuer_service/discovery/renewal.py:_Failures.not_tried
        sdcard/salts.py:SaltPool._waiting sdcard/salts.py:SaltPool._drawn
        sdcard/sdjwt/issuance.py:_Embedder.disclosures sdcard/sdjwt/verification.py:_Walk.met
        sdcard/sdjwt/verification.py:_Walk.revealed sdcard/sdjwt/verification.py:_Walk.partly
        sdcard/sdjwt/verification.py:_Walk.emptied sdcard/parallel_verifier.py:_PendingCache._waiting
        sdcard/parallel_verifier.py:_Attempt._noted sdcard/parallel_verifier.py:_Work._noted
        sdcard/parallel_verifier.py:_Work._helpers
        issuer_service/importing.py:Importing.pending issuer_service/agents/reading.py:_Findings.all
        issuer_service/audit/records.py:AuditRow.disclosed
        sdcard/testing.py:FakeRegistry._revoked sdcard/testing.py:FakeRegistry._issued
        sdcard/transparency/policy.py:_PolicyLines._addresses
        sdcard/disclosable.py:DisclosableObject.layout sdcard/disclosable.py:DisclosableArray.layout
        sdcard/policy/plan.py:DisclosurePlan.templates
    """,
    Why.CODE: """
        sdcard/cards/a2a/signed_form.py:Message.variants
        sdcard/cards/schema.py:Object.members sdcard/cards/schema.py:Object.legacy
        sdcard/policy/context.py:DisclosureContext.narrowed sdcard/policy/model.py:DisclosurePolicy.groups
        sdcard/policy/model.py:DisclosurePolicy._rules sdcard/issuer.py:Issuer._headers
        sdcard/trust.py:TrustedIssuers.status_keys sdcard/trust.py:TrustedIssuers.roots
        sdcard/requesting.py:_NOTHING sdcard/requesting.py:_known_group sdcard/requesting.py:_known_about
        sdcard/io/pkcs11.py:Pkcs11Token._keys
        sdcard/io/statements.py:Statement._rendered sdcard/io/statements.py:Additions._rendered
        sdcard/io/used_nonces.py:_sql sdcard/io/used_nonces.py:_lookup sdcard/io/used_nonces.py:_statement
        issuer_service/access.py:AuthorizationServer.limits issuer_service/agents/audiences.py:_named
        issuer_service/importing.py:_process issuer_service/keys/ring.py:KeyRing._opened
        issuer_service/monitoring.py:Metrics._of_request issuer_service/settings.py:Settings.authorization_limits
        issuer_service/discovery/postings_repository.py:_key issuer_service/discovery/repository.py:_counting
        issuer_service/discovery/repository.py:_finding issuer_service/db/migrations/__init__.py:head
        issuer_service/status/repository.py:_open issuer_service/db/state.py:Compared.apart
        issuer_service/container.py:_plain_formats issuer_service/wellknown.py:inspector_page
        issuer_service/wellknown.py:_schema
    """,
    Why.SPEED: """
        sdcard/cards/schema.py:snake_case sdcard/cards/schema.py:_spellings
        issuer_service/rate_limit.py:_parse issuer_service/request_context.py:digest_of
        issuer_service/tokens.py:_token_of issuer_service/container.py:StatusPublishing.tokens
    """,
    Why.VERIFIED: """
        sdcard/verification_cache.py:VerificationCache._entries sdcard/verification_cache.py:VerificationCache._order
        sdcard/web/authenticate.py:Authenticator._cache sdcard/io/verifier.py:Verifier._cache
        sdcard/web/presenter.py:Presenter.cache
        sdcard/agent_proof.py:AgentProver.cache sdcard/web/clients.py:AgentSession._cache
        issuer_service/container.py:Container.verification_cache
        sdcard/io/status_lists.py:FetchedStatusLists._kept sdcard/io/status_lists.py:FetchedStatusLists._coming
    """,
    Why.ADMITTED: """
        sdcard/io/replay_cache.py:_UsedNonces._until sdcard/io/replay_cache.py:_UsedNonces._ends
        sdcard/io/replay_cache.py:_UsedNonces._forgotten sdcard/io/replay_cache.py:MemoryReplayRecord._used
        sdcard/io/replay_cache.py:_OfProcess.used
    """,
    Why.EACH: """
        issuer_service/rate_limit.py:TokenBuckets._levels issuer_service/rate_limit.py:ConcurrencyLimit._places
        issuer_service/rate_limit.py:FairSemaphore._own issuer_service/container.py:Container.turns
        issuer_service/container.py:Container.shares
    """,
    Why.OWNED: """
        sdcard/io/agent.py:Agent._shown
        sdcard/io/database.py:Database._turns sdcard/io/database.py:Database._threads
        sdcard/io/lookups.py:SqliteLookups._places sdcard/io/lookups.py:SqliteLookups._threads
        sdcard/io/lookups.py:_Lane._places sdcard/io/lookups.py:_Lane._idle
        issuer_service/rate_limit.py:FairSemaphore._all issuer_service/monitoring.py:Readiness._asked
    """,
}
TABLES = {
    "used_nonces": "a million at most; a row comes with a registration or exchange, which stores more",
    "answers": "64 MiB for each subject, for a day",
    "approvals": "100 open ones for each client; listed in pages",
    "reviews": "100 pending ones for each owner, one for each agent; a card of 256 KiB until it is used or ends",
    "sessions": "16 for each token, for an hour",
    "remembered": "a row comes with an exchange or a revocation, and leaves with its token",
    **dict.fromkeys(("agent_checks", "domain_proofs"), "a row for each agent: 16 hosts, 16 kB for each, 100 findings"),
    **dict.fromkeys(("log_tiles", "log_head"), "batches of one size at fixed intervals, which the operator chooses"),
    **dict.fromkeys(
        ("tokens", "grants", "registry_keys", "secrets", "alembic_version", "heartbeats"), "the operator's"
    ),
    **dict.fromkeys(
        ("agents", "holder_keys", "batches", "cards", "status_lists", "status_entries", "delegations", "audit")
        + ("audit_head", "audit_waiting", "discovery_cards", "discovery_postings", "log_leaves"),
        "what callers with a token register, within their rate; nothing in it is bounded for all",
    ),
}


def _name(node: ast.expr) -> str:
    while isinstance(node, ast.Call | ast.Subscript):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _keeps(value: ast.expr) -> bool:
    """Whether a value begins empty and can grow, or is a cache, a queue or a pool."""
    if isinstance(value, ast.IfExp):
        return _keeps(value.body) or _keeps(value.orelse)
    if isinstance(value, ast.Dict | ast.List | ast.Set):
        return not (value.keys if isinstance(value, ast.Dict) else value.elts)
    if not isinstance(value, ast.Call):
        return False
    made = [one.value for one in value.keywords if one.arg == "default_factory"] if _name(value) == "field" else [value]
    return any(_name(one.body if isinstance(one, ast.Lambda) else one) in KEEPING for one in made)


def _assigned(node: ast.Assign | ast.AnnAssign) -> Iterator[tuple[ast.expr, ast.expr]]:
    for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
        if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
            yield from zip(target.elts, node.value.elts, strict=True)
        elif node.value is not None:
            yield target, node.value


def places(node: ast.AST, scope: tuple[str, ...], in_function: bool) -> Iterator[str]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            if any(_name(one) in {"lru_cache", "cache"} for one in child.decorator_list):
                yield ".".join((*scope, child.name))
            yield from places(child, scope, True)
        elif isinstance(child, ast.ClassDef):
            yield from places(child, (*scope, child.name), False)
        elif isinstance(child, ast.Assign | ast.AnnAssign):
            for target, value in _assigned(child):
                if _keeps(value) and (isinstance(target, ast.Attribute) or not in_function):
                    yield ".".join((*scope, target.attr if isinstance(target, ast.Attribute) else ast.unparse(target)))
        else:
            yield from places(child, scope, in_function)


def found() -> set[str]:
    """List attributes and module names that begin empty and outlive a call, and caches."""
    paths = [path for path in files(*PRODUCT) if not {"cli", "versions"} & set(path.parts)]
    return {f"{name_of(path)}:{one}" for path in paths for one in places(tree(path), (), False)}


def test_every_place_that_keeps_something_says_why_strangers_cannot_fill_it() -> None:
    listed = [place for places in PLACES.values() for place in places.split()]
    assert len(listed) == len(set(listed))
    assert found() - set(listed) == set(), "new places: say why, and mend those that have no reason"
    assert set(listed) - found() == set()


def test_every_table_says_how_it_is_bounded() -> None:
    assert set(metadata.tables) - set(TABLES) == set(), "new tables: say how, here and in docs/threats.md"
    assert {one for one in RECORDS.tables} == {"sdcard_nonce_uses", "sdcard_answered_challenges"}


def test_what_strangers_could_fill_is_in_the_threats() -> None:
    section = (ROOT / "docs/threats.md").read_text().partition("## Resource limits")[2].partition("\n## ")[0]
    fillable = ("used nonces", "approvals", "answers", "sessions", "rate buckets", "large operations", "metrics")
    assert [what for what in fillable if what not in section.lower()] == []


def test_a_new_place_is_found() -> None:
    source = """
_kept = {}
_known: dict[str, int] = {}
class A:
    most: list[int] = field(default_factory=list)
    def __init__(self, cache=None):
        self._a, self.b = OrderedDict(), 1
        self._c = cache or 1
        local = {}
@lru_cache(64)
def f(): ...
"""
    assert set(places(ast.parse(source), (), False)) == {"_kept", "_known", "A.most", "A._a", "f"}
