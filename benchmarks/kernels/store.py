"""The results file: one JSON per GPU, replaced as a whole after every kernel."""

import json
from pathlib import Path
from typing import Any

Results = dict[str, Any]


def load(path: Path) -> Results:
    """The results so far, or an empty frame."""
    if path.is_file():
        found: Results = json.loads(path.read_text(encoding="utf-8"))
        return found
    return {"environment": {}, "floors": {}, "kernels": {}}


def save(path: Path, results: Results) -> None:
    """Replace the file, so that a kill leaves the last complete one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    temporary.replace(path)
