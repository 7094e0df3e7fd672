"""The guarantees in docs/guarantees.md name tests that exist."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
NAMED = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", (ROOT / "docs/guarantees.md").read_text())


def test_guarantees_name_tests():
    assert len(NAMED) > 20


@pytest.mark.parametrize(("path", "name"), NAMED)
def test_a_guarantee_leads_to_its_test(path, name):
    tree = ast.parse((ROOT / path).read_text())
    functions = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    assert not name or name in functions
