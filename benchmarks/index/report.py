"""A measured figure against its target, and the files a measurement leaves in `results/`."""

import json
import os
import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from benchmarks.embedder.report import table
from kb.embedders.cpus import usable_cpus

RESULTS = Path(__file__).with_name("results")
VERSIONS = (
    "chromadb",
    "bm25s",
    "numpy",
    "onnxruntime",
    "tokenizers",
    "tree-sitter",
    "torch",
    "sentence-transformers",
)


@dataclass(frozen=True, slots=True)
class Figure:
    """One number that has a target."""

    name: str
    measured: float
    target: float
    at_least: bool
    """Whether the target is a lower bound; else it is an upper one."""
    unit: str = "×"

    @property
    def met(self) -> bool:
        """Whether the target is reached."""
        return self.measured >= self.target if self.at_least else self.measured <= self.target

    def row(self) -> list[str]:
        """Cells for a table: figure, target, measured, verdict."""
        sign = "≥" if self.at_least else "≤"
        space = "" if self.unit in {"×", ""} else " "
        return [
            self.name,
            f"{sign} {self.target:g}{space}{self.unit}",
            f"{self.measured:.5g}{space}{self.unit}",
            "met" if self.met else "MISSED",
        ]


def machine() -> dict[str, Any]:
    """The processor, its usable cores, memory, load, versions and date."""
    processor = platform.processor() or platform.machine()
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            processor = line.partition(":")[2].strip()
            break
    return {
        "processor": processor,
        "cores": usable_cpus(),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1),
        "load_average_before": [round(load, 2) for load in os.getloadavg()],
        "python": platform.python_version(),
        "versions": {name: found for name in VERSIONS if (found := _version(name))},
        "date": datetime.now(UTC).date().isoformat(),
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def write(
    name: str, where: dict[str, Any], figures: Sequence[Figure], text: str, detail: dict[str, Any]
) -> None:
    """Write `results/<name>.json` and `.md`, and print the latter.

    Parameters
    ----------
    where
        What `machine` returned before the measurement began.
    text
        Markdown that says what was measured and shows it in full.
    detail
        Everything measured, for the JSON file.
    """
    command = f"python -m benchmarks.index.{name}"
    versions = ", ".join(f"{package} {number}" for package, number in where["versions"].items())
    footer = (
        f"Measured {where['date']} by `{command}` on {where['processor']}, {where['cores']} cores, "
        f"{where['memory_gb']} GB; Python {where['python']}, {versions}. Load average before: "
        f"{where['load_average_before'][0]}. Absolute times are context: only the ratios of one "
        "run compare."
    )
    head = table(["figure", "target", "measured", "verdict"], [each.row() for each in figures])
    page = f"{head}\n\n{text}\n\n{footer}\n"
    record = {
        "command": command,
        "machine": where,
        "figures": [{**asdict(each), "met": each.met} for each in figures],
        **detail,
    }
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.md").write_text(page, encoding="utf-8")
    content = json.dumps(record, indent=1, ensure_ascii=False) + "\n"
    (RESULTS / f"{name}.json").write_text(content, encoding="utf-8")
    print(page)


def read_figures(name: str) -> list[Figure]:
    """The figures that a measurement wrote last."""
    record = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    return [
        Figure(**{key: value for key, value in each.items() if key != "met"})
        for each in record["figures"]
    ]


def milliseconds(call: Callable[[], object]) -> float:
    """Wall time of one call."""
    start = time.perf_counter()
    call()
    return (time.perf_counter() - start) * 1e3
