"""Runs trials on all GPUs of a machine: ``python -m benchmarks.embedder.training.launch --plan
FILE``.

Each GPU takes its trials one after another. Then the trained models are mixed, weight by weight,
with each other and with the start, all are scored on the development half, and the best are
written out as changes in files of at most 15 MB. The plan is JSON: `trials` (name → choices),
`cards` (for each GPU the names), `mixes` (name → list of [share, trial], where `start` stands for
the starting model), `keep` (how many to write, or which), and `earlier`, where mixes or trials name
models that are not trained here (name → sha256): models of an earlier release, whose files
`--earlier` gives. A plan with a trial of a larger encoder needs its weights, `--teacher`.
"""

import argparse
import hashlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import torch

from benchmarks.embedder.training.device import load_texts
from benchmarks.embedder.training.judged import Judged
from benchmarks.embedder.training.model import Arrays, Encoder, mixed, read_change, read_start
from benchmarks.embedder.training.train import JudgedTexts, judge, read_set, write
from benchmarks.embedder.training.trial import Trial

PARTS = ("functions-small", "functions", "kernels", "techniques", "techniques-corpus")


def main() -> None:
    """Run the plan."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("plan", "data", "start", "tokenizer", "judged", "out", "work"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument(
        "--until", type=float, metavar="SECONDS",
        help="from the start: trials that are not done by then are ended, and the rest is mixed",
    )  # fmt: skip
    parser.add_argument(
        "--earlier", action="append", default=[], metavar="NAME=ONNX",
        help="a model of an earlier release that the plan's mixes name",
    )  # fmt: skip
    parser.add_argument("--teacher", type=Path, help="weights of a larger encoder (`teacher.py`)")
    arguments = parser.parse_args()
    plan = json.loads(arguments.plan.read_text())
    larger = [name for name, row in plan["trials"].items() if row.get("encoder") == "mpnet"]
    if larger and not arguments.teacher:
        raise SystemExit(f"{', '.join(larger)}: give the weights to train with --teacher FILE")
    earlier = earlier_models(plan, arguments.earlier)
    began = time.time()
    arguments.work.mkdir(parents=True, exist_ok=True)
    trials = arguments.work / "trials.json"
    trials.write_text(json.dumps(plan["trials"]))
    keep = arguments.work / "tokens"
    training = read_set(arguments.data, keep)
    print(f"{len(training.pairs):,} pairs: {time.time() - began:.0f} s", flush=True)
    for reads in sorted({row.get("reads", Trial("").reads) for row in plan["trials"].values()}):
        load_texts(training, arguments.tokenizer, keep, torch.device("cpu"), reads)
    del training
    print(f"token ids: {time.time() - began:.0f} s", flush=True)
    running = [_start(arguments, trials, card, names) for card, names in enumerate(plan["cards"])]
    failed = [process.args for process in running if _ended(process, began, arguments.until)]
    for each in failed:
        print("failed:", each, flush=True)
    print(f"trained: {time.time() - began:.0f} s", flush=True)
    _choose(arguments, plan, earlier)
    print(f"all: {time.time() - began:.0f} s", flush=True)


def earlier_models(plan: dict[str, Any], given: list[str]) -> dict[str, Arrays]:
    """The models of earlier releases that a plan names, from the files given as NAME=ONNX.

    Raises
    ------
    SystemExit
        If one is missing, or is another file than the plan says.
    """
    files = {name: Path(path) for name, _, path in (each.partition("=") for each in given)}
    found = {}
    for name, sha256 in plan.get("earlier", {}).items():
        if name not in files:
            raise SystemExit(f"the plan mixes {name}: give its file with --earlier {name}=ONNX")
        has = hashlib.sha256(files[name].read_bytes()).hexdigest()
        if has != sha256:
            raise SystemExit(f"{files[name]} has sha256 {has}, but {name} is {sha256}")
        found[name] = read_start(files[name])
    return found


def _start(
    arguments: argparse.Namespace, trials: Path, card: int, names: list[str]
) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", "benchmarks.embedder.training.train"]
    for name in ("data", "start", "tokenizer", "judged"):
        command += [f"--{name}", str(getattr(arguments, name))]
    command += ["--trials", str(trials), "--out", str(arguments.work / "trained")]
    command += ["--tokens", str(arguments.work / "tokens"), "--trial", *names]
    command += [part for each in arguments.earlier for part in ("--earlier", each)]
    if arguments.teacher:
        command += ["--teacher", str(arguments.teacher)]
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    chosen = visible.split(",")[card] if visible else str(card)
    return subprocess.Popen(command, env=os.environ | {"CUDA_VISIBLE_DEVICES": chosen})


def _ended(process: "subprocess.Popen[bytes]", began: float, until: float | None) -> bool:
    """Wait for a process; whether it failed or had to be ended."""
    try:
        return process.wait(until and max(0.0, began + until - time.time())) != 0
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        return True


def _choose(
    arguments: argparse.Namespace, plan: dict[str, Any], earlier: dict[str, Arrays]
) -> None:
    """Score the start and the mixes beside the trials, and write the best."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    start = read_start(arguments.start)
    judged = Judged.read(arguments.judged)
    scoring: dict[str, JudgedTexts] = {}
    folder = arguments.work / "trained"
    reports = {path.stem: json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))}
    models: dict[str, Arrays] = {"start": start, **earlier}
    for name in reports:
        parts = sorted(folder.glob(f"{name}.change.*"))
        if parts and len(reports[name]["trial"]["layers"]) == len(Trial("").layers):
            models[name] = read_change(start, b"".join(part.read_bytes() for part in parts))[0]
    plain = Trial("start")
    candidates = {"start": (start, plain)} | {
        name: (weights, Trial(name)) for name, weights in earlier.items()
    }
    for name, shares in plan["mixes"].items():
        reading = {reports[each]["trial"]["reads"] for _, each in shares if each in reports}
        if all(each in models for _, each in shares) and len(reading) == 1:
            mix = mixed(*((share, models[each]) for share, each in shares))
            candidates[name] = (mix, Trial(name, reads=reading.pop()))
    for name, (weights, trial) in candidates.items():
        model = Encoder(weights, trial.layers).to(device).eval()
        report = {"trial": {**trial.to_json(), "mix": plan["mixes"].get(name)}}
        if trial.reads not in scoring:
            scoring[trial.reads] = JudgedTexts(judged, arguments.tokenizer, device, trial.reads)
        report["scores"] = judge(model, scoring[trial.reads], trial, device)
        reports[name] = report
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / "scores.json").write_text(json.dumps(reports, indent=1) + "\n")
    made = [name for name in reports if name != "start" and name not in earlier]
    ranked = sorted(made, key=lambda name: -value(reports[name]))
    for name in ["start", *earlier, *ranked]:
        scores = {part: reports[name]["scores"][part][""][0] for part in PARTS}
        print(f"{name}: {value(reports[name]):.4f} {scores}", flush=True)
    keep = plan["keep"]
    for name in keep if isinstance(keep, list) else ranked[:keep]:
        if name in candidates:
            weights, trial = candidates[name]
            write(Encoder(weights, trial.layers), start, trial, reports[name], folder)
        for part in folder.glob(f"{name}.change.*"):
            (arguments.out / part.name).write_bytes(part.read_bytes())


def value(report: dict[str, Any]) -> float:
    """What trials are ranked by: functions and technique queries count alike."""
    scores = {part: found[""][0] for part, found in report["scores"].items()}
    functions = (scores["functions-small"] + scores["functions"]) / 2
    return float((functions + scores["techniques"]) / 2)


if __name__ == "__main__":
    main()
