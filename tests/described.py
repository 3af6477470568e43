"""An operation of our OpenAPI page, asked with what its description allows: answered as described, without a fault."""

from __future__ import annotations

from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

CHECKS = [status_code_conformance, content_type_conformance, response_schema_conformance]


def ask_as_described(operation, url, *, examples, here=None):
    """Ask an operation; ``here`` are the fields of its path that lead somewhere, by default whatever is drawn."""

    @settings(
        max_examples=examples,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy())
    def run(case):
        if here is not None:
            case.path_parameters = {name: here.get(name, value) for name, value in (case.path_parameters or {}).items()}
        answer = case.call_and_validate(base_url=url, checks=CHECKS)
        assert answer.status_code != 500  # 501 and 503 are answers, not faults

    run()
