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


def downgrade() -> None:
    raise NotImplementedError("version 0.1 does not read records with the column checks")
