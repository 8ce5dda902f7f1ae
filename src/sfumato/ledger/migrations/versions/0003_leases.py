"""Runs that a row paid for are leased to whoever carries them on. Frozen: a change is a new revision."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "leases",
        sa.Column("dataset", sa.Integer, sa.ForeignKey("datasets.id"), primary_key=True, autoincrement=False),
        sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("holder", sa.Text, nullable=False),
        sa.Column("until", sa.Float),
    )
