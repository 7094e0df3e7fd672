"""What stands under a field describes it in the JSON schema."""

import pytest
from pydantic import BaseModel, ConfigDict, Field

from kb.docstrings import describe_fields


class Described(BaseModel):
    model_config = ConfigDict(json_schema_extra=describe_fields)

    plain: int
    told: int
    """Lines of a file,
    counted."""
    explicit: int = Field(description="As said.")
    """As it is not said."""


class Extended(Described):
    own: Described | None
    """One of the others."""


@pytest.mark.parametrize("model", [Described, Extended])
def test_a_docstring_describes_its_field_and_those_of_classes_that_extend_it(model):
    fields = model.model_json_schema()["properties"]
    assert "description" not in fields["plain"]
    assert fields["told"]["description"] == "Lines of a file,\ncounted."
    assert fields["explicit"]["description"] == "As said."


def test_so_it_does_in_a_schema_that_refers_to_the_class():
    schema = Extended.model_json_schema()
    assert schema["properties"]["own"]["description"] == "One of the others."
    assert "counted" in schema["$defs"]["Described"]["properties"]["told"]["description"]
