"""Does `kb profile` say what ncu itself prints of the same report, metric by metric?

`python -m benchmarks.judge.profile_agreement [--out FILE]` on a machine with a GPU and ncu profiles
a torch softmax and a Triton matmul, keeps the reports, has ncu print each as text
(`ncu --import REPORT --page raw --print-units base`), and compares every metric of every launch.
"""

import argparse
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.results import save
from judge.problem.kernel import KernelFile
from judge.problem.source import ProblemFile
from judge.profile import ncu
from judge.profile.profiler import Request, profile
from judge.profile.result import Profile
from kb.profiles.launches import DURATION
from kb.profiles.ncu_tables import parse_number

SOFTMAX = """
import torch
class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=-1)
"""
SOFTMAX_PROBLEM = (
    SOFTMAX.replace("ModelNew", "Model")
    + """
def get_inputs():
    return [torch.rand(4096, 16384)]
def get_init_inputs():
    return []
"""
)
MATMUL_PROBLEM = """
import torch
class Model(torch.nn.Module):
    def forward(self, a, b):
        return a @ b
def get_inputs():
    return [torch.rand(4096, 4096), torch.rand(4096, 4096)]
def get_init_inputs():
    return []
"""
# "    dram__bytes_read.sum      byte      1,234": name, unit (some have none), value.
_LINE = re.compile(r"^\s+([a-z][a-z0-9]*__[\w.]+)\s+(.*\S)\s*$")
# "  softmax(...) (4096, 1, 1)x(1024, 1, 1), Context 1, Stream 7, Device 0, CC 9.0"
_LAUNCH = re.compile(r"^\s+(\S.*?) \(\d+, \d+, \d+\)x\(\d+, \d+, \d+\), Context \d+")


@dataclass
class Printed:
    """One launch as ncu prints it: metric → the text of its value."""

    kernel: str
    values: dict[str, str] = field(default_factory=dict)


def read_text(text: str) -> list[Printed]:
    """The launches of ncu's raw page as text, in order."""
    launches: list[Printed] = []
    for line in text.splitlines():
        if started := _LAUNCH.match(line):
            launches.append(Printed(started[1]))
        elif launches and (metric := _LINE.match(line)):
            launches[-1].values[metric[1]] = metric[2].split()[-1]
    return launches


def agrees(ours: float | None, printed: str | None) -> bool:
    """Whether a value is the printed one, to the digits that are printed; None: missing in both."""
    theirs = None if printed is None else parse_number(printed)
    if ours is None or theirs is None:
        return ours is None and theirs is None
    assert printed is not None
    digits = len(printed.partition(".")[2]) if "e" not in printed.lower() else 6
    return abs(ours - theirs) <= 0.51 * 10.0**-digits + 1e-9 * abs(theirs)


def compare(found: Profile, launches: list[Printed]) -> dict[str, Any]:
    """Every metric of every launch, and every aggregate, against ncu's text."""
    ours = sorted((each for k in found.kernels for each in k.each), key=lambda each: each.index)
    kernels = {each.index: k for k in found.kernels for each in k.each}
    compared = 0
    different = []
    if len(ours) != len(launches):
        different.append(f"{len(ours)} launches against {len(launches)} that ncu prints")
    for launch, printed in zip(ours, launches, strict=False):
        kernel = kernels[launch.index]
        if kernel.name != printed.kernel:
            different.append(f"launch {launch.index}: {kernel.name} against {printed.kernel}")
        for name in (*kernel.metrics, *kernel.missing):
            compared += 1
            mine, theirs = launch.metrics.get(name), printed.values.get(name)
            if not agrees(mine, theirs):
                different.append(f"{name}: {mine} against {theirs}")
    for kernel in found.kernels:
        if kernel.launches == 1 and kernel.metrics != kernel.each[0].metrics:
            different.append(f"{kernel.name}: the mean of one launch is not the launch")
        total = sum(each.metrics.get(DURATION, 0.0) for each in kernel.each)
        if abs(total - kernel.time_ns) > 1e-6 * total:
            different.append(f"{kernel.name}: {kernel.time_ns} ns against {total} in all")
    return {
        "kernels": [each.name for each in found.kernels],
        "launches": len(ours),
        "compared": compared,
        "present": sum(len(each.metrics) for each in ours),
        "missing": {each.name: list(each.missing) for each in found.kernels},
        "different": different,
    }


def _one(name: str, problem: str, kernel: KernelFile, folder: Path) -> dict[str, Any]:
    report = folder / f"{name}.ncu-rep"
    request = Request(
        problem=ProblemFile.parse(problem), kernel=kernel, dtype="bfloat16", calls=2, report=report,
        say=lambda line: print(f"{name}: {line}", file=sys.stderr),
    )  # fmt: skip
    found = profile(request)
    if not report.is_file():
        raise SystemExit(f"{name} was not profiled: " + "; ".join(found.notes))
    command = [ncu.find_ncu(), "--import", report, "--page", "raw", "--print-units", "base"]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return {
        "gpu": found.gpu,
        "ncu": found.ncu_version,
        "notes": list(found.notes),
        "layers_off": [str(layer.name) for layer in found.layers if not layer.active],
        **compare(found, read_text(text)),
    }


def main() -> None:
    """Compare both and say so; exit 1 on any difference."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    options.add_argument("--out", type=Path, help="write the result as JSON here")
    given = options.parse_args()
    matmul = Path(__file__).parents[2] / "corpus" / "kernels" / "triton" / "matmul_pipelined.py"
    with tempfile.TemporaryDirectory() as folder:
        softmax, place = KernelFile.parse(SOFTMAX), Path(folder)
        results = {
            "torch softmax": _one("softmax", SOFTMAX_PROBLEM, softmax, place),
            "Triton matmul": _one("matmul", MATMUL_PROBLEM, KernelFile.read(matmul), place),
        }
    for name, result in results.items():
        print(
            f"{name}: {result['present']} values of {result['launches']} launches, "
            f"{len(result['different'])} different from ncu's text"
        )
        for line in result["different"][:20]:
            print(f"  {line}")
    if given.out:
        save(given.out, results)
    sys.exit(any(result["different"] or not result["present"] for result in results.values()))


if __name__ == "__main__":
    main()
