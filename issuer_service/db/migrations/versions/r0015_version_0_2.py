"""The changes of version 0.2: what the registry checked, in audit records."""

import sqlalchemy as sa
from alembic import op

revision = "r0015"
down_revision = "r0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("audit", sa.Column("checks", sa.Text()))


def downgrade() -> None:
    raise NotImplementedError("version 0.1 does not read records with the column checks")
