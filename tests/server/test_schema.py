"""Schemathesis against the published OpenAPI document, also in sequences of requests."""

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.config import SchemathesisConfig
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


# What refuses a request: a generated text may also be too long for the limit on
# bodies (413), which stands before the schema and is not in Schemathesis's own list.
REFUSED = ["400", "404", "405", "413", "415", "422"]


@pytest.fixture
def api(live):
    config = SchemathesisConfig.from_dict(
        {"checks": {"negative_data_rejection": {"expected-statuses": REFUSED}}}
    )
    return schemathesis.openapi.from_url(live.url + "/openapi.json", config=config)


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
def test_every_operation_keeps_to_its_document(api, mode):
    operations = [each.ok() for each in api.get_all_operations()]
    assert len(operations) >= 11
    for operation in operations:
        if mode is GenerationMode.NEGATIVE and not takes_anything(operation):
            continue

        @EXAMPLES
        @given(case=operation.as_strategy(generation_mode=mode))
        def check(case):
            case.call_and_validate(checks=CHECKS)

        check()


def takes_anything(operation):
    """Whether there is something to send that could be wrong. A path is right or names nothing."""
    return bool(operation.body) or bool(operation.query)


def test_sequences_of_requests_keep_to_the_document(api):
    class Sequences(api.as_state_machine()):
        def validate_response(self, response, case, additional_checks=(), **options):
            case.validate_response(response, checks=CHECKS, **options)

    Sequences.run(settings=settings(EXAMPLES, max_examples=8, stateful_step_count=4))


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
