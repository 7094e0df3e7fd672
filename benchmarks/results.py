"""Result files: a JSON record that a kill leaves whole, and the Markdown page that is read."""

import json
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from kb.embedders.cpus import usable_cpus

VERSIONS = (
    "chromadb", "bm25s", "numpy", "onnxruntime", "tokenizers", "tree-sitter", "tree-sitter-cpp",
    "torch", "sentence-transformers",
)  # fmt: skip
# What decides which matrix kernels onnxruntime and torch pick.
FEATURES = ("avx2", "avx_vnni", "avx512f", "avx512_vnni", "avx512_bf16", "amx_int8", "amx_bf16")


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


def load(path: Path) -> dict[str, Any]:
    """Return a record; an empty one where there is no file."""
    if not path.is_file():
        return {}
    record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return record


def save(path: Path, record: dict[str, Any]) -> None:
    """Replace a record as a whole, so that a kill leaves the last complete one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    part.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    part.replace(path)


def publish(
    stem: Path, command: str, text: str, record: dict[str, Any], figures: Sequence[Figure] = ()
) -> None:
    """Write `stem`.json and `stem`.md, and print the latter.

    Parameters
    ----------
    text
        Markdown that explains the measurements and shows them in full.
    record
        All measurements; its `machine` is the result of `machine` before they began.
    figures
        Numbers with targets: their table comes first.
    """
    host = record["machine"]
    versions = ", ".join(f"{package} {number}" for package, number in host["versions"].items())
    footer = (
        f"Measured {host['date']} by `{command}` on {host['processor']}, {host['cores']} cores, "
        f"{host['memory_gb']} GB, load average {host['load_average_before'][0]} before; Python "
        f"{host['python']}, {versions}. Times compare within one run only."
    )
    parts = [figure_table(figures)] if figures else []
    page = "\n\n".join([*parts, text, footer]) + "\n"
    data: dict[str, Any] = {"command": command}
    if figures:
        data["figures"] = [{**asdict(figure), "met": figure.met} for figure in figures]
    save(stem.with_name(f"{stem.name}.json"), data | record)
    stem.with_name(f"{stem.name}.md").write_text(page, encoding="utf-8")
    print(page)


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def figure_table(figures: Sequence[Figure]) -> str:
    """Return figures with their targets and verdicts as a Markdown table."""
    rows = []
    for figure in figures:
        unit = figure.unit if figure.unit in {"×", ""} else f" {figure.unit}"
        target = f"{'≥' if figure.at_least else '≤'} {figure.target:g}{unit}"
        verdict = "met" if figure.met else "MISSED"
        rows.append([figure.name, target, f"{figure.measured:.5g}{unit}", verdict])
    return table(["figure", "target", "measured", "verdict"], rows)


def machine() -> dict[str, Any]:
    """Return the processor, its usable cores, memory, load, versions and date."""
    processor, features = platform.processor() or platform.machine(), []
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        key, _, value = (part.strip() for part in line.partition(":"))
        if key == "model name":
            processor = value
        elif key == "flags":
            features = [feature for feature in FEATURES if feature in value.split()]
    return {
        "processor": processor,
        "features": features,
        "cores": usable_cpus(),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1),
        "load_average_before": [round(load, 2) for load in os.getloadavg()],
        "python": platform.python_version(),
        "versions": {name: number for name in VERSIONS if (number := _version(name))},
        "date": datetime.now(UTC).date().isoformat(),
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
