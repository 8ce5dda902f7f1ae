"""The first ledger: datasets, chained entries, running totals. Frozen: a change is a new revision."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the tables."""
    op.create_table("ledgers", sa.Column("id", sa.Text, primary_key=True))
    op.create_table(
        "datasets",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("digest", sa.Text, nullable=False, unique=True),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("terms", sa.Text, nullable=False),
    )
    op.create_table(
        "entries",
        sa.Column("dataset", sa.Integer, sa.ForeignKey("datasets.id"), primary_key=True, autoincrement=False),
        sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("at", sa.Text, nullable=False),
        sa.Column("previous", sa.Text, nullable=False),
        sa.Column("purpose", sa.Text, nullable=False),
        sa.Column("key", sa.Text),
        sa.Column("refers_to", sa.BigInteger),
        sa.Column("guarantee", sa.Text),
        sa.Column("prices", sa.Text),
        sa.Column("hash", sa.Text, nullable=False),
    )
    op.create_index("entries_hash", "entries", ["hash"])
    for column in ("key", "refers_to"):
        filled = sa.column(column).is_not(None)
        op.create_index(
            f"entries_{column}",
            "entries",
            ["dataset", column],
            unique=True,
            sqlite_where=filled,
            postgresql_where=filled,
        )
    op.create_table(
        "accounts",
        sa.Column("dataset", sa.Integer, sa.ForeignKey("datasets.id"), primary_key=True, autoincrement=False),
        sa.Column("spent", sa.Text, nullable=False),
        sa.Column("entries", sa.BigInteger, nullable=False),
        sa.Column("spends", sa.BigInteger, nullable=False),
        sa.Column("holds", sa.BigInteger, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("head", sa.Text, nullable=False),
        sa.Column("at", sa.Text, nullable=False),
    )
