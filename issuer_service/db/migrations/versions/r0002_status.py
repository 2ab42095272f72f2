"""Status lists, their entries, and which entry speaks for a card.

Cards of before have none.
"""

import sqlalchemy as sa
from alembic import op

revision = "r0002"
down_revision = "r0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "status_lists",
        sa.Column("list_id", sa.String(32), nullable=False),
        sa.Column("context", sa.String(256), nullable=False),
        sa.Column("open_for", sa.String(256), nullable=True),
        sa.Column("used", sa.Integer, nullable=False),
        sa.Column("version", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("list_id", name="pk_status_lists"),
        sa.UniqueConstraint("open_for", name="uq_status_lists_open_for"),
    )
    op.create_table(
        "status_entries",
        sa.Column("list_id", sa.String(32), nullable=False),
        sa.Column("index", sa.Integer, nullable=False, autoincrement=False),
        sa.Column("status", sa.SmallInteger, nullable=False),
        sa.PrimaryKeyConstraint("list_id", "index", name="pk_status_entries"),
        sa.ForeignKeyConstraint(["list_id"], ["status_lists.list_id"], name="fk_status_entries_list_id"),
    )
    op.add_column("cards", sa.Column("status_list_id", sa.String(32), nullable=True))
    op.add_column("cards", sa.Column("status_index", sa.Integer, nullable=True))


def downgrade() -> None:
    op.drop_column("cards", "status_index")
    op.drop_column("cards", "status_list_id")
    for table in ("status_entries", "status_lists"):
        op.drop_table(table)
