"""The NVFP4 kernels on the NVFP4 problems: codes judged exactly, times by graph replay.

    python -m benchmarks.kernels.nvfp4 --out FILE

Needs a GPU. For each problem of `tests/fixtures/kernels/nvfp4.py`: the corpus's kernels in Triton
and CUDA with their default parameters, and `torch.compile` of the model, in
bfloat16 on normal random inputs. Codes and scales are compared with the values in float64 by the
judge's rule. Each time is the median of replays of a graph of LAUNCHES launches, for one of them:
what a launch adds when others follow it, as in a decoder's graph; and that of a graph of one
launch, which holds the graph's own start. The floor is bytes over the measured copy bandwidth.
"""

import argparse
import json
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from benchmarks.kernels.timing import Run
from benchmarks.kernels.tuning import bind
from benchmarks.results import save
from judge.evaluate.ceilings import measure as measure_ceilings
from judge.evaluate.nvfp4 import compare_nvfp4
from judge.problem.judge import JudgeDeclaration
from judge.worker.events import Timer
from kb.verify.kernel_module import load_kernel_module
from tests.fixtures.kernels.nvfp4 import PROBLEMS, text_of

ROOT = Path(__file__).resolve().parents[2]
KERNELS = ROOT / "corpus" / "kernels"
# Problem's operator, as its file's name begins → the kernels that do it.
FAMILIES = {
    name: (f"triton/{name}_emulated.py", f"cuda/{name}.py")
    for name in ("nvfp4_quantize", "silu_mul_nvfp4", "add_rmsnorm_nvfp4")
}
# Enough for the graph's own start, some microseconds, to count for little in each.
LAUNCHES = 20
_REPLAYS = 51
# Holds the device back while the host queues a replay, about 0.5 ms at 2 GHz.
_HOLD_CYCLES = 1_000_000
# Activations beyond one, so that scales and codes of all sizes occur.
_SPREAD = 4.0


def main() -> int:
    """Measure every problem; 1 if a result is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    if not torch.cuda.is_available():
        print("error: PyTorch sees no CUDA device: measure on a machine with a GPU")
        return 1
    copy_bytes_per_s = measure_ceilings("cuda:0").copy_bps
    results: dict[str, Any] = {
        "gpu": torch.cuda.get_device_name(0), "torch": torch.__version__,
        "copy_bytes_per_s": copy_bytes_per_s, "launches": LAUNCHES, "problems": {},
    }  # fmt: skip
    for name in PROBLEMS:
        record = measure(name, copy_bytes_per_s)
        results["problems"][name] = record
        print(name, json.dumps(record), flush=True)
        save(options.out, results)
    wrong = sum(
        any(contender.get("problem") for contender in record["contenders"].values())
        for record in results["problems"].values()
    )
    print(f"{len(results['problems'])} problems, {wrong} with a wrong result")
    return 1 if wrong else 0


def measure(name: str, copy_bytes_per_s: float) -> dict[str, Any]:
    """Judge and time every contender of one problem."""
    problem = ModuleType(name)
    exec(compile(text_of(name), name, "exec"), problem.__dict__)
    torch.manual_seed(0)
    model = problem.Model(*problem.get_init_inputs()).to("cuda", torch.bfloat16)
    inputs = [
        (_SPREAD * torch.randn(input_.shape, device="cuda")).bfloat16()
        for input_ in problem.get_inputs()
    ]
    rule = JudgeDeclaration(fused=bool(problem.JUDGE["fused"]), layout=problem.JUDGE["layout"])
    contenders = kernels(name, problem, model)
    results: dict[str, Any] = {}
    with torch.no_grad():
        values = exact_values(problem, model, inputs)
        for kind, run in contenders.items():
            codes, scales = run(inputs)
            rows = codes.reshape(-1, codes.shape[-1])
            comparison = compare_nvfp4(rows, scales, values, rule, problem.JUDGE["global_scale"])
            results[kind] = {
                "problem": comparison.problem,
                "stepped": [comparison.stepped_scales, comparison.stepped_codes],
            }
        size = _bytes(inputs) + _bytes(contenders["triton"](inputs))
        compiled = torch.compile(model, dynamic=False)
        contenders["torch.compile"] = lambda args: compiled(*args)
        for kind, run in contenders.items():
            run(inputs)
            results.setdefault(kind, {}).update(
                us=replayed_us(run, inputs, LAUNCHES), alone_us=replayed_us(run, inputs, 1)
            )
    return {"bytes": size, "floor_us": 1e6 * size / copy_bytes_per_s, "contenders": results}


def kernels(name: str, problem: Any, model: torch.nn.Module) -> dict[str, Run]:
    """The corpus's kernels for a problem, as contenders."""
    family = next(prefix for prefix in FAMILIES if name.startswith(prefix))
    swizzled = problem.JUDGE["layout"] == "swizzled"
    contenders: dict[str, Run] = {}
    for path in FAMILIES[family]:
        function = load_kernel_module(KERNELS / path).kernel_function
        options: dict[str, Any] = {"swizzled": True} if swizzled else {}
        if family == "add_rmsnorm_nvfp4":
            options |= {"weight": model.weight, "eps": problem.EPS}
        if not swizzled or "swizzled" in function.__code__.co_varnames:
            contenders[path.partition("/")[0]] = bind(function, options)
    return contenders


def exact_values(problem: Any, model: torch.nn.Module, inputs: Sequence[Any]) -> torch.Tensor:
    """The values to quantize, in float64: [rows, N]."""
    exact = problem.Model(*problem.get_init_inputs()).to("cuda", torch.float64)
    exact.load_state_dict(model.double().state_dict())
    model.bfloat16()
    values: torch.Tensor = exact.values(*(input_.double() for input_ in inputs))
    return values.reshape(-1, values.shape[-1])


def replayed_us(run: Run, inputs: Sequence[Any], launches: int) -> float:
    """Microseconds of one launch in a graph of so many: the median over replays."""
    timer = Timer("cuda:0")

    def launch(*args: Any) -> Any:
        return run(args)

    order = [0] * (launches * _REPLAYS)
    # The first call captures; both see the same tensors, so the second replays alone.
    timer.time(launch, [inputs], order[:launches], "graph", per_replay=launches)
    times = timer.time(
        launch, [inputs], order, "graph", per_replay=launches, hold_cycles=_HOLD_CYCLES
    )
    return 1e3 * statistics.median(times)


def _bytes(tensors: Sequence[torch.Tensor]) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


if __name__ == "__main__":
    sys.exit(main())
