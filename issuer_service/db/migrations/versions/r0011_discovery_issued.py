"""Add the time of issuance to SD-Cards for discovery.

So an SD-Card of a clock that was ahead is made again.
"""

import sqlalchemy as sa
from alembic import op

revision = "r0011"
down_revision = "r0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("discovery_cards", sa.Column("issued_at", sa.BigInteger, nullable=False, server_default="0"))
    # half of the life of most is over at renew_at, which tells when they were made; the others are made again
    op.execute("UPDATE discovery_cards SET issued_at = 2 * renew_at - expires_at WHERE renew_at < expires_at")
    op.execute("UPDATE discovery_cards SET renew_at = 0 WHERE renew_at = expires_at")
    op.execute("UPDATE audit_head SET state_key = NULL")  # rows have a column that no record has: adopt them


def downgrade() -> None:
    op.drop_column("discovery_cards", "issued_at")
