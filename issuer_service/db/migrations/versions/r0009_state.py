"""Name the written rows in audit records.

So the tables can be compared with the chain.
"""

import sqlalchemy as sa
from alembic import op

revision = "r0009"
down_revision = "r0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("audit", sa.Column("state", sa.Text, nullable=True))
    op.add_column("audit_head", sa.Column("state_key", sa.LargeBinary, nullable=True))


def downgrade() -> None:
    op.drop_column("audit_head", "state_key")
    op.drop_column("audit", "state")
