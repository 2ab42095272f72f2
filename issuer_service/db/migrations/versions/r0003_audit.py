"""Turn the audit record into a chain.

Existing records are numbered without gaps, in their order, and chained.
"""

import sqlalchemy as sa
from alembic import op

from sdcard.audit_chain import START, Head, chain_record

revision = "r0003"
down_revision = "r0002"
branch_labels = None
depends_on = None

_MEMBERS = ("event", "at", "subject", "agent_id", "batch_id", "disclosed")
_AT_ONCE = 500


def upgrade() -> None:
    _set_aside()
    chained = op.create_table(
        "audit",
        sa.Column(
            "sequence", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=False, nullable=False
        ),
        sa.Column("event", sa.String(64), nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("subject", sa.String(256), nullable=False),
        sa.Column("agent_id", sa.String(128), nullable=False),
        sa.Column("batch_id", sa.String(32), nullable=False),
        sa.Column("disclosed", sa.JSON, nullable=False),
        sa.Column("interaction_id", sa.String(128), nullable=True),
        sa.Column("previous", sa.String(64), nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.PrimaryKeyConstraint("sequence", name="pk_audit"),
    )
    op.create_index("ix_audit_agent_id", "audit", ["agent_id"])
    heads = op.create_table(
        "audit_head",
        sa.Column("chain", sa.SmallInteger, autoincrement=False, nullable=False),
        sa.Column("sequence", sa.BigInteger, nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.PrimaryKeyConstraint("chain", name="pk_audit_head"),
    )
    _chain(chained, heads)
    op.drop_table("audit_unchained")


def _set_aside() -> None:
    op.drop_index("ix_audit_agent_id", "audit")
    op.rename_table("audit", "audit_unchained")
    if op.get_bind().dialect.name == "postgresql":  # whose constraints have names of the whole schema
        op.execute("ALTER TABLE audit_unchained RENAME CONSTRAINT pk_audit TO pk_audit_unchained")


def _chain(chained: sa.Table, heads: sa.Table) -> None:
    connection, head, last = op.get_bind(), START, None
    old = sa.table(
        "audit_unchained", sa.column("sequence"), sa.column("disclosed", sa.JSON), *map(sa.column, _MEMBERS[:-1])
    )
    asked = sa.select(old).order_by(old.c.sequence).limit(_AT_ONCE)
    while rows := connection.execute(asked if last is None else asked.where(old.c.sequence > last)).mappings().all():
        for row in rows:
            record = chain_record({name: row[name] for name in _MEMBERS}, head)
            connection.execute(sa.insert(chained).values(record))
            head = Head(int(str(record["sequence"])), str(record["digest"]))
            last = row["sequence"]
    connection.execute(sa.insert(heads).values(chain=1, sequence=head.sequence, digest=head.digest))


def downgrade() -> None:
    raise NotImplementedError("an audit chain is not taken apart")
