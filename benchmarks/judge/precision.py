"""How repeatable the judge's times are, and what it measures: one command, raw results as JSON.

    python -m benchmarks.judge.precision --out FILE [--part ceilings repeatability problems]

*ceilings*: bandwidths and rates, the copy against copies timed by hand. *repeatability*: the same
kernels timed in two runs of fresh processes; medians may differ by 5 % below 10 µs, 3 % to 200 µs,
1 % above. *problems*: eager, compiled and max-autotuned times of the five operators in bf16, with
their floors. Everything is written after every step; exits with 1 where a bound is broken.
`--device cpu --tiny` goes through all of it without a GPU, with times that mean nothing.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from judge.evaluate import floor as floors
from judge.evaluate.ceilings import COPY_BYTES
from judge.evaluate.ceilings import measure as measure_ceilings
from judge.evaluate.clocks import ClockWatch, card_id
from judge.evaluate.gpulock import locked
from judge.evaluate.host import describe_host
from judge.evaluate.result import Ceilings
from judge.evaluate.session import Session, Worker
from judge.evaluate.statistics import repeatability
from judge.evaluate.timing import Conditions, Contender, Effort, Measurement, measure, report
from judge.problem.source import ProblemFile
from judge.worker import messages as m

ROOT = Path(__file__).resolve().parents[2]
PROBLEMS = ROOT / "tests" / "fixtures" / "kernels" / "problems"
PARTS = ("ceilings", "repeatability", "problems")
FORMS = ("eager", "compile", "max-autotune")
# Medians in ms on an H200 with torch 2.11: eager, compile, max-autotune, floor at 4.27 TB/s.
KNOWN = {
    "matvec": (1.064, 1.063, 1.005, 1.006),
    "rmsnorm_channels": (8.25, 3.33, 1.82, 1.76),
    "max_pool3d": (4.08, 5.45, 1.25, 0.56),
    "conv_transpose3d": (1.148, 1.150, 1.151, 0.071),
    "depthwise_conv2d": (2.51, 1.15, 0.94, 0.25),
}
COPY_TOLERANCE = 0.02

# Rows of 4096 float32: some 4 µs, 20 µs, 100 µs and 1 ms on an H200.
ROWS = (128, 2048, 12288, 131072)
_SCALE = """
import torch
from torch import nn

ROWS = {rows}

class Model(nn.Module):
    def forward(self, x):
        return x * 2 + 1

def get_inputs():
    return [torch.randn(ROWS, 4096)]

def get_init_inputs():
    return []
"""
_KERNEL = """
import torch
import triton
import triton.language as tl

@triton.jit
def _scale(x_ptr, out_ptr, count, BLOCK: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < count)
    tl.store(out_ptr + offsets, x * 2 + 1, mask=offsets < count)

def kernel_function(x):
    out = torch.empty_like(x)
    _scale[(triton.cdiv(x.numel(), 2048),)](x, out, x.numel(), BLOCK=2048)
    return out
"""

Loader = Callable[[Worker], None]


def main() -> int:
    """Parse the command line, measure, report."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.judge.precision")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--part", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--forms", nargs="+", choices=FORMS, default=FORMS)
    parser.add_argument("--only", nargs="+", choices=KNOWN, default=list(KNOWN))
    parser.add_argument("--runs", type=int, default=2, help="of the repeatability part")
    parser.add_argument("--tiny", action="store_true", help="sizes for a dry run on a CPU")
    options = parser.parse_args()
    found: dict[str, Any] = {"date": datetime.now(UTC).isoformat(timespec="seconds")}
    if options.out.exists():  # parts may be measured in several sessions
        found = json.loads(options.out.read_text()) | found
    broken: list[str] = []
    with ExitStack() as stack:
        if options.device != "cpu":
            stack.enter_context(locked(card_id(options.device), say=print))
        host = describe_host(options.device)
        found["environment"] = {"gpu": host.gpu, **host.versions}
        ceilings = _ceilings(options, found, broken)
        if "repeatability" in options.part:
            _repeatability(options, found, broken)
        if "problems" in options.part:
            _problems(options, found, ceilings, broken)
    for line in broken:
        print(f"BROKEN: {line}")
    return 1 if broken else 0


def _save(options: argparse.Namespace, found: dict[str, Any]) -> None:
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(found, indent=1) + "\n")


def _ceilings(options: argparse.Namespace, found: dict[str, Any], broken: list[str]) -> Ceilings:
    """Measured in every run; compared with copies by hand where that part is asked for."""
    tiny: dict[str, Any] = {"nbytes": 1 << 20, "sizes": (32,), "repeats": 3} if options.tiny else {}
    start = time.monotonic()
    ceilings = measure_ceilings(options.device, **tiny)
    seconds = time.monotonic() - start
    if "ceilings" in options.part:
        again = measure_ceilings(options.device, **tiny)
        by_hand = None
        if options.device != "cpu":
            by_hand = _copies_by_hand(options.device)
            off = abs(ceilings.copy_bps / by_hand - 1)
            print(f"copy ceiling {ceilings.copy_bps / 1e12:.3f} TB/s, by hand {by_hand / 1e12:.3f}")
            if off > COPY_TOLERANCE:
                broken.append(f"the copy ceiling is {off:.1%} off a copy by hand")
        found["ceilings"] = {
            "seconds": seconds,
            "runs": [ceilings.model_dump(), again.model_dump()],
            "copy_by_hand_bps": by_hand,
        }
        print(f"ceilings: {ceilings.model_dump_json()}")
        _save(options, found)
    return ceilings


def _copies_by_hand(device: str) -> float:
    """Bytes per second, read and written, of 50 copies in a row between two events."""
    source = torch.empty(COPY_BYTES, dtype=torch.uint8, device=device).random_()
    target = torch.empty_like(source)
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    for _ in range(5):
        target.copy_(source)
    start.record()
    for _ in range(50):
        target.copy_(source)
    end.record()
    end.synchronize()
    del source, target
    torch.cuda.empty_cache()
    return 50 * 2 * COPY_BYTES / (float(start.elapsed_time(end)) * 1e-3)


def _repeatability(options: argparse.Namespace, found: dict[str, Any], broken: list[str]) -> None:
    found["repeatability"] = []
    for rows in (2, 3) if options.tiny else ROWS:
        text = _SCALE.format(rows=rows)
        runs: list[dict[str, Any]] = []
        for _ in range(options.runs):
            with Session(options.device, interpret=options.tiny) as session:
                loaders = {"candidate": _kernel_loader(options.device)}
                loaders["eager"] = _form_loader(options.device, text, "eager", None)
                runs.append(_timed(session, options, text, None, loaders))
        for name in runs[0]["times"]:
            medians = [run["summary"][name]["median_ms"] for run in runs]
            difference = max(medians) / min(medians) - 1
            bound = repeatability(min(medians))
            record = {
                "rows": rows, "contender": name, "medians_ms": medians,
                "difference": difference, "bound": bound,
            }  # fmt: skip
            found["repeatability"].append(record)
            print(f"{rows} rows, {name}: {medians} ms, {difference:.2%} apart (bound {bound:.0%})")
            if difference > bound and not options.tiny:
                broken.append(f"{name} at {rows} rows: runs {difference:.2%} apart")
        found["repeatability"].append({"rows": rows, "runs": runs})
        _save(options, found)


def _problems(
    options: argparse.Namespace, found: dict[str, Any], ceilings: Ceilings, broken: list[str]
) -> None:
    found.setdefault("problems", {})
    for name in options.only:
        problem = ProblemFile.read(PROBLEMS / f"{name}.py")
        text = problem.text
        if options.tiny:
            text = problem.with_constants(dict.fromkeys(problem.constants, 8))
        dtype = "float32" if options.tiny else "bfloat16"
        start = time.monotonic()
        try:
            with Session(options.device) as session:
                loaders = {f: _form_loader(options.device, text, f, dtype) for f in options.forms}
                record = _timed(session, options, text, dtype, loaders, ceilings)
        except Exception as error:  # recorded: the other problems are still measured
            record = {"error": f"{type(error).__name__}: {error}"}
            broken.append(f"{name}: {record['error']}")
        record["seconds"] = time.monotonic() - start
        found["problems"][name] = record
        _save(options, found)
        if "error" in record:
            continue
        medians = [record["summary"].get(f, {}).get("median_ms") for f in FORMS]
        shown = [None if ms is None else round(ms, 4) for ms in medians]
        print(
            f"{name}: eager, compile, max-autotune {shown}, copy floor "
            f"{record['copy_floor_ms']:.4f} ms; known {KNOWN[name]} ({record['seconds']:.0f} s)",
            flush=True,
        )


def _timed(
    session: Session,
    options: argparse.Namespace,
    text: str,
    dtype: str | None,
    loaders: dict[str, Loader],
    ceilings: Ceilings | None = None,
) -> dict[str, Any]:
    """Time contenders of one problem; everything that was measured, ready for JSON."""
    device = options.device
    problem = session.worker("problem")
    told = problem.load_problem(text, device=device, dtype=dtype)
    inputs = problem.describe_inputs(1)
    lent = [
        None if each.tensor is None else session.buffers.allocate(f"first.{i}", each.tensor)
        for i, each in enumerate(inputs)
    ]
    buffers = [each for each in lent if each is not None]
    problem.open(buffers)
    problem.make_inputs(1, [None if each is None else each.name for each in lent])
    arguments: list[m.Argument] = [
        m.ValueArgument(value=spec.value) if each is None else m.BufferArgument(buffer=each.name)
        for spec, each in zip(inputs, lent, strict=True)
    ]
    contenders: list[Contender] = []
    errors: dict[str, str] = {}
    outputs: list[m.TensorSpec] = []
    for name, load in loaders.items():
        worker = session.worker(name)
        try:
            load(worker)
            worker.open(buffers)
            called = worker.call(arguments)
            worker.drop([called.call])
            worker.close_buffers([each.name for each in buffers])
        except Exception as error:  # recorded: the other forms are still timed
            errors[name] = f"{type(error).__name__}: {error}"
            print(f"{name}: {errors[name]}")
            continue
        outputs = [m.TensorSpec(shape=each.shape, dtype=each.dtype) for each in called.outputs]
        contenders.append(Contender(name, worker, outputs, checked=False))
    problem.close_buffers([each.name for each in buffers])
    session.buffers.free([each.name for each in buffers])
    work = floors.work(
        [each.tensor for each in inputs if each.tensor is not None],
        [each.tensor for each in told.parameters],
        outputs,
        problem.flops().by_dtype,
    )
    with ExitStack() as stack:
        watch = stack.enter_context(ClockWatch(card_id(device))) if device != "cpu" else None
        conditions = Conditions(
            problem=problem,
            inputs=inputs,
            exporter=session.buffers,
            check_launch=lambda *_: None,
            limits=Effort(launches=16, replays=4) if options.tiny else Effort(),
        )
        measured = measure(contenders, conditions)
    clocks = watch.clocks if watch else None
    found = report(measured, precision="ieee", work=work, ceilings=ceilings, clocks=clocks)
    return {
        "plan": {"method": measured.plan.method, "sets": measured.plan.sets,
                 "hold_cycles": measured.plan.hold_cycles},
        "summary": {each.contender: each.model_dump() for each in found.timings},
        "floor": found.floor.model_dump() if found.floor else None,
        "copy_floor_ms": floors.copy_floor_ms(work, ceilings) if ceilings else None,
        "walls": [each.model_dump() for each in found.walls],
        "ratios": [each.model_dump() for each in found.ratios],
        "clocks": clocks.model_dump() if clocks else None,
        "notes": list(found.notes),
        "errors": errors,
        **_raw(measured),
    }  # fmt: skip


def _raw(measured: Measurement) -> dict[str, Any]:
    def batches(side: dict[int, Any]) -> list[list[float]]:
        return [[number, b.wall_ms, b.claimed_ms, b.launches] for number, b in side.items()]

    tracks = measured.tracks
    return {
        "times": {name: list(track.times.values()) for name, track in tracks.items()},
        "batches": {
            name: {"held": batches(track.held), "free": batches(track.free)}
            for name, track in tracks.items()
        },
    }


def _form_loader(device: str, text: str, form: Any, dtype: str | None) -> Loader:
    def load(worker: Worker) -> None:
        worker.load_problem(text, device=device, dtype=dtype)
        worker.contender(form)

    return load


def _kernel_loader(device: str) -> Loader:
    def load(worker: Worker) -> None:
        worker.load_kernel(
            m.LoadKernel(
                source=_KERNEL, module_name="kernel", form="kernel_function", device=device,
                input_names=["x"],
            )
        )  # fmt: skip

    return load


if __name__ == "__main__":
    sys.exit(main())
