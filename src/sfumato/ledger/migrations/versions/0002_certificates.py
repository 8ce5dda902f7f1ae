"""Certificates are kept beside the rows that paid for them. Frozen: a change is a new revision."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "certificates",
        sa.Column("dataset", sa.Integer, sa.ForeignKey("datasets.id"), primary_key=True, autoincrement=False),
        sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("envelope", sa.Text, nullable=False),
    )
