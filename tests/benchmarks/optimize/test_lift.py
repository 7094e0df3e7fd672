"""What the knowledge base is worth to a model: three arms by files, between two machines."""

import json
import re
import shutil
from pathlib import Path

import pytest
from judged import FakeJudge, cards, kernel

import benchmarks.optimize.lift.__main__ as lift
from agent.opening import open_search
from agent.optimize.run import RunFolder, read_run
from benchmarks.optimize.lift.arms import ARMS
from benchmarks.optimize.lift.figures import Run, compare

PROBLEM = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, x):
        return torch.{name}(x)

def get_inputs():
    return [torch.rand(1024, 4096)]

def get_init_inputs():
    return []
"""
NAMES = ("1_relu", "2_tanh")


def answer(root: Path) -> int:
    """Reply to each request: with plans, or with a kernel that says its time; how many."""
    path = root / "requests.jsonl"
    waiting = path.read_text().splitlines() if path.exists() else []
    with (root / "results.jsonl").open("a") as file:
        for line in waiting:
            request = json.loads(line)
            prompt = request["body"]["messages"][1]["content"]
            if "begin plan-----" in prompt:
                # Knowledge helps; another round does, too.
                ms = 0.5 if "# Knowledge base" in prompt else 0.6
                ms += 0.01 * ("vectorized" in prompt.split("Technique: ")[1][:12])
                parent = prompt.partition("# Kernel to change")[2].split("# Evidence")[0]
                earlier = 0.1 if "def kernel_function" in parent else 0
                text = f"Done.\n```python\n{kernel(round(ms - earlier, 3))}```"
            else:
                parent = re.findall(r"## Kernel (\w+):", prompt)[0]
                citable = prompt.split("Cite evidence by id: ")[1].split(" ")[0].rstrip(",")
                text = json.dumps({"plans": [
                    {"parent": parent, "technique": each, "claim": "Fuse.", "metric": None,
                     "direction": None, "expected": None, "risk": "None.", "evidence": [citable]}
                    for each in ("kernel-fusion", "vectorized-access")
                ]})  # fmt: skip
            message = {"role": "assistant", "content": text}
            usage = {"prompt_tokens": len(prompt) // 4, "completion_tokens": 50}
            choice = {"index": 0, "finish_reason": "stop", "message": message}
            body = {"choices": [choice], "usage": usage}
            response = {"status_code": 200, "request_id": "r", "body": body}
            file.write(json.dumps({"custom_id": request["custom_id"], "response": response}) + "\n")
    return len(waiting)


@pytest.fixture
def sweep(tmp_path, monkeypatch, shipped_index):
    """Goes to and fro between two machines until all is done; `killed`: at which evaluations."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(lift, "has_gpu", lambda: True)
    folder = tmp_path / "problems" / "level1"
    folder.mkdir(parents=True)
    for name in NAMES:
        (folder / f"{name}.py").write_text(PROBLEM.format(name=name.split("_")[1]))

    def run(place: Path, killed: tuple[int, ...] = ()) -> Path:
        left, evaluations, asked = list(killed), [0], []

        def before(_):
            evaluations[0] += 1
            if left and evaluations[0] == left[0]:
                left.pop(0)
                raise KeyboardInterrupt

        monkeypatch.setattr(lift, "local_cards", lambda *_, **__: cards(FakeJudge(before)))
        common = ["--model", "m", "--rounds", "2", "--seed", "1"]
        plan = [*common, "--no-gpu", "--index", str(shipped_index)]
        lift.main([str(folder.parent), "--dir", str(place), *plan])
        for step in range(20):
            # The folder is carried: another path on each machine.
            away = place.with_name(f"{place.name}-{step}")
            for arm in ARMS:
                ids = [json.loads(line)["custom_id"] for path in place.glob(f"{arm}/requests.jsonl")
                       for line in path.read_text().splitlines()]  # fmt: skip
                asked += [(arm, each) for each in ids]
                answer(place / arm)
            shutil.move(place, away)
            place = away
            try:
                gpu = step % 2
                lift.main(["--dir", str(place), *(["--no-index", *common] if gpu else plan)])
            except KeyboardInterrupt:
                continue
            states = {p.parent: read_run(p.parent)[1].stopped for p in place.rglob("config.json")}
            if all(states.values()):
                assert len(states) == len(NAMES) * len(ARMS)
                assert len(asked) == len(set(asked))
                assert not left
                return place
        raise AssertionError("it does not end")

    return run


def decisions(root: Path):
    _, record = read_run(root)
    assert record.stopped is not None
    closed = [(each.round, each.leader, each.beam, each.gain) for each in record.closed]
    return closed, [each.id for each in record.history], record.best.id, record.stopped.reason


def test_a_sweep_between_machines_killed_twice_comes_to_the_same_and_replays(sweep, tmp_path):
    whole = sweep(tmp_path / "whole")
    killed = sweep(tmp_path / "killed", killed=(3, 14))
    for arm in ARMS:
        for name in NAMES:
            run = killed / arm / "runs" / f"level1-{name}"
            expected = decisions(run)
            assert expected == decisions(whole / arm / "runs" / f"level1-{name}")
            config, _ = read_run(run)
            update = {"model": f"replay:{run}", "replay_verdicts": True}
            again = tmp_path / f"{arm}-{name}"
            config = config.model_copy(update=update)
            with (
                RunFolder.create(again, config) as folder,
                open_search(folder, tmp_path / "none") as search,
            ):
                search.run()
            assert decisions(again) == expected


def test_arms_differ_in_knowledge_alone_and_are_compared_in_pairs(sweep, tmp_path):
    place = sweep(tmp_path / "whole")
    prompts = {
        arm: [
            json.loads(line)["body"]["messages"][1]["content"]
            for line in (place / arm / "sent" / "0001.jsonl").read_text().splitlines()
        ]
        for arm in ARMS
    }
    for index, empty, shuffled in zip(*(prompts[arm] for arm in ARMS), strict=True):
        assert "# Knowledge base" not in empty
        told = [text[text.index("# Knowledge base") : text.index("# Tech")]
                for text in (index, shuffled)]  # fmt: skip
        shown = [set(re.findall(r"^# [^\n]+ \(([\w-]+)\)", text, re.MULTILINE)) for text in told]
        assert shown[0]
        assert shown[1]
        assert not shown[0] & shown[1]
        rest = shuffled.replace(told[1], "")
        # Facts of problem, judge and card, the kernel and the task are the same.
        for head in ("Facts derived from it", "# How files are judged", "# State of the search"):
            assert empty[empty.index(head) :].split("\n\n#")[0] in rest
    found = json.loads((place / "lift.json").read_text())
    assert {arm: each["problems"] for arm, each in found["arms"].items()} == dict.fromkeys(ARMS, 2)
    assert found["arms"]["index"]["share_right"] == 1.0
    assert found["arms"]["index"]["over_compile"] == pytest.approx(0.8 / 0.4)
    pair = found["pairs"]["empty"]["over_compile"]
    assert pair["ratio"] == pytest.approx(0.5 / 0.4)
    assert pair["low"] <= pair["ratio"] <= pair["high"]
    runs = {(each["name"], each["arm"]): each for each in found["runs"]}
    mine, others = (runs["level1/1_relu", arm] for arm in ("index", "empty"))
    assert mine["requests"] == others["requests"] == 6
    assert mine["requests_to_faster"] == 3
    assert mine["tokens_in"] > others["tokens_in"]
    assert "index over empty, over_compile: 1.250" in (place / "lift.md").read_text()


def test_what_is_slower_than_pytorch_counts_as_pytorch():
    def run(arm: str, ratio: float, ended: str | None = "rounds") -> Run:
        return Run("p", arm, ended, 1, 1, 1.0, ratio, None, 1, 1, 1, None, None, 0.0, (), None, {})

    assert compare([run("index", 2.0), run("empty", 1.0)], "empty", "over_compile")["ratio"] == 2.0
    half = [run("index", 2.0), run("empty", 1.0, None)]
    assert compare(half, "empty", "over_compile") is None  # of pairs that ended


def test_the_published_figures_are_those_of_the_records():
    page = " ".join(Path("docs/optimize.md").read_text().split())
    records = sorted(Path("benchmarks/optimize/results").glob("lift-*.json"))
    assert len(records) == 3
    for record in records:
        for arm in ARMS[1:]:
            speed = json.loads(record.read_text())["pairs"][arm]["over_compile"]
            low, high = f"{speed['low']:.3f} to ", f"{speed['high']:.3f})"
            assert re.search(
                rf"{speed['ratio']:.3f} [^0-9]*\(.{{0,20}}{low}{re.escape(high)}", page
            ), arm


@pytest.mark.parametrize(("record", "table"), [("lift-16", 1), ("lift-again", 2)])
def test_the_published_tables_are_those_of_the_records(record, table):
    path = Path(f"benchmarks/optimize/results/{record}-h200-2026-11-26.json")
    found = json.loads(path.read_text())
    page = Path("docs/optimize.md").read_text().split("kernel's ms: index")[table]
    assert len(found["runs"]) == 16 * len(ARMS)
    for each in found["runs"]:
        beginning = f"| {each['name'].removeprefix('level').split('_')[0]} "
        line = next(line for line in page.splitlines() if line.startswith(beginning))
        cells = [cell.strip() for cell in line.split("|")[2:]]
        over, best = each["over_compile"], each["best_ms"]
        place = ARMS.index(each["arm"])
        assert cells[place] == ("–" if round(over, 2) == 1 else f"{over:.2f}")
        assert cells[len(ARMS) + place] == ("wrong" if best is None else f"{best:.3g}")
