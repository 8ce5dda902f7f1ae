"""Alembic's entry point: migrations run on the connection that the ledger hands over, in its transaction."""

from alembic import context

from sfumato.ledger.ledger_tables import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata)
context.run_migrations()
