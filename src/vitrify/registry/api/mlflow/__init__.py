"""MLflow's REST API, so that an unmodified MLflow client works against this registry.

MLflow's registered models and versions are the registry's own, by the same requests and under the same rules. A version
is sealed when it is made: its files are pinned by digest, and writing to an artifact's path afterwards changes nothing
of it. Experiments, runs and logged models stand beside, and change as they do in MLflow.

Written against MLflow 3.17.2; what is not offered (traces, webhooks, prompts' versions, uploads in parts) is a 404.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vitrify.registry.api.mlflow._wire import Row
    from vitrify.registry.api.routing import Route

__all__ = ["routes", "rows"]


def routes() -> tuple[Route, ...]:
    """Return the table, for the server's router."""
    from vitrify.registry.api.mlflow import artifacts, server

    return (*server.ROUTES, *(row.route for row in rows()), *artifacts.STREAMS)


def rows() -> tuple[Row, ...]:
    """Return the endpoints that take and give JSON, each with the fields it takes."""
    from vitrify.registry.api.mlflow import (
        artifacts,
        experiments,
        logged_models,
        model_versions,
        registered_models,
        run_search,
        runs,
    )

    tables = (registered_models, model_versions, experiments, runs, run_search, logged_models, artifacts)
    return tuple(row for table in tables for row in table.ROWS)
