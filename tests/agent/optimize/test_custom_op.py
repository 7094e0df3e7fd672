"""The winner of a recorded run as a custom op: right, without a graph break, with sound shapes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from scripted import Scripted, ScriptedJudge, config, proposal, search, start

from agent.optimize.custom_op import signature_of, write_custom_op
from agent.optimize.run import RunFolder
from cli import cli
from judge.problem.binding import bind
from judge.sandbox.launch import Zygote
from kb.errors import KbError

RUNS = Path("tests/fixtures/runs").resolve()
USE = """
import torch
from fast import TENSORS, ModelOp, op, problem

torch.manual_seed(0)
plain, fast = problem.Model(*problem.get_init_inputs()), ModelOp()
fast.load_state_dict(plain.state_dict())
x = torch.randn(SHAPE)
with torch.no_grad():
    wanted = plain(x)
    torch.testing.assert_close(fast(x), wanted, rtol=1e-4, atol=1e-4)
    whole = torch.compile(lambda x: torch.relu(fast(x)) + 1, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(whole(x), torch.relu(wanted) + 1, rtol=1e-4, atol=1e-4)
    held = {**dict(fast.named_parameters()), **dict(fast.named_buffers())}
    told = torch.library.opcheck(
        op, ([x], [held[name].detach() for name in TENSORS]),
        test_utils=("test_schema", "test_faketensor"),
    )
print(op._qualname, set(told.values()), TENSORS)
"""


def use(folder: Path, shape: str) -> str:
    ran = subprocess.run(
        [sys.executable, "-c", USE.replace("SHAPE", shape)], cwd=folder, capture_output=True,
        text=True, timeout=300, check=False,
        env=os.environ | {"TRITON_INTERPRET": "1", "PYTHONPATH": str(folder)},
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr[-3000:]
    return ran.stdout


@pytest.mark.parametrize(
    ("run", "shape", "tensors"),
    [
        ("depthwise_conv2d-start", "(1, 64, 9, 13)", "['conv.weight']"),
        ("rmsnorm_channels-nothing", "(2, 64, 4, 6)", "[]"),
    ],
)
def test_a_recorded_winner_becomes_an_op(
    run: str, shape: str, tensors: str, tmp_path: Path, interpreting: Zygote
) -> None:
    written = write_custom_op(RUNS / run, tmp_path / "fast", zygote=interpreting)
    assert {each.name for each in written.iterdir()} == {"__init__.py", "kernel.py", "problem.py"}
    said = use(tmp_path, shape)
    assert said.startswith(f"kernel_kb::{run.partition('-')[0]}_")
    assert "{'SUCCESS'}" in said
    assert tensors in said


def test_a_signature_is_read_without_running_the_file() -> None:
    source = (
        "raise SystemExit\n"
        "def kernel_function(x, weight: torch.Tensor, eps=EPS, stride: int = 2, *, block=64):\n"
        "    return x\n"
    )
    bound = bind(signature_of(source), 1, ["norm.weight"], {"stride": (3, 3), "norm.eps": 1e-6})
    assert [each.input for each in bound.positional][:1] == [0]
    assert bound.positional[1].tensor == "norm.weight"
    assert (bound.positional[2].value, bound.positional[3].value) == (1e-6, 3)
    with pytest.raises(KbError, match="defines no kernel_function"):
        signature_of("kernel_function = print\n")


def test_what_cannot_become_an_op_is_told_in_one_line(tmp_path: Path) -> None:
    for name, rounds, told in (
        ("compile", [[proposal(0.9)]], "gives back the problem's own model by torch.compile"),
        ("found", [[proposal(0.5)]], "the problem's model cannot be built"),
    ):
        with RunFolder.create(tmp_path / name, config(first=start())) as folder:
            search(folder, ScriptedJudge(), Scripted(rounds)).run()
        asked = ["report", str(tmp_path / name), "--custom-op", str(tmp_path / f"{name}_op")]
        ran = CliRunner().invoke(cli, asked)
        assert isinstance(ran.exception, KbError)  # which `main` prints as one line
        assert told in str(ran.exception)
        assert not (tmp_path / f"{name}_op").exists()
    (tmp_path / "there").mkdir()
    for target, told in (("there", "is there already"), ("no-name", "cannot be imported")):
        with pytest.raises(KbError, match=told):
            write_custom_op(tmp_path / "found", tmp_path / target)
