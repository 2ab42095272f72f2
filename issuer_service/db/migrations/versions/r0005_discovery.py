"""Add discovery's tables. Existing agents are found once they register again."""

import secrets

import sqlalchemy as sa
from alembic import op

revision = "r0005"
down_revision = "r0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    shared = op.create_table(
        "secrets",
        sa.Column("name", sa.String(64), nullable=False),
        sa.Column("value", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_secrets"),
    )
    op.bulk_insert(shared, [{"name": "discovery", "value": secrets.token_bytes(32)}])
    op.create_table(
        "discovery_cards",
        sa.Column("position", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=False),
        sa.Column("agent_id", sa.String(128), nullable=False),
        sa.Column("batch_id", sa.String(32), nullable=False),
        sa.Column("context", sa.String(256), nullable=False),
        sa.Column("partner", sa.String(256), nullable=False),
        sa.Column("status", sa.SmallInteger, nullable=False),
        sa.Column("until", sa.BigInteger, nullable=True),
        sa.Column("decided_by", sa.String(64), nullable=False),
        sa.Column("renew_at", sa.BigInteger, nullable=False),
        sa.Column("expires_at", sa.BigInteger, nullable=False),
        sa.Column("size", sa.Integer, nullable=False),
        sa.Column("holder_key", sa.JSON, nullable=False),
        sa.Column("disclose", sa.JSON, nullable=True),
        sa.Column("terms", sa.LargeBinary, nullable=False),
        sa.Column("sd_card", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("position", name="pk_discovery_cards"),
        sa.ForeignKeyConstraint(["agent_id"], ["agents.agent_id"], name="fk_discovery_cards_agent_id"),
        sa.ForeignKeyConstraint(["batch_id"], ["batches.batch_id"], name="fk_discovery_cards_batch_id"),
    )
    op.create_index("ix_discovery_cards_agent_id", "discovery_cards", ["agent_id"])
    op.create_table(
        "discovery_postings",
        sa.Column("term", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column("position", sa.BigInteger, nullable=False, autoincrement=False),
        sa.PrimaryKeyConstraint("term", "position", name="pk_discovery_postings"),
        sqlite_with_rowid=False,
    )
    op.add_column("cards", sa.Column("for_discovery", sa.Boolean, nullable=False, server_default=sa.false()))


def downgrade() -> None:
    op.drop_column("cards", "for_discovery")
    op.drop_table("discovery_postings")
    op.drop_index("ix_discovery_cards_agent_id", "discovery_cards")
    for table in ("discovery_cards", "secrets"):
        op.drop_table(table)
