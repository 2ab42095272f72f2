"""The schema of the last development version, with all revisions before it."""

import secrets

import sqlalchemy as sa
from alembic import op

from sdcard.audit_chain import START

revision = "r0014"
down_revision = None
branch_labels = None
depends_on = None

CHANGED = sa.text("(status <> 0 OR public_at IS NOT NULL)")
PAIRWISE = sa.text("subject IS NOT NULL")
INTERACTION = sa.text("interaction_id IS NOT NULL")

metadata = sa.MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "uq": "uq_%(table_name)s_%(column_0_name)s",
        "ix": "ix_%(table_name)s_%(column_0_name)s",
    }
)
sa.Table(
    "tokens",
    metadata,
    sa.Column("digest", sa.String(64), primary_key=True),
    sa.Column("subject", sa.String(256), nullable=False),
    sa.Column("scopes", sa.JSON(), nullable=False),
    sa.Column("limits", sa.JSON(), nullable=False),
    sa.Column("created_at", sa.BigInteger, nullable=False),
    sa.Column("expires_at", sa.BigInteger, nullable=False),
)
sa.Table(
    "agents",
    metadata,
    sa.Column("agent_id", sa.String(128), primary_key=True),
    sa.Column("folded_id", sa.String(128), nullable=False, unique=True),
    sa.Column("subject", sa.String(256), nullable=False),
    sa.Column("card_format", sa.String(64), nullable=False),
    sa.Column("card", sa.Text(), nullable=False),
    sa.Column("registered_at", sa.BigInteger, nullable=False),
    sa.Column("updated_at", sa.BigInteger, nullable=False),
    sa.Column("asked", sa.Text()),
    sa.Column("possession", sa.String(16)),
    sa.Column("batch_id", sa.String(32)),
    sa.Column("card_version", sa.Text()),
    sa.Column("content", sa.String(64)),
    sa.Column("deleted_at", sa.BigInteger),
    sa.Index("ix_agents_subject", "subject", "agent_id"),
)
sa.Table(
    "holder_keys",
    metadata,
    sa.Column("thumbprint", sa.String(64), primary_key=True),
    sa.Column("agent_id", sa.ForeignKey("agents.agent_id"), nullable=False, index=True),
    sa.Column("bound_at", sa.BigInteger, nullable=False),
)
sa.Table(
    "batches",
    metadata,
    sa.Column("batch_id", sa.String(32), primary_key=True),
    sa.Column("agent_id", sa.ForeignKey("agents.agent_id"), nullable=False, index=True),
    sa.Column("issued_at", sa.BigInteger, nullable=False),
)
sa.Table(
    "cards",
    metadata,
    sa.Column("digest", sa.String(64), primary_key=True),
    sa.Column("batch_id", sa.ForeignKey("batches.batch_id"), nullable=False, index=True),
    sa.Column("context", sa.String(256), nullable=False),
    sa.Column("thumbprint", sa.ForeignKey("holder_keys.thumbprint"), nullable=False),
    sa.Column("expires_at", sa.BigInteger, nullable=False),
    sa.Column("status_list_id", sa.String(32)),
    sa.Column("status_index", sa.Integer),
    sa.Column("for_discovery", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Column("subject", sa.String(64)),
    sa.Index("ix_cards_subject", "subject", sqlite_where=PAIRWISE, postgresql_where=PAIRWISE),
)
sa.Table(
    "status_lists",
    metadata,
    sa.Column("list_id", sa.String(32), primary_key=True),
    sa.Column("slot", sa.SmallInteger, unique=True),
)

sa.Table(
    "status_entries",
    metadata,
    sa.Column("list_id", sa.ForeignKey("status_lists.list_id"), primary_key=True),
    sa.Column("index", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("status", sa.SmallInteger, nullable=False),
    sa.Column("expires_at", sa.BigInteger, nullable=False),
    sa.Column("shown", sa.SmallInteger),
    sa.Column("public_at", sa.BigInteger),
    sa.Index("ix_status_entries_changed", "list_id", sqlite_where=CHANGED, postgresql_where=CHANGED),
)

sa.Sequence("used_nonces_slots", metadata=metadata)
sa.Table(
    "used_nonces",
    metadata,
    sa.Column("digest", sa.LargeBinary(32), primary_key=True),
    sa.Column("until", sa.Double, nullable=False, index=True),
    sa.Column("slot", sa.BigInteger, unique=True),
    sa.Column("forgotten", sa.LargeBinary(32), index=True),
    sa.Column("made_in", sa.String(128)),
)
sa.Table(
    "answers",
    metadata,
    sa.Column("digest", sa.String(64), primary_key=True),
    sa.Column("subject", sa.String(256), nullable=False, index=True),
    sa.Column("agent_id", sa.String(128), nullable=False, index=True),
    sa.Column("request", sa.String(64), nullable=False),
    sa.Column("sealed", sa.LargeBinary),
    sa.Column("bytes", sa.Integer, nullable=False),
    sa.Column("expires_at", sa.BigInteger, nullable=False, index=True),
)
sa.Table(
    "audit",
    metadata,
    sa.Column("sequence", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), primary_key=True, autoincrement=False),
    sa.Column("event", sa.String(64), nullable=False),
    sa.Column("at", sa.BigInteger, nullable=False),
    sa.Column("subject", sa.String(256), nullable=False),
    sa.Column("agent_id", sa.String(128), nullable=False, index=True),
    sa.Column("batch_id", sa.String(32), nullable=False),
    sa.Column("disclosed", sa.JSON(), nullable=False),
    sa.Column("interaction_id", sa.String(128)),
    sa.Column("previous", sa.String(64), nullable=False),
    sa.Column("digest", sa.String(64), nullable=False),
    sa.Column("possession", sa.String(16)),
    sa.Column("supersedes", sa.String(16)),
    sa.Column("state", sa.Text()),
    sa.Index("ix_audit_interaction_id", "interaction_id", sqlite_where=INTERACTION, postgresql_where=INTERACTION),
)
heads = sa.Table(
    "audit_head",
    metadata,
    sa.Column("chain", sa.SmallInteger, primary_key=True, autoincrement=False),
    sa.Column("sequence", sa.BigInteger, nullable=False),
    sa.Column("digest", sa.String(64), nullable=False),
    sa.Column("state_key", sa.LargeBinary),
)
sa.Table(
    "registry_keys",
    metadata,
    sa.Column("kid", sa.String(64), primary_key=True),
    sa.Column("use", sa.String(16), nullable=False),
    sa.Column("public_jwk", sa.JSON(), nullable=False),
    sa.Column("sealed", sa.Text(), nullable=False),
    sa.Column("state", sa.String(16), nullable=False),
    sa.Column("active_for", sa.String(16), unique=True),
    sa.Column("created_at", sa.BigInteger, nullable=False),
    sa.Column("not_before", sa.BigInteger, nullable=False),
    sa.Column("activated_at", sa.BigInteger),
    sa.Column("retired_at", sa.BigInteger),
    sa.Column("signs_until", sa.BigInteger),
    sa.CheckConstraint(
        "(state = 'active' AND active_for IS NOT NULL AND active_for = use)"
        " OR (state <> 'active' AND active_for IS NULL)",
        name="ck_registry_keys_active_for",
    ),
)
shared = sa.Table(
    "secrets",
    metadata,
    sa.Column("name", sa.String(64), primary_key=True),
    sa.Column("value", sa.LargeBinary, nullable=False),
)
sa.Table(
    "discovery_cards",
    metadata,
    sa.Column("position", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), primary_key=True, autoincrement=False),
    sa.Column("agent_id", sa.ForeignKey("agents.agent_id"), nullable=False, index=True),
    sa.Column("batch_id", sa.ForeignKey("batches.batch_id"), nullable=False),
    sa.Column("context", sa.String(256), nullable=False),
    sa.Column("partner", sa.String(256), nullable=False),
    sa.Column("status", sa.SmallInteger, nullable=False),
    sa.Column("until", sa.BigInteger),
    sa.Column("decided_by", sa.String(64), nullable=False),
    sa.Column("renew_at", sa.BigInteger, nullable=False),
    sa.Column("issued_at", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("expires_at", sa.BigInteger, nullable=False),
    sa.Column("size", sa.Integer, nullable=False),
    sa.Column("holder_key", sa.JSON(), nullable=False),
    sa.Column("disclose", sa.JSON()),
    sa.Column("terms", sa.LargeBinary, nullable=False),
    sa.Column("sd_card", sa.Text(), nullable=False),
    sa.Column("subject", sa.String(64)),
)
sa.Table(
    "discovery_postings",
    metadata,
    sa.Column("term", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("position", sa.BigInteger, primary_key=True, autoincrement=False),
    sqlite_with_rowid=False,
)
sa.Table(
    "grants",
    metadata,
    sa.Column("grant_id", sa.String(32), primary_key=True),
    sa.Column("delegator", sa.String(256), nullable=False),
    sa.Column("target", sa.String(256), nullable=False),
    sa.Column("scopes", sa.JSON(), nullable=False),
    sa.Column("sensitive", sa.JSON(), nullable=False),
    sa.Column("created_at", sa.BigInteger, nullable=False),
    sa.Column("expires_at", sa.BigInteger, nullable=False),
    sa.UniqueConstraint("delegator", "target"),
)
sa.Table(
    "delegations",
    metadata,
    sa.Column("token_id", sa.String(32), primary_key=True),
    sa.Column("root", sa.String(80), nullable=False),
    sa.Column("parents", sa.JSON(), nullable=False),
    sa.Column("actor", sa.String(256), nullable=False, index=True),
    sa.Column("target", sa.String(256), nullable=False, index=True),
    sa.Column("grant_id", sa.String(32), nullable=False),
    sa.Column("proof", sa.String(64), nullable=False),
    sa.Column("client", sa.String(256), nullable=False),
    sa.Column("issued_at", sa.BigInteger, nullable=False),
    sa.Column("expires_at", sa.BigInteger, nullable=False, index=True),
    sa.Column("revoked_at", sa.BigInteger),
)
sa.Table(
    "approvals",
    metadata,
    sa.Column("approval_id", sa.String(32), primary_key=True),
    sa.Column("open_for", sa.String(64), unique=True),
    sa.Column("client", sa.String(256), nullable=False, index=True),
    sa.Column("parties", sa.JSON(), nullable=False),
    sa.Column("target", sa.String(256), nullable=False),
    sa.Column("scopes", sa.JSON(), nullable=False),
    sa.Column("interaction_id", sa.String(128)),
    sa.Column("state", sa.String(16), nullable=False),
    sa.Column("asked_at", sa.BigInteger, nullable=False),
    sa.Column("expires_at", sa.BigInteger, nullable=False, index=True),
    sa.Column("decided_by", sa.String(256), nullable=False),
    sa.Column("owners", sa.JSON(), nullable=False, server_default="[]"),
)
sa.Table(
    "remembered",
    metadata,
    sa.Column("digest", sa.String(64), primary_key=True),
    sa.Column("expires_at", sa.BigInteger, nullable=False, index=True),
)
sa.Table(
    "sessions",
    metadata,
    sa.Column("digest", sa.String(64), primary_key=True),
    sa.Column("token", sa.String(64), nullable=False, index=True),
    sa.Column("subject", sa.String(256), nullable=False),
    sa.Column("scopes", sa.JSON(), nullable=False),
    sa.Column("limits", sa.JSON(), nullable=False),
    sa.Column("created_at", sa.BigInteger, nullable=False),
    sa.Column("expires_at", sa.BigInteger, nullable=False, index=True),
)


def upgrade() -> None:
    metadata.create_all(op.get_bind(), checkfirst=False)
    op.bulk_insert(shared, [{"name": "discovery", "value": secrets.token_bytes(32)}])
    op.bulk_insert(heads, [{"chain": 1, "sequence": START.sequence, "digest": START.digest}])


def downgrade() -> None:
    raise NotImplementedError("nothing is before the first version")
