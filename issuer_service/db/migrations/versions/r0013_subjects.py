"""SD-Cards keep the pairwise id that they have in ``sub``."""

import sqlalchemy as sa
from alembic import op

revision = "r0013"
down_revision = "r0012"
branch_labels = None
depends_on = None

_PAIRWISE = sa.text("subject IS NOT NULL")


def upgrade() -> None:
    for table in ("cards", "discovery_cards"):
        op.add_column(table, sa.Column("subject", sa.String(64)))
    op.create_index("ix_cards_subject", "cards", ["subject"], sqlite_where=_PAIRWISE, postgresql_where=_PAIRWISE)
    op.execute("UPDATE audit_head SET state_key = NULL")  # rows have a column that no record has: adopt them


def downgrade() -> None:
    op.drop_index("ix_cards_subject", "cards")
    for table in ("discovery_cards", "cards"):
        op.drop_column(table, "subject")
