"""The registry's own keys, sealed; a use has one active key."""

import sqlalchemy as sa
from alembic import op

revision = "r0006"
down_revision = "r0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "registry_keys",
        sa.Column("kid", sa.String(64), nullable=False),
        sa.Column("use", sa.String(16), nullable=False),
        sa.Column("public_jwk", sa.JSON, nullable=False),
        sa.Column("sealed", sa.Text, nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("active_for", sa.String(16), nullable=True),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("not_before", sa.BigInteger, nullable=False),
        sa.Column("activated_at", sa.BigInteger, nullable=True),
        sa.Column("retired_at", sa.BigInteger, nullable=True),
        sa.Column("signs_until", sa.BigInteger, nullable=True),
        sa.PrimaryKeyConstraint("kid", name="pk_registry_keys"),
        sa.UniqueConstraint("active_for", name="uq_registry_keys_active_for"),
        sa.CheckConstraint(
            "(state = 'active' AND active_for IS NOT NULL AND active_for = use)"
            " OR (state <> 'active' AND active_for IS NULL)",
            name="ck_registry_keys_active_for",
        ),
    )


def downgrade() -> None:
    op.drop_table("registry_keys")
