"""Make nonces stateless: keep the used ones, and the key of all nonces."""

import sqlalchemy as sa
from alembic import op

revision = "r0012"
down_revision = "r0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "used_nonces",
        sa.Column("digest", sa.LargeBinary(32), nullable=False),
        sa.Column("until", sa.Double, nullable=False),
        sa.Column("slot", sa.BigInteger),
        sa.Column("forgotten", sa.LargeBinary(32)),
        sa.Column("made_in", sa.String(128)),
        sa.PrimaryKeyConstraint("digest", name="pk_used_nonces"),
        sa.UniqueConstraint("slot", name="uq_used_nonces_slot"),
    )
    op.create_index("ix_used_nonces_until", "used_nonces", ["until"])
    op.create_index("ix_used_nonces_forgotten", "used_nonces", ["forgotten"])
    if op.get_bind().dialect.name == "postgresql":
        op.execute(sa.schema.CreateSequence(sa.Sequence("used_nonces_slots")))
    op.drop_table("nonces")


def downgrade() -> None:
    op.create_table(
        "nonces",
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("subject", sa.String(256), nullable=False),
        sa.Column("expires_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("digest", name="pk_nonces"),
    )
    for column in ("subject", "expires_at"):
        op.create_index(f"ix_nonces_{column}", "nonces", [column])
    if op.get_bind().dialect.name == "postgresql":
        op.execute(sa.schema.DropSequence(sa.Sequence("used_nonces_slots")))
    op.drop_table("used_nonces")
