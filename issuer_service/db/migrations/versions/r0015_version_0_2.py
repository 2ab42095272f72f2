"""The changes of version 0.2: what the registry checks, and records of it."""

import sqlalchemy as sa
from alembic import op

revision = "r0015"
down_revision = "r0014"
branch_labels = None
depends_on = None

PUBLIC = "context = 'public' AND partner = '' AND status = 0"


def upgrade() -> None:
    op.add_column("audit", sa.Column("checks", sa.Text()))
    op.add_column("audit", sa.Column("leaf", sa.String(64)))
    op.add_column("audit_head", sa.Column("log_key", sa.LargeBinary))
    op.create_table(
        "audit_waiting",
        sa.Column("number", sa.BigInteger().with_variant(sa.Integer(), "sqlite")),
        sa.Column("record", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("number", name="pk_audit_waiting"),
    )
    op.execute("CREATE INDEX ix_batches_issued_at ON batches (issued_at)")
    op.execute("CREATE INDEX ix_cards_expires_at ON cards (expires_at)")
    op.execute(f"CREATE INDEX ix_discovery_cards_public ON discovery_cards (position) WHERE {PUBLIC}")
    op.create_table(
        "agent_checks",
        sa.Column("agent_id", sa.String(128), sa.ForeignKey("agents.agent_id", name="fk_agent_checks_agent_id")),
        sa.Column("due_at", sa.BigInteger, nullable=False),
        sa.Column("leased_until", sa.BigInteger, nullable=False),
        sa.Column("checked_at", sa.BigInteger),
        sa.Column("failures", sa.Integer, nullable=False),
        sa.Column("outcome", sa.JSON()),
        sa.PrimaryKeyConstraint("agent_id", name="pk_agent_checks"),
    )
    op.create_index("ix_agent_checks_due_at", "agent_checks", ["due_at"])
    op.create_table(
        "domain_proofs",
        sa.Column("agent_id", sa.String(128), sa.ForeignKey("agents.agent_id", name="fk_domain_proofs_agent_id")),
        sa.Column("proved", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("agent_id", name="pk_domain_proofs"),
    )
    op.create_table(
        "heartbeats",
        sa.Column("name", sa.String(16)),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_heartbeats"),
    )
    _create_reviews()
    _create_log()


def _create_reviews() -> None:
    op.create_table(
        "reviews",
        sa.Column("review_id", sa.String(32)),
        sa.Column("open_for", sa.String(64)),
        sa.Column("subject", sa.String(256), nullable=False),
        sa.Column("agent_id", sa.String(128), nullable=False),
        sa.Column("contexts", sa.JSON(), nullable=False),
        sa.Column("card_format", sa.String(64), nullable=False),
        sa.Column("card", sa.Text(), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("reason", sa.String(512), nullable=False),
        sa.Column("decided_by", sa.String(256), nullable=False),
        sa.Column("asked_at", sa.BigInteger, nullable=False),
        sa.Column("expires_at", sa.BigInteger),
        sa.PrimaryKeyConstraint("review_id", name="pk_reviews"),
        sa.UniqueConstraint("open_for", name="uq_reviews_open_for"),
    )
    for column in ("subject", "agent_id", "expires_at"):
        op.create_index(f"ix_reviews_{column}", "reviews", [column])


def _create_log() -> None:
    op.create_table(
        "log_leaves",
        sa.Column("entry", sa.LargeBinary, nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("place", sa.BigInteger),
        sa.Column("agent_id", sa.String(128), nullable=False),
        sa.Column("card", sa.String(64)),
        sa.Column("salt", sa.LargeBinary),
        sa.Column("commitment", sa.LargeBinary),
        sa.Column("structure", sa.Text),
        sa.PrimaryKeyConstraint("entry", name="pk_log_leaves"),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_log_leaves_agent_id", "log_leaves", ["agent_id"])
    op.execute("CREATE INDEX ix_log_leaves_waiting ON log_leaves (at, entry) WHERE place IS NULL")
    op.create_table(
        "log_tiles",
        sa.Column("level", sa.SmallInteger, nullable=False, autoincrement=False),
        sa.Column("number", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column("hashes", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("level", "number", name="pk_log_tiles"),
    )
    op.create_table(
        "log_head",
        sa.Column("log", sa.SmallInteger, nullable=False, autoincrement=False),
        sa.Column("size", sa.BigInteger, nullable=False),
        sa.Column("root", sa.LargeBinary, nullable=False),
        sa.Column("batch_at", sa.BigInteger, nullable=False),
        sa.Column("published", sa.BigInteger, nullable=False),
        sa.Column("checkpoint", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("log", name="pk_log_head"),
    )


def downgrade() -> None:
    raise NotImplementedError("version 0.1 does not read records with the column checks")
