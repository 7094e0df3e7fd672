"""Schemathesis against the published OpenAPI document, also in sequences of requests."""

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
    use_after_free,
)

# Not `positive_data_acceptance`: a blank query, an unknown GPU or two budgets at once are refused,
# which JSON Schema does not say.
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    negative_data_rejection,
    unsupported_method,
    use_after_free,
]
EXAMPLES = settings(
    max_examples=12,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.generate],
)




@pytest.fixture
def live_api(live):
    return schemathesis.openapi.from_url(live.url + "/openapi.json")


schema = schemathesis.pytest.from_fixture("live_api")


@schema.parametrize()
@EXAMPLES
def test_every_operation_keeps_to_its_document(case):
    case.call_and_validate(checks=CHECKS)


def test_sequences_of_requests_keep_to_the_document(live_api):
    machine = live_api.as_state_machine()
    machine.run(
        settings=settings(
            max_examples=8,
            stateful_step_count=4,
            deadline=None,
            derandomize=True,
            suppress_health_check=list(HealthCheck),
        )
    )


def test_every_error_is_documented_as_a_problem(client):
    document = client.get("/openapi.json").json()
    assert document["components"]["schemas"]["Problem"]["required"] == [
        "title", "status", "detail",
    ]  # fmt: skip
    operations = 0
    for path in document["paths"].values():
        for operation in path.values():
            operations += 1
            errors = {k: v for k, v in operation["responses"].items() if k[0] in "45"}
            assert {"401", "404", "413", "429", "503"} <= set(errors)
            for answer in errors.values():
                shape = answer["content"]["application/problem+json"]["schema"]
                assert shape == {"$ref": "#/components/schemas/Problem"}
    assert operations >= 11
