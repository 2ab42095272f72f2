"""Tokens, agents, Holder keys, Batches, cards and the audit record."""

import sqlalchemy as sa
from alembic import op

revision = "r0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    _create_agents()
    _create_cards()


def _create_agents() -> None:
    op.create_table(
        "tokens",
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("subject", sa.String(256), nullable=False),
        sa.Column("scopes", sa.JSON, nullable=False),
        sa.Column("limits", sa.JSON, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("expires_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("digest", name="pk_tokens"),
    )
    op.create_table(
        "agents",
        sa.Column("agent_id", sa.String(128), nullable=False),
        sa.Column("folded_id", sa.String(128), nullable=False),
        sa.Column("subject", sa.String(256), nullable=False),
        sa.Column("card_format", sa.String(64), nullable=False),
        sa.Column("card", sa.Text, nullable=False),
        sa.Column("registered_at", sa.BigInteger, nullable=False),
        sa.Column("updated_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("agent_id", name="pk_agents"),
        sa.UniqueConstraint("folded_id", name="uq_agents_folded_id"),
    )
    op.create_table(
        "holder_keys",
        sa.Column("thumbprint", sa.String(64), nullable=False),
        sa.Column("agent_id", sa.String(128), nullable=False),
        sa.Column("bound_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("thumbprint", name="pk_holder_keys"),
        sa.ForeignKeyConstraint(["agent_id"], ["agents.agent_id"], name="fk_holder_keys_agent_id"),
    )
    op.create_index("ix_holder_keys_agent_id", "holder_keys", ["agent_id"])


def _create_cards() -> None:
    op.create_table(
        "batches",
        sa.Column("batch_id", sa.String(32), nullable=False),
        sa.Column("agent_id", sa.String(128), nullable=False),
        sa.Column("issued_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("batch_id", name="pk_batches"),
        sa.ForeignKeyConstraint(["agent_id"], ["agents.agent_id"], name="fk_batches_agent_id"),
    )
    op.create_index("ix_batches_agent_id", "batches", ["agent_id"])
    op.create_table(
        "cards",
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("batch_id", sa.String(32), nullable=False),
        sa.Column("context", sa.String(256), nullable=False),
        sa.Column("thumbprint", sa.String(64), nullable=False),
        sa.Column("expires_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("digest", name="pk_cards"),
        sa.ForeignKeyConstraint(["batch_id"], ["batches.batch_id"], name="fk_cards_batch_id"),
        sa.ForeignKeyConstraint(["thumbprint"], ["holder_keys.thumbprint"], name="fk_cards_thumbprint"),
    )
    op.create_index("ix_cards_batch_id", "cards", ["batch_id"])
    op.create_table(
        "audit",
        sa.Column("sequence", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("event", sa.String(64), nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("subject", sa.String(256), nullable=False),
        sa.Column("agent_id", sa.String(128), nullable=False),
        sa.Column("batch_id", sa.String(32), nullable=False),
        sa.Column("disclosed", sa.JSON, nullable=False),
        sa.PrimaryKeyConstraint("sequence", name="pk_audit"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_audit_agent_id", "audit", ["agent_id"])


def downgrade() -> None:
    for table in ("audit", "cards", "batches", "holder_keys", "agents", "tokens"):
        op.drop_table(table)
