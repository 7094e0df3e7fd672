"""Split a file into YAML front matter and the rest, and validate it with line numbers."""

import re
from dataclasses import dataclass
from typing import TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from kb.errors import EntryError
from kb.refusals import key_problem
from kb.vocabulary import check_foreign_yaml, compose_yaml, load_yaml

_FENCE = re.compile(r"^[ \t]*---[ \t]*$")
# In a source file the opening fence stands near the top, inside the docstring or comment.
_SOURCE_HEAD_LINES = 5

ModelT = TypeVar("ModelT", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class FrontMatter:
    """The YAML between the `---` lines, and where it stands."""

    yaml: str
    first_line: int
    """1-based line of the first YAML line."""
    body: str
    """The text after the closing fence."""
    body_line: int
    """1-based line of the first body line."""


def split_front_matter(text: str, path: str) -> FrontMatter | None:
    """Find the front matter of a Markdown file (first line) or a source file (leading comment).

    Returns None when there is no opening fence.

    Raises
    ------
    EntryError
        If the opening fence has no closing one.
    """
    lines = text.splitlines()
    head = 1 if path.endswith((".md", ".markdown")) else _SOURCE_HEAD_LINES
    start = next((i for i, line in enumerate(lines[:head]) if _FENCE.match(line)), None)
    if start is None:
        return None
    end = next((i for i in range(start + 1, len(lines)) if _FENCE.match(lines[i])), None)
    if end is None:
        raise EntryError(f"{path}:{start + 1}: front matter is not closed: add a line with ---")
    return FrontMatter(
        yaml="\n".join(lines[start + 1 : end]),
        first_line=start + 2,
        body="\n".join(lines[end + 1 :]),
        body_line=end + 2,
    )


def _line_of(node: yaml.Node | None, location: tuple[int | str, ...]) -> int:
    """0-based line of the deepest node on the way to `location`."""
    line = node.start_mark.line if node is not None else 0
    for part in location:
        if isinstance(node, yaml.MappingNode):
            pair = next(((k, v) for k, v in node.value if k.value == part), None)
            if pair is None:
                break
            line, node = pair[0].start_mark.line, pair[1]
        elif (
            isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value)
        ):
            node = node.value[part]
            line = node.start_mark.line
        else:
            break
    return line


def _refuse_repeated_keys(root: yaml.Node | None, first_line: int, path: str) -> None:
    """YAML keeps the last of two equal keys silently; a reader would lose the first."""
    waiting = [root]
    # An alias repeats a node, and may refer to a node that contains the alias.
    visited: set[int] = set()
    while waiting:
        node = waiting.pop()
        if id(node) in visited:
            continue
        visited.add(id(node))
        if isinstance(node, yaml.MappingNode):
            keys: set[str] = set()
            for key, value in node.value:
                if key.value in keys:
                    line = first_line + key.start_mark.line
                    raise EntryError(f"{path}:{line}: key '{key.value}' is given twice")
                keys.add(key.value)
                waiting.append(value)
        elif isinstance(node, yaml.SequenceNode):
            waiting.extend(node.value)


def line_of_key(front: FrontMatter, key: str) -> int:
    """1-based line in the file where a top-level key of valid front matter stands."""
    return front.first_line + _line_of(compose_yaml(front.yaml), (key,))


def validate_front_matter(front: FrontMatter, model: type[ModelT], path: str) -> ModelT:
    """Parse the YAML and validate it against `model`.

    Raises
    ------
    EntryError
        Malformed YAML, an unknown or missing key, or a bad value; names file and line.
    """
    try:
        check_foreign_yaml(front.yaml)
        node, data = compose_yaml(front.yaml), load_yaml(front.yaml)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = front.first_line + (mark.line if mark is not None else 0)
        problem = getattr(error, "problem", None) or "cannot be parsed"
        raise EntryError(f"{path}:{line}: malformed YAML: {problem}") from error
    except (ValueError, RecursionError) as error:  # such as a date with a month 13
        raise EntryError(f"{path}:{front.first_line}: malformed YAML: {error}") from error
    _refuse_repeated_keys(node, front.first_line, path)
    if not isinstance(data, dict):
        raise EntryError(f"{path}:{front.first_line}: front matter must be a mapping of keys")
    try:
        return model.model_validate(data)
    except ValidationError as error:
        line = front.first_line + _line_of(node, error.errors()[0]["loc"])
        raise EntryError(f"{path}:{line}: {key_problem(error)}") from error
