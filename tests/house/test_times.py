"""Every place that keeps something with a time, or compares a time with the clock: a new place is not in the tables."""

import ast
from collections.abc import Iterator

from sqlalchemy import BigInteger, Double, MetaData

from issuer_service.db.tables import metadata
from sdcard.io.sql_replay_cache import _METADATA as RECORD_TABLES
from tests.sources import PRODUCT, files, name_of, tree

NUMBERS = {
    *("audit.sequence", "audit_head.sequence", "audit_waiting.number", "used_nonces.slot"),
    *("log_leaves.place", "log_tiles.number", "log_head.size", "log_head.published"),
    *("discovery_cards.position", "discovery_postings.term", "discovery_postings.position"),
}
"""Large numbers that are no instants."""
COLUMNS = {
    "tokens.created_at, tokens.expires_at": "TokenRow.is_in_force; in_force",
    "sessions.created_at, sessions.expires_at": "in_force; those of the future are the first to go",
    "grants.created_at, grants.expires_at": "in_force; one that is not can be added again",
    "approvals.asked_at, approvals.expires_at": "in_force; one that is not is asked for again",
    "reviews.asked_at, reviews.expires_at": "in_force; one that is not is asked for again; one in force has no end",
    "delegations.issued_at, delegations.expires_at": "in_force; revoked whatever the clock says",
    "batches.issued_at, cards.expires_at": "in_force; revoked for 90 days beyond their end, whatever the clock says",
    "discovery_cards.issued_at, discovery_cards.expires_at, discovery_cards.renew_at": "Lifetime; made again",
    "status_entries.expires_at": "an entry goes with its list, 90 days beyond the end of the last one",
    "status_entries.public_at": "one that is too far ahead is public at once, and made so (read_status_list)",
    "answers.expires_at": "in_force_for a day; another answer takes its place",
    "used_nonces.until": "the end of a nonce that was recognized; its instant is compared at both ends first",
    "remembered.expires_at": "never asked for its time; kept for 30 days beyond its end",
    "registry_keys.created_at, registry_keys.not_before": "a rotation counts its wait anew",
    "registry_keys.activated_at, registry_keys.retired_at": "shown; only the later of two prolongs what follows",
    "registry_keys.signs_until": "the end of what was signed, which says so; it only ever grows",
    "discovery_cards.until": "the end of an agreement, from the policy; no clock made it",
    "agent_checks.due_at, agent_checks.leased_until": "one that is too far ahead is past (_due)",
    "agent_checks.checked_at": "Lifetime; checked again",
    "agents.registered_at, agents.updated_at, agents.deleted_at": "shown",
    "holder_keys.bound_at": "shown",
    "delegations.revoked_at": "that it is there counts, not when",
    "log_leaves.at": "the order of what waits; each is taken when there is room",
    "log_head.batch_at": "one that is far ahead or far behind is followed by a batch at once (is_due)",
    "heartbeats.at": "one that is too far ahead is replaced, and serves nothing (Replica.current)",
    "audit.at": "shown and asked for; the order of records is their number",
}
"""Columns that hold instants, with what sees to both ends."""
RECORDS = {"sdcard_nonce_uses", "sdcard_challenges", "sdcard_answered_challenges"}
"""Tables of used nonces: ``until`` follows from what a Holder signed, which is compared at both ends."""


def columns(tables: MetaData) -> Iterator[str]:
    for table in tables.sorted_tables:
        for column in table.columns:
            if isinstance(column.type, BigInteger | Double):
                yield f"{table.name}.{column.name}"


def test_every_column_that_holds_an_instant_says_what_sees_to_both_ends() -> None:
    listed = [name for names in COLUMNS for name in names.split(", ")]
    assert sorted(columns(metadata)) == sorted([*listed, *NUMBERS])
    assert {name.partition(".")[0] for name in columns(RECORD_TABLES)} <= RECORDS


BOTH = "both ends are compared"
CLAIM = "a signed claim; iat, nbf and exp are each read and compared, together both ends"
DOCUMENT = "the end of a document that another party dates; no clock of ours made it"
SHOWN = "for people; nothing is decided by it"
NOW = "compares what is being made now with its bounds; nothing is kept"
COMPARISONS = {
    "sdcard/instants.py:Lifetime.covers": BOTH,
    "issuer_service/db/values.py:in_force": BOTH,
    "issuer_service/db/values.py:in_force_for": BOTH,
    "issuer_service/db/values.py:is_made": BOTH,
    "issuer_service/agents/nonces.py:_check": BOTH,
    "issuer_service/discovery/replica.py:Replica.measure": "one that is too far ahead is never used, and replaced",
    "sdcard/transparency/policy.py:LogPolicy.check_witnesses": "a cosignature stays true; a future one does not count",
    "sdcard/cli/explain.py:_compare_witnesses": "see `LogPolicy.check_witnesses`",
    "sdcard/cli/explain.py:_cosigned": "see `LogPolicy.check_witnesses`",
    "sdcard/transparency/promises.py:find_broken": "a broken promise stays broken; a clock behind reports it later",
    "sdcard/cli/log.py:monitor": "a beginning in the future becomes now (_load)",
    "sdcard/io/transparency.py:WitnessStore.accept": "an earlier time than the last cosignature's is refused",
    "sdcard/policy/context.py:Agreement.decides": DOCUMENT,
    "sdcard/policy/context.py:Agreement.is_in_force": BOTH,
    "sdcard/publishing.py:represent": BOTH,
    "sdcard/jose/claims.py:check_freshness": BOTH,
    "sdcard/jose/claims.py:check_not_expired": CLAIM,
    "sdcard/jose/claims.py:check_already_valid": CLAIM,
    "sdcard/jose/claims.py:check_already_issued": CLAIM,
    "sdcard/trust.py:TrustedIssuers.is_current": DOCUMENT,
    "sdcard/trust.py:TrustedIssuers.check_current": DOCUMENT,
    "sdcard/bound_tokens.py:OwnTokens._find": "the end that an operator chose; no clock made it",
    "issuer_service/agents/checks_repository.py:_due": "one that is too far ahead is past",
    "issuer_service/discovery/repository.py:_good": DOCUMENT,
    "issuer_service/discovery/repository.py:": "texts of rows whose both ends were looked at with the page",
    "issuer_service/discovery/endpoints.py:_renewed_page": "compares sets, of what _due gives",
    "issuer_service/discovery/endpoints.py:_due": "beside _is_stale, which compares both ends",
    "issuer_service/discovery/postings_repository.py:_renew": BOTH,
    "issuer_service/delegation/chain_repository.py:check_decider": "a token, both ends of which the request compared",
    "issuer_service/delegation/chain_repository.py:_statuses": "SD-Cards that were verified, both ends, when shown",
    "issuer_service/db/retention.py:_expired": "deletes 30 days beyond the end; answers at once",
    "issuer_service/db/retention.py:_nonce_ended": "deletes 30 days beyond the end",
    "issuer_service/db/retention.py:_list_ended": "deletes 90 days beyond the end",
    "issuer_service/db/retention.py:_card_ended": "deletes 90 days beyond the end",
    "issuer_service/db/retention.py:_batch_ended": "deletes rows that nothing refers to",
    "issuer_service/db/retention.py:_old_lists": "closes a list, which other lists replace",
    "issuer_service/agents/lifecycle_repository.py:delete_agent": "empties answers of an agent that is gone",
    "issuer_service/agents/lifecycle_repository.py:issued_for": SHOWN,
    "issuer_service/audit/repository.py:_asked": SHOWN,
    "issuer_service/status/repository.py:_live_entries": "revokes for 90 days beyond the end",
    "issuer_service/status/repository.py:_set_statuses": BOTH,
    "issuer_service/container.py:StatusPublishing.public_by": NOW,
    "issuer_service/keys/ring.py:is_published": "the end of what was signed; it only ever grows",
    "issuer_service/keys/service.py:rotate": BOTH,
    "issuer_service/keys/service.py:what_breaks": SHOWN,
    "issuer_service/access.py:create_token": NOW,
    "issuer_service/discovery/renewal.py:_issue": NOW,
    "sdcard/delegation_chain.py:narrowed_expiry": NOW,
    "sdcard/web/publish.py:_found": NOW,
    "sdcard/cli/policy.py:_not_in_force": SHOWN,
    "issuer_service/cli/token.py:_until": SHOWN,
    "issuer_service/status/repository.py:check_selected": "as `_live_entries`; lists unexpired ones",
}
"""Functions that compare something with the clock, with how both ends are seen to."""
FILES = {
    "sdcard/io/replay_cache.py": "used nonces: see RECORDS",
    "sdcard/io/used_nonces.py": "used nonces: see RECORDS",
    "sdcard/web/authenticate.py": "challenges, whose answers are fresh at both ends",
    "sdcard/nonces.py": "challenges, whose answers are fresh at both ends",
    "issuer_service/rate_limit.py": "a bucket of the future goes on from now",
}
"""Files whose comparisons are all of one kind."""


def comparisons() -> Iterator[str]:
    for file in files(*PRODUCT):
        if "migrations" not in file.parts:
            for name in _in(tree(file), ""):
                yield f"{name_of(file)}:{name}"


def _in(node: ast.AST, name: str) -> Iterator[str]:
    for child in ast.iter_child_nodes(node):
        inner = name
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            inner = f"{name}.{child.name}".removeprefix(".")
        if isinstance(child, ast.Compare) and _orders(child) and _names_the_clock(child):
            yield name
        yield from _in(child, inner)


def _orders(compare: ast.Compare) -> bool:
    return any(isinstance(one, ast.Lt | ast.LtE | ast.Gt | ast.GtE) for one in compare.ops)


def _names_the_clock(node: ast.AST) -> bool:
    names = {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}
    attributes = {one.attr for one in ast.walk(node) if isinstance(one, ast.Attribute)}
    return bool(names & {"now", "at", "_AT"} or attributes & {"now", "at", "since"})


def test_every_comparison_with_the_clock_says_how_both_ends_are_seen_to() -> None:
    found = {name for name in comparisons() if name.partition(":")[0] not in FILES}
    assert found == COMPARISONS.keys()
