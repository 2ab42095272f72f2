"""The tables, for SQLite and PostgreSQL.

Constraints, not code, make owners and key bindings unique.
"""

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    SmallInteger,
    Table,
    UniqueConstraint,
    false,
    text,
)

from issuer_service.db.values import StoredJson, StoredText
from sdcard.io.used_nonces import used_nonces_table

_IS_PAIRWISE, _THREADED, _PLACELESS = map(text, ("subject IS NOT NULL", "interaction_id IS NOT NULL", "place IS NULL"))
metadata = MetaData(
    naming_convention={"pk": "pk_%(table_name)s"}
    | {kind: f"{kind}_%(table_name)s_%(column_0_name)s" for kind in ("fk", "uq", "ix")}
)

tokens = Table(
    "tokens",
    metadata,
    Column("digest", StoredText(64), primary_key=True),
    Column("subject", StoredText(256), nullable=False),
    Column("scopes", StoredJson(), nullable=False),
    Column("limits", StoredJson(), nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("expires_at", BigInteger, nullable=False),
)

agents = Table(
    "agents",
    metadata,
    Column("agent_id", StoredText(128), primary_key=True),
    Column("folded_id", StoredText(128), nullable=False, unique=True),
    Column("subject", StoredText(256), nullable=False),
    Column("card_format", StoredText(64), nullable=False),
    Column("card", StoredText(), nullable=False),
    Column("registered_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    Column("asked", StoredText()),
    Column("possession", StoredText(16)),
    Column("batch_id", StoredText(32)),
    Column("card_version", StoredText()),
    Column("content", StoredText(64)),
    Column("deleted_at", BigInteger),
    Index("ix_agents_subject", "subject", "agent_id"),
)
"""When an agent is deleted, its row stays with id, subject and an empty card, so that no other subject gets the id."""

holder_keys = Table(
    "holder_keys",
    metadata,
    Column("thumbprint", StoredText(64), primary_key=True),
    Column("agent_id", ForeignKey("agents.agent_id"), nullable=False, index=True),
    Column("bound_at", BigInteger, nullable=False),
)

batches = Table(
    "batches",
    metadata,
    Column("batch_id", StoredText(32), primary_key=True),
    Column("agent_id", ForeignKey("agents.agent_id"), nullable=False, index=True),
    Column("issued_at", BigInteger, nullable=False, index=True),
)

cards = Table(
    "cards",
    metadata,
    Column("digest", StoredText(64), primary_key=True),
    Column("batch_id", ForeignKey("batches.batch_id"), nullable=False, index=True),
    Column("context", StoredText(256), nullable=False),
    Column("thumbprint", ForeignKey("holder_keys.thumbprint"), nullable=False),
    Column("expires_at", BigInteger, nullable=False, index=True),
    Column("status_list_id", StoredText(32)),
    Column("status_index", Integer),
    Column("for_discovery", Boolean, nullable=False, server_default=false()),
    Column("subject", StoredText(64)),
    Index("ix_cards_subject", "subject", sqlite_where=_IS_PAIRWISE, postgresql_where=_IS_PAIRWISE),
)
"""``subject``: the pairwise id in its ``sub``, which identifies its agent; NULL where that is the agent's own id."""

status_lists = Table(
    "status_lists",
    metadata,
    Column("list_id", StoredText(32), primary_key=True),
    Column("slot", SmallInteger, unique=True),
)
"""``slot``: the number of an open list; null for a closed list, which assigns no more entries. It is deleted with its
entries: ``db/retention.py``."""

CHANGED = text("(status <> 0 OR public_at IS NOT NULL)")
"""Selects entries whose status changed since they were assigned, with an index. Lists are published from them."""

status_entries = Table(
    "status_entries",
    metadata,
    Column("list_id", ForeignKey("status_lists.list_id"), primary_key=True),
    Column("index", Integer, primary_key=True, autoincrement=False),
    Column("status", SmallInteger, nullable=False),
    Column("expires_at", BigInteger, nullable=False),
    Column("shown", SmallInteger),
    Column("public_at", BigInteger),
    Index("ix_status_entries_changed", "list_id", sqlite_where=CHANGED, postgresql_where=CHANGED),
)
"""Entries that were assigned to an SD-Card, with its ``expires_at``. An entry is never assigned again. It is deleted
with its list, when all entries of the list have expired.

The list shows ``status`` from ``public_at`` on, and ``shown`` before. Both are null until the first change.
"""

used_nonces = used_nonces_table("used_nonces", metadata)
"""Nonces for proofs to the registry that were used, and the key that they are made with."""

answers = Table(
    "answers",
    metadata,
    Column("digest", StoredText(64), primary_key=True),
    Column("subject", StoredText(256), nullable=False, index=True),
    Column("agent_id", StoredText(128), nullable=False, index=True),
    Column("request", StoredText(64), nullable=False),
    Column("sealed", LargeBinary),
    Column("bytes", Integer, nullable=False),
    Column("expires_at", BigInteger, nullable=False, index=True),
)
"""Responses for retries with the same Idempotency-Key; the sealing key is not in the database."""

audit = Table(
    "audit",
    metadata,
    Column("sequence", BigInteger().with_variant(Integer(), "sqlite"), primary_key=True, autoincrement=False),
    Column("event", StoredText(64), nullable=False),
    Column("at", BigInteger, nullable=False),
    Column("subject", StoredText(256), nullable=False),
    Column("agent_id", StoredText(128), nullable=False, index=True),
    Column("batch_id", StoredText(32), nullable=False),
    Column("disclosed", StoredJson(), nullable=False),
    Column("interaction_id", StoredText(128)),
    Column("previous", StoredText(64), nullable=False),
    Column("digest", StoredText(64), nullable=False),
    Column("possession", StoredText(16)),
    Column("supersedes", StoredText(16)),
    Column("state", StoredText()),
    Column("checks", StoredText()),
    Column("leaf", StoredText(64)),
    Index("ix_audit_interaction_id", "interaction_id", sqlite_where=_THREADED, postgresql_where=_THREADED),
)
"""Append-only: no row is updated or deleted. ``digest`` covers all other columns; ``previous`` is the digest of the
previous row. ``state``: digests of the rows of the same transaction, as JSON text; see ``db/state.py``.
``leaf``: the entry of the transparency log about this record, in hexadecimal; NULL until there is a log.
"""

audit_waiting = Table(
    "audit_waiting",
    metadata,
    Column("number", BigInteger().with_variant(Integer(), "sqlite"), primary_key=True),
    Column("record", StoredJson(), nullable=False),
)
"""Audit records that the chain does not have yet. It takes them in the order of their numbers."""

audit_head = Table(
    "audit_head",
    metadata,
    Column("chain", SmallInteger, primary_key=True, autoincrement=False),
    Column("sequence", BigInteger, nullable=False),
    Column("digest", StoredText(64), nullable=False),
    Column("state_key", LargeBinary),
    Column("log_key", LargeBinary),
)
"""One row, of chain 1: where the audit chain ends. A transaction that moves the end locks it until the commit.
``state_key``: the key of the digests in ``audit.state``; NULL until the database is adopted.
``log_key``: the key of agent digests in the transparency log; NULL until the log begins.
"""

log_leaves = Table(
    "log_leaves",
    metadata,
    Column("entry", LargeBinary, primary_key=True),
    Column("at", BigInteger, nullable=False),
    Column("place", BigInteger),
    Column("agent_id", StoredText(128), nullable=False, index=True),
    Column("card", StoredText(64)),
    Column("salt", LargeBinary),
    Column("commitment", LargeBinary),
    Column("structure", StoredText()),
    Index("ix_log_leaves_waiting", "at", "entry", sqlite_where=_PLACELESS, postgresql_where=_PLACELESS),
    sqlite_with_rowid=False,
)
"""Entries of the log. ``place``: the number of the leaf; NULL while it waits. ``card``: the digest of its SD-Card; NULL
for an audit record, which has a ``structure``. ``commitment``: what ``entry`` hashes with it, or with the salt."""

log_tiles = Table(
    "log_tiles",
    metadata,
    Column("level", SmallInteger, primary_key=True, autoincrement=False),
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("hashes", LargeBinary, nullable=False),
)
"""The tree of the log, in tiles of up to 256 hashes. Level -1 has the entries, padding included."""

log_head = Table(
    "log_head",
    metadata,
    Column("log", SmallInteger, primary_key=True, autoincrement=False),
    Column("size", BigInteger, nullable=False),
    Column("root", LargeBinary, nullable=False),
    Column("batch_at", BigInteger, nullable=False),
    Column("published", BigInteger, nullable=False),
    Column("checkpoint", StoredText(), nullable=False),
)
"""One row, of log 1: its size, its root, and the instant of its last batch. ``checkpoint``: the last one that has the
quorum of the witnesses, of the size ``published``; empty before the first."""

registry_keys = Table(
    "registry_keys",
    metadata,
    Column("kid", StoredText(64), primary_key=True),
    Column("use", StoredText(16), nullable=False),
    Column("public_jwk", StoredJson(), nullable=False),
    Column("sealed", StoredText(), nullable=False),
    Column("state", StoredText(16), nullable=False),
    Column("active_for", StoredText(16), unique=True),
    Column("created_at", BigInteger, nullable=False),
    Column("not_before", BigInteger, nullable=False),
    Column("activated_at", BigInteger),
    Column("retired_at", BigInteger),
    Column("signs_until", BigInteger),
    CheckConstraint(
        "(state = 'active' AND active_for IS NOT NULL AND active_for = use)"
        " OR (state <> 'active' AND active_for IS NULL)",
        name="ck_registry_keys_active_for",
    ),
)
"""``active_for``: the use, while the key is active; so a use never has two active keys."""

secrets = Table(
    "secrets", metadata, Column("name", StoredText(64), primary_key=True), Column("value", LargeBinary, nullable=False)
)
"""What the processes of one registry share, made once by the migration. It protects nothing in this database."""

LISTED = text("context = 'public' AND partner = '' AND status = 0")
"""Selects agents that the public catalogue lists, with an index. ``public`` is the name of the built-in context."""

discovery_cards = Table(
    "discovery_cards",
    metadata,
    Column("position", BigInteger().with_variant(Integer(), "sqlite"), primary_key=True, autoincrement=False),
    Column("agent_id", ForeignKey("agents.agent_id"), nullable=False, index=True),
    Column("batch_id", ForeignKey("batches.batch_id"), nullable=False),
    Column("context", StoredText(256), nullable=False),
    Column("partner", StoredText(256), nullable=False),
    Column("status", SmallInteger, nullable=False),
    Column("until", BigInteger),
    Column("decided_by", StoredText(64), nullable=False),
    Column("renew_at", BigInteger, nullable=False),
    Column("issued_at", BigInteger, nullable=False, server_default="0"),
    Column("expires_at", BigInteger, nullable=False),
    Column("size", Integer, nullable=False),
    Column("holder_key", StoredJson(), nullable=False),
    Column("disclose", StoredJson()),
    Column("terms", LargeBinary, nullable=False),
    Column("sd_card", StoredText(), nullable=False),
    Column("subject", StoredText(64)),
    Index("ix_discovery_cards_public", "position", sqlite_where=LISTED, postgresql_where=LISTED),
)
"""Audiences that can find an agent: one row for each context, and in *federation* for each partner. ``sd_card`` is
empty until discovery first returns it. ``subject``: its pairwise id; NULL for the agent's id. ``terms``: the hashes of
its search terms, eight bytes each, to find their rows again.
"""

discovery_postings = Table(
    "discovery_postings",
    metadata,
    Column("term", BigInteger, primary_key=True, autoincrement=False),
    Column("position", BigInteger, primary_key=True, autoincrement=False),
    sqlite_with_rowid=False,
)
"""Which positions have a term: a keyed hash of audience, criterion and text, so that each context has its own."""

grants = Table(
    "grants",
    metadata,
    Column("grant_id", StoredText(32), primary_key=True),
    Column("delegator", StoredText(256), nullable=False),
    Column("target", StoredText(256), nullable=False),
    Column("scopes", StoredJson(), nullable=False),
    Column("sensitive", StoredJson(), nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("expires_at", BigInteger, nullable=False),
    UniqueConstraint("delegator", "target"),
)
"""Grants are added and removed, never changed. A token is valid only while the grant that permitted it exists."""

delegations = Table(
    "delegations",
    metadata,
    Column("token_id", StoredText(32), primary_key=True),
    Column("root", StoredText(80), nullable=False),
    Column("parents", StoredJson(), nullable=False),
    Column("actor", StoredText(256), nullable=False, index=True),
    Column("target", StoredText(256), nullable=False, index=True),
    Column("grant_id", StoredText(32), nullable=False),
    Column("proof", StoredText(64), nullable=False),
    Column("client", StoredText(256), nullable=False),
    Column("issued_at", BigInteger, nullable=False),
    Column("expires_at", BigInteger, nullable=False, index=True),
    Column("revoked_at", BigInteger),
)
"""The links of chains. ``parents`` are the tokens before this one, so that a chain is one look-up."""

approvals = Table(
    "approvals",
    metadata,
    Column("approval_id", StoredText(32), primary_key=True),
    Column("open_for", StoredText(64), unique=True),
    Column("client", StoredText(256), nullable=False, index=True),
    Column("parties", StoredJson(), nullable=False),
    Column("target", StoredText(256), nullable=False),
    Column("scopes", StoredJson(), nullable=False),
    Column("interaction_id", StoredText(128)),
    Column("state", StoredText(16), nullable=False),
    Column("asked_at", BigInteger, nullable=False),
    Column("expires_at", BigInteger, nullable=False, index=True),
    Column("decided_by", StoredText(256), nullable=False),
    Column("owners", StoredJson(), nullable=False, server_default="[]"),
)
"""``open_for``: digest of all that an approval is bound to, while it is open; so a thing is not asked for twice."""

remembered = Table(
    "remembered",
    metadata,
    Column("digest", StoredText(64), primary_key=True),
    Column("expires_at", BigInteger, nullable=False, index=True),
)
"""Digests of access tokens of an identity provider that were revoked here, and of DPoP proofs that were used."""

sessions = Table(
    "sessions",
    metadata,
    Column("digest", StoredText(64), primary_key=True),
    Column("token", StoredText(64), nullable=False, index=True),
    Column("subject", StoredText(256), nullable=False),
    Column("scopes", StoredJson(), nullable=False),
    Column("limits", StoredJson(), nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("expires_at", BigInteger, nullable=False, index=True),
)
"""Sessions of the console: the digest of the cookie, and the digest of the token of the sign-in."""

agent_checks = Table(
    "agent_checks",
    metadata,
    Column("agent_id", ForeignKey("agents.agent_id"), primary_key=True),
    Column("due_at", BigInteger, nullable=False, index=True),
    Column("leased_until", BigInteger, nullable=False),
    Column("checked_at", BigInteger),
    Column("failures", Integer, nullable=False),
    Column("outcome", StoredJson()),
)
"""When each agent is checked next, and the last result. ``leased_until``: a process checks the agent until then."""

_REVIEW_TEXTS = (("card_format", 64), ("card", None), ("state", 16), ("reason", 512), ("decided_by", 256))
reviews = Table(
    "reviews",
    metadata,
    Column("review_id", StoredText(32), primary_key=True),
    Column("open_for", StoredText(64), unique=True),
    Column("subject", StoredText(256), nullable=False, index=True),
    Column("agent_id", StoredText(128), nullable=False, index=True),
    Column("contexts", StoredJson(), nullable=False),
    *(Column(name, StoredText(size), nullable=False) for name, size in _REVIEW_TEXTS),
    Column("asked_at", BigInteger, nullable=False),
    Column("expires_at", BigInteger, index=True),
)
"""Approvals of registrations. ``open_for``: digest of what it covers, until it ends; no ``expires_at``: in force."""

heartbeats = Table(
    "heartbeats", metadata, Column("name", StoredText(16), primary_key=True), Column("at", BigInteger, nullable=False)
)
"""The last time that the registry wrote, for the age of replicas. One row."""

domain_proofs = Table(
    "domain_proofs",
    metadata,
    Column("agent_id", ForeignKey("agents.agent_id"), primary_key=True),
    Column("proved", StoredJson(), nullable=False),
)
"""Host → the values that the last check of the agent found. An agent without any has no row."""
