"""Add the console: sessions, and an index for the thread of an interaction."""

import sqlalchemy as sa
from alembic import op

revision = "r0008"
down_revision = "r0007"
branch_labels = None
depends_on = None

_NAMED = sa.text("interaction_id IS NOT NULL")


def upgrade() -> None:
    op.create_table(
        "sessions",
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("token", sa.String(64), nullable=False),
        sa.Column("subject", sa.String(256), nullable=False),
        sa.Column("scopes", sa.JSON, nullable=False),
        sa.Column("limits", sa.JSON, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("expires_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("digest", name="pk_sessions"),
    )
    op.create_index("ix_sessions_token", "sessions", ["token"])
    op.create_index("ix_sessions_expires_at", "sessions", ["expires_at"])
    op.create_index(
        "ix_audit_interaction_id", "audit", ["interaction_id"], sqlite_where=_NAMED, postgresql_where=_NAMED
    )


def downgrade() -> None:
    op.drop_index("ix_audit_interaction_id", "audit")
    op.drop_table("sessions")
