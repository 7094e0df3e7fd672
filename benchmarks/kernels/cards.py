"""Spread kernels over the cards of a machine: one measuring process a card, results in one file.

Knows how measuring processes are started, watched and started again; not what they measure.
"""

import itertools
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.cards import chosen as chosen_of
from benchmarks.cards import visible
from benchmarks.kernels import store
from kb.errors import KbError

ROOT = Path(__file__).resolve().parents[2]
# A kernel takes some 10 s with its tuning; past this it hangs.
KERNEL_LIMIT_S = 75.0
_POLL_S = 0.25


@dataclass(slots=True)
class Card:
    """One card, the kernels that wait for it, and the process that measures them."""

    index: int
    slugs: list[str]
    path: Path
    """Its own results, which `gather` puts together with those of the other cards."""
    environment: dict[str, str]
    child: "subprocess.Popen[bytes] | None" = field(default=None, init=False)


def chosen(gpus: str, dry_run: bool) -> list[str]:
    """The first cards, as many as `gpus` ("all" or a number) says; of a dry run, no cards.

    Raises
    ------
    KbError
        If it is neither, or more than there are.
    """
    if dry_run:
        return chosen_of(gpus, [""] * (int(gpus) if gpus.isdecimal() else 1))
    names = visible()
    if not names:
        raise KbError("PyTorch sees no CUDA device: measure on a machine with a GPU, or --dry-run")
    return chosen_of(gpus, names)


def shares(slugs: Sequence[str], count: int) -> list[list[str]]:
    """Runs of neighbours, of equal length but for one: what shares a baseline stays together."""
    cuts = [len(slugs) * index // count for index in range(count + 1)]
    return [list(slugs[a:b]) for a, b in itertools.pairwise(cuts)]


def measure(path: Path, slugs: Sequence[str], names: Sequence[str], arguments: list[str]) -> None:
    """Measure `slugs` on the cards `names`, with what is found gathered into `path` as it comes.

    `arguments` are those of `benchmarks.kernels.session` besides `--results` and the slugs.

    Raises
    ------
    KbError
        If a measuring process ends before its first kernel.
    """
    frame = store.load(path)
    running: list[Card] = []
    for index, (name, share) in enumerate(zip(names, shares(slugs, len(names)), strict=True)):
        environment = dict(os.environ)
        paths = filter(None, [str(ROOT), environment.get("PYTHONPATH")])
        environment["PYTHONPATH"] = os.pathsep.join(paths)
        if "--dry-run" in arguments:
            environment["TRITON_INTERPRET"] = "1"
        else:
            environment["CUDA_VISIBLE_DEVICES"] = name
        if share:
            card = Card(index, share, path.with_suffix(f".card{index}.json"), environment)
            store.save(card.path, {**frame, "floors": {}, "kernels": {}})
            running.append(card)
    cards = list(running)
    try:
        while running:
            running = [card for card in running if _advance(card, arguments)]
            gather(path, cards)
            time.sleep(_POLL_S)
    finally:
        for card in cards:
            if card.child is not None and card.child.poll() is None:
                card.child.kill()
                card.child.wait()
        gather(path, cards)
    for card in cards:
        card.path.unlink()


def gather(path: Path, cards: Sequence[Card]) -> None:
    """Add what the cards have measured so far to `path`."""
    results = store.load(path)
    kernels = dict(results["kernels"])
    for card in cards:
        found = store.load(card.path)
        kernels.update(found["kernels"])
        results["floors"] = results["floors"] or found["floors"]
    if kernels != results["kernels"]:
        results["kernels"] = kernels
        store.save(path, results)


def _advance(card: Card, arguments: list[str]) -> bool:
    """Start, watch or start again the process of one card; False once it has nothing left."""
    if card.child is None:
        command = [
            sys.executable, "-m", "benchmarks.kernels.session", *arguments,
            "--results", str(card.path), *card.slugs,
        ]  # fmt: skip
        card.child = subprocess.Popen(command, env=card.environment)
        return True
    problem = _problem(card)
    if problem is None:
        return card.child.poll() is None
    results = store.load(card.path)
    running: dict[str, Any] | None = results.pop("running", None)
    if running is None:
        raise KbError(f"the measuring process {problem} before the first kernel")
    slug = running["slug"]
    print(f"{slug}: the measuring process {problem}", flush=True)
    results["kernels"][slug] = {"error": f"the measuring process {problem}"}
    store.save(card.path, results)
    card.slugs = card.slugs[card.slugs.index(slug) + 1 :]
    card.child = None
    return bool(card.slugs)


def _problem(card: Card) -> str | None:
    """What went wrong with a card's process, which has ended then; None while all is well."""
    assert card.child is not None
    if card.child.poll() is not None:
        status = card.child.returncode
        return None if status == 0 else f"ended with status {status}"
    try:
        running = store.load(card.path).get("running")
    except json.JSONDecodeError:
        return None
    if running and time.time() - running["since"] > KERNEL_LIMIT_S:
        card.child.kill()
        card.child.wait()
        return f"was stopped after {KERNEL_LIMIT_S:.0f} s"
    return None
