"""The winner of a recorded run as a custom op: right, without a graph break, with sound shapes."""

from collections.abc import Callable
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
import sys
import torch

sys.path.insert(0, FOLDER)
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


@pytest.mark.parametrize(
    ("run", "shape", "tensors"),
    [
        ("depthwise_conv2d-start", "(1, 64, 5, 7)", "['conv.weight']"),
        ("rmsnorm_channels-nothing", "(2, 64, 4, 6)", "[]"),
    ],
)
def test_a_recorded_winner_becomes_an_op(
    run: str,
    shape: str,
    tensors: str,
    tmp_path: Path,
    interpreting: Zygote,
    interpreted: Callable[..., str],
) -> None:
    written = write_custom_op(RUNS / run, tmp_path / "fast", zygote=interpreting)
    assert {each.name for each in written.iterdir()} == {"__init__.py", "kernel.py", "problem.py"}
    said = interpreted(USE.replace("FOLDER", repr(str(tmp_path))).replace("SHAPE", shape))
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


def test_what_cannot_become_an_op_is_told_in_one_line(tmp_path: Path, interpreting: Zygote) -> None:
    for name, speed in (("compile", 0.9), ("found", 0.5)):
        with RunFolder.create(tmp_path / name, config(first=start())) as folder:
            search(folder, ScriptedJudge(), Scripted([[proposal(speed)]])).run()
    asked = ["report", str(tmp_path / "compile"), "--custom-op", str(tmp_path / "compile_op")]
    ran = CliRunner().invoke(cli, asked)
    assert isinstance(ran.exception, KbError)  # which `main` prints as one line
    assert "returned the problem's own model, run with torch.compile" in str(ran.exception)
    with pytest.raises(KbError, match="the problem's model cannot be built"):
        write_custom_op(tmp_path / "found", tmp_path / "found_op", zygote=interpreting)
    assert not [*tmp_path.glob("*_op")]
    (tmp_path / "there").mkdir()
    for target, told in (("there", "already exists"), ("no-name", "is not a module name")):
        with pytest.raises(KbError, match=told):
            write_custom_op(tmp_path / "found", tmp_path / target)
