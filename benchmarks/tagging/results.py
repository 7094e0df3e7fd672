"""Result files of this folder: a JSON record and the Markdown that is read."""

import json
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).with_name("results")


def write(name: str, text: str, record: dict[str, Any]) -> None:
    """Write `results/<name>.json` and `.md`, and print the latter."""
    RESULTS.mkdir(exist_ok=True)
    page = f"{text}\n\nCommand: `python -m benchmarks.{name}`.\n"
    (RESULTS / f"{name}.md").write_text(page, encoding="utf-8")
    content = json.dumps(record, indent=1, ensure_ascii=False) + "\n"
    (RESULTS / f"{name}.json").write_text(content, encoding="utf-8")
    print(page)
