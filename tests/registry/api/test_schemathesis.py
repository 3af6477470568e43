"""schemathesis, against a real server: whatever fits the description, or just does not, is answered as described."""

import pytest
from hypothesis import HealthCheck, Phase, settings
from servers import registry_server

from vitrify.registry.api import openapi

schemathesis = pytest.importorskip("schemathesis")
from schemathesis.checks import not_a_server_error  # noqa: E402 (after the check that it is installed)
from schemathesis.specs.openapi.checks import (  # noqa: E402 (the same)
    content_type_conformance,
    ignored_auth,
    negative_data_rejection,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
)

__all__ = ["registry_server"]

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
    negative_data_rejection,
    unsupported_method,
    ignored_auth,
]
schema = schemathesis.openapi.from_dict(openapi.document())


@pytest.fixture(scope="module")
def access(registry_server):
    client = registry_server.client("admin")
    client.create_model("churn", description="for those examples that find a name")
    client.close()
    return registry_server.url, {"Authorization": f"Bearer {registry_server.token('admin')}"}


@schema.parametrize()
@settings(
    max_examples=8,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_every_operation_answers_as_it_is_described(case, access):
    url, headers = access
    case.call_and_validate(base_url=url, headers=headers, checks=CHECKS)
