"""One server for all tests of MLflow's wire: to start one takes longer than most of them."""

from __future__ import annotations

import pytest
from mlflow_wire import Wire
from servers import running_server


@pytest.fixture(params=["sqlite+disk", "postgresql+s3"])
def backend(request, registries):
    """An empty registry: on both databases and both places for content, each once."""
    return registries.open(request.param)


@pytest.fixture
def wire(backend):
    """MLflow's endpoints of an empty registry, for somebody who may do everything."""
    return Wire(backend)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """Run a server on SQLite and disk."""
    with running_server(tmp_path_factory.mktemp("server")) as running:
        yield running
