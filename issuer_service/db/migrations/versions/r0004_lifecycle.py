"""Add renewals, deleted agents, nonces for proofs, and stored responses.

The responses are stored for retries.
"""

import sqlalchemy as sa
from alembic import op

revision = "r0004"
down_revision = "r0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("agents", sa.Column("asked", sa.Text, nullable=True))
    op.add_column("agents", sa.Column("possession", sa.String(16), nullable=True))
    op.add_column("agents", sa.Column("batch_id", sa.String(32), nullable=True))
    op.add_column("agents", sa.Column("card_version", sa.Text, nullable=True))
    op.add_column("agents", sa.Column("content", sa.String(64), nullable=True))
    op.add_column("agents", sa.Column("deleted_at", sa.BigInteger, nullable=True))
    op.create_index("ix_agents_subject", "agents", ["subject", "agent_id"])
    op.create_table(
        "nonces",
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("subject", sa.String(256), nullable=False),
        sa.Column("expires_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("digest", name="pk_nonces"),
    )
    op.create_table(
        "answers",
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("subject", sa.String(256), nullable=False),
        sa.Column("agent_id", sa.String(128), nullable=False),
        sa.Column("request", sa.String(64), nullable=False),
        sa.Column("sealed", sa.LargeBinary, nullable=True),
        sa.Column("bytes", sa.Integer, nullable=False),
        sa.Column("expires_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("digest", name="pk_answers"),
    )
    for table, column in (
        ("nonces", "subject"),
        ("nonces", "expires_at"),
        ("answers", "subject"),
        ("answers", "agent_id"),
        ("answers", "expires_at"),
    ):
        op.create_index(f"ix_{table}_{column}", table, [column])
    op.add_column("audit", sa.Column("possession", sa.String(16), nullable=True))
    op.add_column("audit", sa.Column("supersedes", sa.String(16), nullable=True))


def downgrade() -> None:
    for column in ("supersedes", "possession"):
        op.drop_column("audit", column)
    for table in ("answers", "nonces"):
        op.drop_table(table)
    op.drop_index("ix_agents_subject", "agents")
    for column in ("deleted_at", "content", "card_version", "batch_id", "possession", "asked"):
        op.drop_column("agents", column)
