"""What Alembic runs: the migrations, on the connection that :class:`vitrify.registry.database.Database` hands over."""

from __future__ import annotations

from alembic import context

from vitrify.registry.database.schema import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata, transactional_ddl=True)
with context.begin_transaction():
    context.run_migrations()
