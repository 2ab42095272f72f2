"""The changes of version 0.2: checks in audit records, and indices."""

import sqlalchemy as sa
from alembic import op

revision = "r0015"
down_revision = "r0014"
branch_labels = None
depends_on = None

PUBLIC = "context = 'public' AND partner = '' AND status = 0"


def upgrade() -> None:
    op.add_column("audit", sa.Column("checks", sa.Text()))
    op.execute("CREATE INDEX ix_batches_issued_at ON batches (issued_at)")
    op.execute("CREATE INDEX ix_cards_expires_at ON cards (expires_at)")
    op.execute(f"CREATE INDEX ix_discovery_cards_public ON discovery_cards (position) WHERE {PUBLIC}")


def downgrade() -> None:
    raise NotImplementedError("version 0.1 does not read records with the column checks")
