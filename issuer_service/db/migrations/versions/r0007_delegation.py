"""Add delegation: grants, links of chains, approvals, revoked foreign tokens."""

import sqlalchemy as sa
from alembic import op

revision = "r0007"
down_revision = "r0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "grants",
        sa.Column("grant_id", sa.String(32), nullable=False),
        sa.Column("delegator", sa.String(256), nullable=False),
        sa.Column("target", sa.String(256), nullable=False),
        sa.Column("scopes", sa.JSON, nullable=False),
        sa.Column("sensitive", sa.JSON, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("expires_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("grant_id", name="pk_grants"),
        sa.UniqueConstraint("delegator", "target", name="uq_grants_delegator"),
    )
    op.create_table(
        "delegations",
        sa.Column("token_id", sa.String(32), nullable=False),
        sa.Column("root", sa.String(80), nullable=False),
        sa.Column("parents", sa.JSON, nullable=False),
        sa.Column("actor", sa.String(256), nullable=False),
        sa.Column("target", sa.String(256), nullable=False),
        sa.Column("grant_id", sa.String(32), nullable=False),
        sa.Column("proof", sa.String(64), nullable=False),
        sa.Column("client", sa.String(256), nullable=False),
        sa.Column("issued_at", sa.BigInteger, nullable=False),
        sa.Column("expires_at", sa.BigInteger, nullable=False),
        sa.Column("revoked_at", sa.BigInteger, nullable=True),
        sa.PrimaryKeyConstraint("token_id", name="pk_delegations"),
    )
    for column in ("actor", "target", "expires_at"):
        op.create_index(f"ix_delegations_{column}", "delegations", [column])
    op.create_table(
        "approvals",
        sa.Column("approval_id", sa.String(32), nullable=False),
        sa.Column("open_for", sa.String(64), nullable=True),
        sa.Column("client", sa.String(256), nullable=False),
        sa.Column("parties", sa.JSON, nullable=False),
        sa.Column("target", sa.String(256), nullable=False),
        sa.Column("scopes", sa.JSON, nullable=False),
        sa.Column("interaction_id", sa.String(128), nullable=True),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("asked_at", sa.BigInteger, nullable=False),
        sa.Column("expires_at", sa.BigInteger, nullable=False),
        sa.Column("decided_by", sa.String(256), nullable=False),
        sa.PrimaryKeyConstraint("approval_id", name="pk_approvals"),
        sa.UniqueConstraint("open_for", name="uq_approvals_open_for"),
    )
    op.create_index("ix_approvals_expires_at", "approvals", ["expires_at"])
    op.create_index("ix_approvals_client", "approvals", ["client"])
    op.create_table(
        "remembered",
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("expires_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("digest", name="pk_remembered"),
    )
    op.create_index("ix_remembered_expires_at", "remembered", ["expires_at"])


def downgrade() -> None:
    for table in ("remembered", "approvals", "delegations", "grants"):
        op.drop_table(table)
