"""Share status lists among contexts; add expiries and scheduled changes.

Lists of one context are closed. They stay until their SD-Cards have expired.
"""

import time

import sqlalchemy as sa
from alembic import op

revision = "r0014"
down_revision = "r0013"
branch_labels = None
depends_on = None

_CHANGED = sa.text("(status <> 0 OR public_at IS NOT NULL)")
_MOST = 90 * 86_400
"""No SD-Card lives longer. So long an entry may be needed whose SD-Card nobody remembers."""


def upgrade() -> None:
    op.add_column("status_entries", sa.Column("expires_at", sa.BigInteger, nullable=False, server_default="0"))
    op.add_column("status_entries", sa.Column("shown", sa.SmallInteger))
    op.add_column("status_entries", sa.Column("public_at", sa.BigInteger))
    op.execute(
        "UPDATE status_entries SET expires_at = cards.expires_at FROM cards"
        ' WHERE cards.status_list_id = status_entries.list_id AND cards.status_index = status_entries."index"'
    )
    op.execute(f"UPDATE status_entries SET expires_at = {int(time.time()) + _MOST} WHERE expires_at = 0")
    if op.get_bind().dialect.name == "postgresql":
        op.alter_column("status_entries", "expires_at", server_default=None)
        op.drop_constraint("uq_status_lists_open_for", "status_lists")
        for name in ("context", "open_for", "used", "version"):
            op.drop_column("status_lists", name)
        op.add_column("status_lists", sa.Column("slot", sa.SmallInteger))
        op.create_unique_constraint("uq_status_lists_slot", "status_lists", ["slot"])
    else:
        _make_again(
            "list_id", sa.Column("slot", sa.SmallInteger), sa.UniqueConstraint("slot", name="uq_status_lists_slot")
        )
    named = ("ix_status_entries_changed", "status_entries", ["list_id"])
    op.create_index(*named, sqlite_where=_CHANGED, postgresql_where=_CHANGED)
    op.execute("UPDATE audit_head SET state_key = NULL")  # rows have columns that no record has: adopt them


def _make_again(kept: str, *columns: sa.schema.SchemaItem) -> None:
    """Make SQLite's table anew, which cannot drop a column that is unique.

    Entries refer to its rows all the while.
    """
    op.execute("PRAGMA defer_foreign_keys = ON")
    op.execute(f"CREATE TEMPORARY TABLE kept_lists AS SELECT {kept} FROM status_lists")
    op.drop_table("status_lists")
    op.create_table(
        "status_lists",
        sa.Column("list_id", sa.String(32), nullable=False),
        *columns,
        sa.PrimaryKeyConstraint("list_id", name="pk_status_lists"),
    )
    op.execute(f"INSERT INTO status_lists ({kept}) SELECT {kept} FROM kept_lists")
    op.execute("DROP TABLE kept_lists")


def downgrade() -> None:
    op.drop_index("ix_status_entries_changed", "status_entries")
    used = "UPDATE status_lists SET used = (SELECT count(*) FROM status_entries WHERE list_id = status_lists.list_id)"
    columns = (
        sa.Column("context", sa.String(256), nullable=False, server_default=""),
        sa.Column("open_for", sa.String(256)),
        sa.Column("used", sa.Integer, nullable=False, server_default="0"),
        sa.Column("version", sa.BigInteger, nullable=False, server_default="0"),
    )
    if op.get_bind().dialect.name == "postgresql":
        op.drop_column("status_lists", "slot")
        for column in columns:
            op.add_column("status_lists", column)
        op.create_unique_constraint("uq_status_lists_open_for", "status_lists", ["open_for"])
    else:
        _make_again("list_id", *columns, sa.UniqueConstraint("open_for", name="uq_status_lists_open_for"))
    op.execute(used)
    for name in ("public_at", "shown", "expires_at"):
        op.drop_column("status_entries", name)
