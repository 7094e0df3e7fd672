"""Result files: a JSON record and a Markdown table, with what they were measured on."""

import json
import os
import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from kb.embedders.cpus import usable_cpus

RESULTS = Path(__file__).with_name("results")
VERSIONS = (
    "onnxruntime",
    "tokenizers",
    "sentence-transformers",
    "torch",
    "numpy",
    "triton",
    "scipy",
    "scikit-learn",
    "transformers",
)
# What decides which matrix kernels onnxruntime and torch pick.
FEATURES = ("avx2", "avx_vnni", "avx512f", "avx512_vnni", "avx512_bf16", "amx_int8", "amx_bf16")


def machine() -> dict[str, Any]:
    """Return the processor, its usable cores, the versions and the date."""
    processor, features = platform.processor() or platform.machine(), []
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            key, _, value = (part.strip() for part in line.partition(":"))
            if key == "model name":
                processor = value
            elif key == "flags":
                features = [feature for feature in FEATURES if feature in value.split()]
    except OSError:
        pass
    return {
        "processor": processor,
        "features": features,
        "cores": usable_cpus(),
        "load_average_before": round(os.getloadavg()[0], 2),
        "python": platform.python_version(),
        "versions": {name: version(name) for name in VERSIONS},
        "date": datetime.now(UTC).date().isoformat(),
    }


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def write(name: str, command: str, text: str, record: dict[str, Any]) -> None:
    """Write ``results/<name>.json`` and ``.md``, and print the latter."""
    where = record["machine"]
    versions = ", ".join(f"{package} {number}" for package, number in where["versions"].items())
    features = ", ".join(where["features"])
    footer = (
        f"Measured {where['date']} by `{command}` on {where['processor']}, {where['cores']} cores "
        f"({features}), with a load average of {where['load_average_before']} beforehand; Python "
        f"{where['python']}, {versions}."
    )
    RESULTS.mkdir(exist_ok=True)
    page = f"{text}\n\n{footer}\n"
    (RESULTS / f"{name}.md").write_text(page, encoding="utf-8")
    content = json.dumps(record, indent=2, ensure_ascii=False) + "\n"
    (RESULTS / f"{name}.json").write_text(content, encoding="utf-8")
    print(page)
