"""Write measured results into the entries' front matter as `verified` records.

    python -m benchmarks.kernels.records RESULTS.json [--corpus FOLDER]

A kernel gets a record for each baseline. A technique gets those of its `examples` that are its own
(`kb.corpus.measured.own_records`): against the kernel that the example is derived from, where the
two differ in this technique alone. A GPU that lacks the technique gives it no record: there the
example runs without it. Records of other GPUs, shapes, dtypes and baselines stay, unless their pair
no longer exists; all other text is unchanged.
"""

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from benchmarks.tasks import load
from kb.architectures import any_runs_on
from kb.corpus.entries import Kernel, Technique, Verified
from kb.corpus.frontmatter import FrontMatter, split_front_matter, validate_front_matter
from kb.corpus.loader import load_corpus
from kb.corpus.measured import BASELINES, own_records
from kb.errors import EntryError, InvalidInputError, KbError
from kb.gpus import find_spec

ROOT = Path(__file__).resolve().parents[2]
# The matrix rate is measured in bfloat16.
_MATRIX_DTYPES = ("bfloat16", "float16")
_DIGITS = 4
# Reading alone is faster than the copy that the floor is measured by: up to 1.1 was seen.
_BELOW_THE_FLOOR = 1.25
_VERIFIED_KEY = re.compile(r"verified\s*:")


def main() -> int:
    """Parse the command line and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results", type=Path)
    parser.add_argument("--corpus", type=Path, default=ROOT / "corpus")
    options = parser.parse_args()
    try:
        for path in write_records(options.results, options.corpus):
            print(path)
    except KbError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def write_records(results_path: Path, root: Path) -> list[Path]:
    """Write every record; the files that changed.

    Raises
    ------
    KbError
        If the results hold no kernel.
    EntryError
        If an entry would not be valid with its records; no file is changed then.
    """
    results = load(results_path)
    if not results["records"]:
        raise KbError(f"{results_path} holds no measured kernel")
    corpus = load_corpus(root)
    measured_records = {
        slug: kernel_records(results["environment"], measured)
        for slug, measured in results["records"].items()
        if "failed" not in measured
    }
    changes: dict[Path, str] = {}
    kernels: dict[str, Kernel] = {}
    for kernel in corpus.kernels:
        entry = kernel.entry
        baselines = {*BASELINES, entry.derived_from}
        current = [record for record in entry.verified if record.baseline in baselines]
        records = _merge(current, measured_records.get(entry.slug, []))
        kernels[entry.slug] = entry.model_copy(update={"verified": records})
        _plan_change(changes, root / kernel.path, entry, records)
    for technique in corpus.techniques:
        examples = [
            record.model_copy(update={"shape": f"{slug} {record.shape}"})
            for slug in technique.entry.examples
            for record in measured_records.get(slug, [])
            if has_technique(technique.entry, record.gpu)
        ]
        merged = _merge(technique.entry.verified, examples)
        valid = own_records(technique.entry.model_copy(update={"verified": merged}), kernels)
        _plan_change(changes, root / technique.path, technique.entry, valid)
    for path, text in changes.items():
        path.write_text(text, encoding="utf-8")
    return sorted(changes)


def has_technique(technique: Technique, gpu: str) -> bool:
    """Whether a GPU, by its driver's name, has what a technique is about; an unknown one does."""
    try:
        architecture = find_spec(gpu).architecture
    except InvalidInputError:
        return True
    return any_runs_on(technique.architectures, architecture)


def kernel_records(environment: dict[str, Any], measured: dict[str, Any]) -> list[Verified]:
    """One record for each baseline that one kernel was timed against."""
    times = {name: _round(sample["median_ms"]) for name, sample in measured["times"].items()}
    kernel_ms = times.pop("kernel")
    keys = ("gpu", "driver", "toolkit", "torch", "triton", "date")
    return [
        Verified(
            **{key: environment[key] for key in keys},
            shape="x".join(str(extent) for extent in measured["size"]),
            dtype=measured["dtype"],
            baseline=name,
            baseline_ms=baseline,
            measured_ms=kernel_ms,
            speedup=_round(baseline / kernel_ms),
            floor_fraction=_fraction(floor_ms(measured), kernel_ms),
        )
        for name, baseline in times.items()
    ]


def _fraction(floor: float | None, ms: float) -> float | None:
    """The share of the floor to record; None without a floor, or if the kernel is far below it.

    Then the reference multiplies zeros that the kernel leaves out, so its operations are no bound.
    """
    return _round(floor / ms) if floor is not None and floor / ms < _BELOW_THE_FLOOR else None


def floor_ms(measured: dict[str, Any]) -> float | None:
    """The least possible time: bytes over copy bandwidth or FLOPs over matrix rate, the larger.

    Bytes are each input read once and each output written once. None for products of a dtype whose
    rate was not measured, unless they would take less than the bytes even at twice the 16-bit rate,
    that of 8-bit operands: then the bytes are the floor.
    """
    floors = measured["floors"]
    memory: float = measured["bytes"] / floors["copy_bytes_per_s"]
    matrix: float = measured["flops"] / floors["matmul_flop_per_s"]
    if measured["dtype"] in _MATRIX_DTYPES:
        return 1e3 * max(memory, matrix)
    return 1e3 * memory if matrix / 2 <= memory else None


def _round(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")


def _merge(old: Sequence[Verified], new: Sequence[Verified]) -> list[Verified]:
    """All records; a new one replaces the old one of its GPU, shape, dtype and baseline."""
    replaced = {_key(record) for record in new}
    return [*(record for record in old if _key(record) not in replaced), *new]


def _plan_change(
    changes: dict[Path, str], path: Path, entry: Kernel | Technique, records: Sequence[Verified]
) -> None:
    if list(records) == list(entry.verified):
        return
    text = with_records(path.read_text(encoding="utf-8"), path.name, records)
    validate_front_matter(_front_matter(text, path.name), type(entry), path.name)
    changes[path] = text


def _front_matter(text: str, name: str) -> FrontMatter:
    front = split_front_matter(text, name)
    if front is None:
        raise EntryError(f"{name}: has no front matter")
    return front


def _key(record: Verified) -> tuple[str, str, str, str]:
    return (record.gpu, record.shape, record.dtype, record.baseline)


def with_records(text: str, name: str, records: Sequence[Verified]) -> str:
    """`text` with the `verified` key of its front matter replaced, added at its end or, without
    records, left out."""
    front = _front_matter(text, name)
    lines = text.splitlines(keepends=True)
    first, fence = front.first_line - 1, front.body_line - 2
    start = next((i for i in range(first, fence) if _VERIFIED_KEY.match(lines[i])), fence)
    end = min(start + 1, fence)
    while end < fence and (not lines[end].strip() or lines[end][0] in " -"):
        end += 1
    data = [record.model_dump(exclude_none=True) for record in records]
    block = yaml.safe_dump({"verified": data}, sort_keys=False, width=90, allow_unicode=True)
    return "".join(lines[:start]) + (block if data else "") + "".join(lines[end:])


if __name__ == "__main__":
    sys.exit(main())
