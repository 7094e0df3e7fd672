"""Result files: a JSON record and the Markdown that is read."""

import json
from pathlib import Path
from typing import Any


def write(folder: Path, text: str, record: dict[str, Any]) -> None:
    """Write `results/NAME.json` and `.md` in a benchmark's folder NAME, and print the latter."""
    name, results = folder.name, folder / "results"
    results.mkdir(exist_ok=True)
    page = f"{text}\n\nCommand: `python -m benchmarks.{name}`.\n"
    (results / f"{name}.md").write_text(page, encoding="utf-8")
    content = json.dumps(record, indent=1, ensure_ascii=False) + "\n"
    (results / f"{name}.json").write_text(content, encoding="utf-8")
    print(page)
