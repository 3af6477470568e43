"""Migrations, each run once and forward only; Alembic keeps count."""
