"""Approvals keep who owned the agents of the exchange when they were asked for."""

import sqlalchemy as sa
from alembic import op

revision = "r0010"
down_revision = "r0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("approvals", sa.Column("owners", sa.JSON, nullable=False, server_default="[]"))
    op.execute("UPDATE audit_head SET state_key = NULL")  # rows have a column that no record has: adopt them


def downgrade() -> None:
    op.drop_column("approvals", "owners")
