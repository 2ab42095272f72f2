"""Run by Alembic: migrates on the connection that ``migrate`` hands over."""

from alembic import context

from issuer_service.db.tables import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata)
with context.begin_transaction():
    context.run_migrations()
