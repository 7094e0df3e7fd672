"""Little problems whose operators the knowledge base has kernels for, and a way to their graphs.

What the judge said of a kernel is recorded in `judged.json` under a digest of the problem, the
kernel, the options and the versions of Python, PyTorch and Triton; a kernel of another text is
judged. A twentieth of the recorded ones, another every day, is judged anew in any case. With
KB_RECORD set, all are judged and recorded (`make verdicts`).
"""

import fcntl
import hashlib
import json
import os
import platform
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

from judge.evaluate.judge import evaluate
from judge.evaluate.options import Options
from judge.evaluate.result import Verdict
from judge.graph import Graph
from judge.sandbox.launch import Zygote
from judge.worker import messages as m
from judge.worker.graph import export
from tests.corpus.recorded import DAYS, today

RECORD = Path(__file__).with_name("judged.json")
INTERPRETED = Options(device="cpu", interpret=True, timing=False)
ROOT = Path(__file__).parents[4]

_FRAME = """
import torch
import torch.nn.functional as F
from torch import nn

{constants}

class Model(nn.Module):
{model}

def get_inputs():
    return [{inputs}]

def get_init_inputs():
    return [{init}]
"""


def problem(constants: str, model: str, inputs: str, init: str = "") -> str:
    """A problem file; `model` is the body of the class."""
    body = "\n".join(f"    {line}" for line in model.splitlines())
    return _FRAME.format(constants=constants, model=body, inputs=inputs, init=init)


def forward(expression: str, parameters: str = "x") -> str:
    """A model without parameters."""
    return f"def forward(self, {parameters}):\n    return {expression}"


MATVEC = problem(
    "ROWS, COLS = 6, 40", forward("a @ v", "a, v"), "torch.randn(ROWS, COLS), torch.randn(COLS, 1)"
)
SOFTMAX = problem("ROWS, COLS = 5, 33", forward("x.softmax(-1)"), "torch.randn(ROWS, COLS)")
SILU_MUL = problem(
    "ROWS, COLS = 4, 64\nJUDGE = {'constants': {'COLS': {'min': 2, 'multiple': 2}}}",
    "def forward(self, x):\n    gate, up = x.chunk(2, dim=-1)\n    return F.silu(gate) * up",
    "torch.randn(ROWS, COLS)",
)
RMSNORM = problem(
    "BATCH, TOKENS, WIDTH = 2, 3, 48",
    """def __init__(self, width):
    super().__init__()
    self.weight = nn.Parameter(torch.rand(width) + 0.5)

def forward(self, x):
    wide = x.float()
    scale = torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-5)
    return self.weight * (wide * scale).to(x.dtype)""",
    "torch.randn(BATCH, TOKENS, WIDTH)",
    "WIDTH",
)
GELU_LINEAR = problem(
    "BATCH, INPUTS, OUTPUTS = 8, 32, 24",
    """def __init__(self, inputs, outputs):
    super().__init__()
    self.layer = nn.Linear(inputs, outputs)

def forward(self, x):
    return F.gelu(self.layer(x))""",
    "torch.randn(BATCH, INPUTS)",
    "INPUTS, OUTPUTS",
)
RELU_LINEAR = GELU_LINEAR.replace("F.gelu(self.layer(x))", "2 * F.relu(self.layer(x))")
ADD_GELU = problem(
    "ROWS, COLS = 6, 40",
    """def __init__(self, columns):
    super().__init__()
    self.bias = nn.Parameter(torch.randn(columns))

def forward(self, x, y):
    return F.gelu(F.leaky_relu(x - y, 0.1) + self.bias)""",
    "torch.randn(ROWS, COLS), torch.randn(ROWS, COLS)",
    "COLS",
)
ADD_RMSNORM = problem(
    "ROWS, COLS = 5, 48",
    """def __init__(self, width):
    super().__init__()
    self.norm = nn.RMSNorm(width, eps=1e-6)

def forward(self, x, residual):
    total = x + residual
    return self.norm(total), total""",
    "torch.randn(ROWS, COLS), torch.randn(ROWS, COLS)",
    "COLS",
)


def graph_of(source: str, dtype: str | None = None) -> Graph:
    """The graph of a problem's text, exported in this process."""
    with tempfile.TemporaryDirectory() as folder:
        command = m.ExportGraph(source=source, module_name="problem", dtype=dtype)
        return Graph.from_export(export(command, Path(folder)))


class Judged(NamedTuple):
    """What the judge said, or said before of the same."""

    verdict: Verdict
    reasons: tuple[str, ...] = ()


def judged(
    source: str, kernel: str, folder: Path, zygote: Zygote, options: Options = INTERPRETED
) -> Judged:
    """What the judge says of a kernel's text, in Triton's interpreter by default."""
    versions = [platform.python_version(), version("torch"), version("triton")]
    decides = json.dumps([source, kernel, options.model_dump(mode="json"), *versions])
    digest = hashlib.sha256(decides.encode()).hexdigest()
    known = json.loads(RECORD.read_text()).get(digest)
    anew = int(digest, 16) % DAYS == today() % DAYS or "KB_RECORD" in os.environ
    if known is not None and not anew:
        return Judged(Verdict(known))
    paths = folder / "problem.py", folder / "kernel.py"
    for path, text in zip(paths, (source, kernel), strict=True):
        path.write_text(text)
    found = evaluate(*paths, options, zygote=zygote)
    if "KB_RECORD" in os.environ:
        _record(digest, found.verdict)
    return Judged(found.verdict, tuple(found.reasons))


def _record(digest: str, verdict: Verdict) -> None:
    with RECORD.open("r+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        rows = json.load(file) | {digest: verdict.value}
        file.seek(0)
        json.dump(rows, file, indent=0, sort_keys=True)
        file.write("\n")
        file.truncate()


def benchmark(name: str) -> str:
    """The text of `judge/matvec`, `kernels/matvec`."""
    suite, _, stem = name.partition("/")
    return (ROOT / "tests" / "fixtures" / suite / "problems" / f"{stem}.py").read_text()
