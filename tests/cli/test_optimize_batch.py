"""`kb optimize --batch`: a folder of problems, carried between machines as files."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

import judge.profile.profiler as profiler
from cli import cli
from kb.corpus.loader import shipped_corpus

PROBLEM = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x) * {factor}

def get_inputs():
    return [torch.rand(64, 64)]

def get_init_inputs():
    return []
"""


@pytest.fixture
def problems(tmp_path, monkeypatch):
    monkeypatch.setattr(profiler, "has_gpu", lambda: False)
    folder = tmp_path / "problems" / "level1"
    folder.mkdir(parents=True)
    for factor in (2, 3):
        (folder / f"scale_{factor}.py").write_text(PROBLEM.format(factor=factor))
    (folder / "helper.py").write_text("x = 1\n")
    return folder.parent


def kb(tmp_path, *arguments):
    ran = CliRunner().invoke(cli, ["--index", str(tmp_path / "none"), "optimize", *arguments])
    return ran.exit_code, f"{ran.output}{ran.exception if ran.exit_code == 1 else ''}"


def requests(root):
    path = Path(root) / "requests.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def answer(root, make):
    with (Path(root) / "results.jsonl").open("a") as file:
        for each in requests(root):
            text = make(each["body"]["messages"][1]["content"])
            message = {"role": "assistant", "content": text}
            body = {"choices": [{"index": 0, "finish_reason": "stop", "message": message}],
                    "usage": {"prompt_tokens": 9, "completion_tokens": 1}}  # fmt: skip
            response = {"status_code": 200, "request_id": "r", "body": body}
            file.write(json.dumps({"custom_id": each["custom_id"], "response": response}) + "\n")


def plan(prompt):
    parent = prompt.split("## Kernel ")[1].split(":")[0]
    one = {
        "parent": parent, "technique": "kernel-fusion", "claim": "Fuse.", "metric": None,
        "direction": None, "expected": None, "risk": "None.", "evidence": ["source"],
    }  # fmt: skip
    return json.dumps({"plans": [one]})


def test_a_folder_is_planned_without_a_gpu_and_asks_nothing_twice(problems, tmp_path):
    out = str(tmp_path / "batch")
    command = (str(problems), "--model", "m", "--batch", out, "--proposers", "llm", "--gpu", "H200")
    status, said = kb(tmp_path, *command)
    assert status == 0, said
    assert "2 runs: 2 waiting" in said
    assert "waiting for 2 replies: 2 unsent, in " in said
    assert len(requests(out)) == 2
    assert kb(tmp_path, *command)[0] == 0  # as after a kill
    assert len(requests(out)) == 2
    answer(out, plan)
    status, said = kb(tmp_path, "--resume", out)
    assert status == 0, said
    assert "waiting for 2 replies" in said
    coders = requests(out)
    assert len(coders) == 2
    kernel = "import torch\nclass ModelNew(torch.nn.Module):\n    def forward(self, x): return x\n"
    answer(out, lambda _: json.dumps({"note": "Done.", "code": kernel}))
    status, said = kb(tmp_path, "--resume", out)
    assert status == 0, said
    assert "2 need a GPU" in said
    assert f"kb optimize --resume {out}" in said
    assert requests(out) == []
    moved = Path(out).rename(tmp_path / "carried")
    one = moved / "runs" / "level1" / "scale_2"
    status, said = kb(tmp_path, "--resume", str(one))
    assert status == 0, said
    assert f"continue on a machine with a GPU: kb optimize --resume {moved}" in said
    assert not Path(out).exists()


def test_without_knowledge_no_prompt_holds_any(problems, tmp_path):
    out = str(tmp_path / "batch")
    status, said = kb(tmp_path, str(problems), "--model", "m", "--batch", out, "--gpu", "H200",
                      "--proposers", "llm", "--no-knowledge")  # fmt: skip
    assert status == 0, said
    for each in requests(out):
        prompt = each["body"]["messages"][1]["content"]
        assert "# Knowledge base" not in prompt
        assert "When: " not in prompt
        assert "tools" not in each["body"]


def test_what_is_missing_is_told_in_one_line(problems, tmp_path):
    out = str(tmp_path / "batch")
    for command, words in [
        ((str(problems), "--batch", out), "--batch needs --model"),
        ((str(problems), "--batch", out, "--model", "m"), "name the target GPU"),
        (("--batch", out, "--model", "m", "--gpu", "H200"), "PROBLEM"),
        ((str(tmp_path), "--batch", out, "--model", "m", "--gpu", "X9"), "X9"),
        ((str(shipped_corpus()), "--batch", out, "--model", "m", "--gpu", "H200"), "no problem"),
    ]:
        status, said = kb(tmp_path, *command)
        assert status in (1, 2)
        assert words in said
        assert "Traceback" not in said
