"""Run contenders in rounds, in random order, each batch on contents that were never there before.

A batch is one command: every set is launched once, so within a batch nothing repeats that could be
served from a cache. After a batch of a contender that is to be checked, the judge writes other
contents into the sets, and only then fetches the outputs of a launch that it chose in secret.
"""

import contextlib
import math
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from judge.evaluate.buffers import names, tensors
from judge.evaluate.session import Worker, WorkerError
from judge.evaluate.sets import InputSets
from judge.evaluate.turns import UntestedError, out_of_turn
from judge.evaluate.wall import Batch
from judge.worker.messages import TensorSpec, Time, Times

Method = Literal["graph", "events", "clock"]

# A batch takes milliseconds; this is for a contender that hangs or compiles anew.
_BATCH_SECONDS: Final = 180.0

# What outputs of timed launches are lent as.
_FETCHED: Final = "fetched"

_secret: Final = secrets.SystemRandom()


CheckLaunch = Callable[[int, Sequence[Any]], str | None]
"""Compares the outputs of one timed launch with the oracle; None where they are right.

Takes the seed of the launch's inputs, from which the oracle is computed as well, and the outputs:
the judge's own tensors on the judged device. Says in one line what is wrong.
"""


@dataclass(frozen=True, slots=True, eq=False)
class Contender:
    """One process that runs one implementation."""

    name: str
    """candidate, eager, compile, max-autotune, or the name of a further kernel file."""
    worker: Worker
    """Its worker, contender loaded, called at least once and right."""
    outputs: Sequence[TensorSpec]
    """Every output at the full shape, as its `call` replied."""
    checked: bool
    """Whether secretly chosen timed launches are checked (the candidate and other kernel files)."""
    overlaps: bool = False
    """Whether elements of its outputs share memory in calls, so that they may in timing."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What is the same for every contender."""

    method: Method
    sets: int
    """Launches in one pass over the sets, each on its own."""
    hold_cycles: int = 0
    """GPU cycles that the stream is held for, in held batches."""
    replays: int = 1
    """Passes over the sets in one batch; more than one with graphs only."""

    @property
    def launches(self) -> int:
        """Launches in one batch."""
        return self.sets * self.replays


@dataclass(slots=True)
class Track:
    """What was measured of one contender."""

    times: dict[int, list[float]] = field(default_factory=dict)
    """Milliseconds per launch (per replay and launch with graphs), of held batches by round."""
    held: dict[int, Batch] = field(default_factory=dict)
    """Held batches by round."""
    free: dict[int, Batch] = field(default_factory=dict)
    """Batches without a hold by round."""
    checks: int = 0
    """Timed launches whose outputs were compared with the oracle."""
    wrong: list[str] = field(default_factory=list)
    """What was wrong with some of them."""
    overwritten: list[str] = field(default_factory=list)
    """The same, where a later launch wrote into an earlier one's output."""
    cheats: list[str] = field(default_factory=list)
    """Evidence of intent."""
    failed: str | None = None
    """Why it is not timed any further."""


class Interleaver:
    """Times batches of all contenders; a context manager that frees its buffers."""

    def __init__(
        self, contenders: Sequence[Contender], sets: InputSets, check_launch: CheckLaunch
    ) -> None:
        self.tracks = {contender.name: Track() for contender in contenders}
        self.pausing = True
        """Whether contenders could be stopped while it was not their turn."""
        self.sets = sets
        self.notes: list[str] = []
        """What could not be found out."""
        self.check_seconds = 0.0
        """Time spent on checking launches so far."""
        self._contenders = list(contenders)
        self._check_launch = check_launch
        self._last_seeds: dict[str, list[int]] = {}

    def __enter__(self) -> "Interleaver":
        for contender in self._contenders:
            if contender.checked:
                contender.worker.lend(_FETCHED, contender.outputs)
        return self

    def __exit__(self, *_: object) -> None:
        for contender in self._contenders:
            contender.worker.resume()
            contender.worker.take_back(_FETCHED)
            if contender.worker.alive:
                with contextlib.suppress(WorkerError):
                    contender.worker.drop(launches=True)

    @property
    def running(self) -> list[Contender]:
        """The contenders that have not failed."""
        return [
            contender
            for contender in self._contenders
            if self.tracks[contender.name].failed is None
        ]

    @property
    def output_bytes(self) -> int:
        """Bytes of the outputs of one launch, of whichever contender has most."""
        return max(sum(spec.nbytes for spec in contender.outputs) for contender in self._contenders)

    def warm_up(self, plan: Plan) -> dict[str, float]:
        """One batch of every contender on whatever contents there are; median ms by contender.

        Compiles, fills allocators and captures graphs. Since the contents of measured batches are
        written afterwards, nothing that a contender computes here is of use to it there.
        """
        medians = {}
        self.sets.restore()
        for contender in self.running:
            batch = self._batch(contender, plan, list(range(plan.sets)), held=True)
            if batch is not None:
                medians[contender.name] = sorted(batch.ms)[len(batch.ms) // 2]
        return medians

    def round(self, number: int, plan: Plan, *, held: bool, check: bool) -> None:
        """One batch of every contender on new contents, in random order.

        Contenders are stopped while it is not their turn, so that none keeps the device busy for
        the others, or reads contents and computes ahead. One that is to be checked gets contents
        that no contender has seen.

        Parameters
        ----------
        held
            Hold the stream and take the times; otherwise only the wall clock counts.
        check
            Check one secretly chosen launch of each contender that is to be checked.
        """
        turns = self.running
        for contender in turns:
            self._pause(contender)
        self.sets.renew()
        _secret.shuffle(turns)
        order = list(range(plan.sets))
        if plan.method != "graph":  # a graph's order is fixed when it is captured
            _secret.shuffle(order)
        secret_launch = _secret.randrange(plan.sets)
        for turn, contender in enumerate(turns):
            if turn and contender.checked:
                self.sets.renew()
            self.sets.restore()
            contender.worker.resume()
            reply = self._batch(contender, plan, order, held=held)
            if reply is None:
                continue
            track = self.tracks[contender.name]
            # With graphs one figure stands for all launches of a replay.
            claimed = sum(reply.ms) * (plan.launches / len(reply.ms))
            batch = Batch(contender.worker.last_seconds * 1e3, claimed, plan.launches)
            if held:
                track.times[number] = list(reply.ms)
                track.held[number] = batch
            else:
                track.free[number] = batch
            if check and contender.checked:
                start = time.monotonic()
                self._check(contender, order, secret_launch)
                self.check_seconds += time.monotonic() - start
            self._pause(contender)
            # Of the contents that each launch of this batch found, in order.
            self._last_seeds[contender.name] = [self.sets.seeds[index] for index in order]

    def look_for_turns(self) -> None:
        """Look whether contenders that are to be checked work in their turn (CUDA only)."""
        for contender in self.running:
            if contender.checked:
                contender.worker.resume()
                self._look_for_turn(contender)
                self._pause(contender)

    def _look_for_turn(self, contender: Contender) -> None:
        oracle_failed = False

        def check(seed: int, outputs: Sequence[Any]) -> str | None:
            nonlocal oracle_failed
            oracle_failed = True  # unless it answers
            problem = self._check_launch(seed, outputs)
            oracle_failed = False
            return problem

        try:
            evidence = out_of_turn(
                contender.worker, self.sets, lambda: self._fetch(contender, 0), check
            )
        except UntestedError as error:
            self.notes.append(f"{contender.name}: not checked for work outside its turn: {error}")
        except WorkerError as error:
            if oracle_failed:
                raise
            self._blame(contender, error)
        else:
            if evidence is not None:
                self.tracks[contender.name].cheats.append(evidence)

    def _pause(self, contender: Contender) -> None:
        worker = contender.worker
        if worker is not self.sets.problem and worker.alive and not worker.pause():
            self.pausing = False

    def _batch(
        self, contender: Contender, plan: Plan, order: list[int], *, held: bool
    ) -> Times | None:
        command = Time(
            sets=self.sets.arguments[: plan.sets],
            order=order * plan.replays,
            method=plan.method,
            hold_cycles=plan.hold_cycles if held else 0,
            per_replay=plan.sets if plan.method == "graph" else 1,
            # Held also where nobody looks at them: an output that is freed at once would be
            # written into the same, cached memory again.
            keep=True,
        )
        try:
            reply = contender.worker.time(command, timeout=_BATCH_SECONDS)
        except WorkerError as error:
            self._blame(contender, error)
            return None
        expected = plan.replays if plan.method == "graph" else len(order)
        track = self.tracks[contender.name]
        if len(reply.ms) != expected or reply.kept != len(order):
            track.failed = (
                f"answered {len(order)} launches with {len(reply.ms)} times "
                f"and {reply.kept} outputs"
            )
        elif not all(math.isfinite(ms) and ms > 0 for ms in reply.ms):
            track.failed = "reports launches that took no time"
        elif (
            contender.checked and not contender.overlaps and any(o.overlaps for o in reply.outputs)
        ):
            track.failed = "returns outputs whose elements share memory, but only while timed"
        if track.failed is not None:
            # The worker's own loop never replies like this: it was tampered with.
            track.cheats.append(f"{contender.name} {track.failed}")
            return None
        return reply

    def _blame(self, contender: Contender, error: WorkerError) -> None:
        """An error of a contender's worker ends its timing, not the others'."""
        self.tracks[contender.name].failed = error.error_text

    def _check(self, contender: Contender, order: list[int], launch: int) -> None:
        """Fetch one launch's outputs after its inputs were overwritten, and judge them."""
        track = self.tracks[contender.name]
        set_index = order[launch]
        if not self.sets.unchanged(set_index):
            track.wrong.append("writes to its inputs while it is timed")
        self.sets.disturb()
        try:
            outputs = self._fetch(contender, launch)
        except WorkerError as error:
            self._blame(contender, error)
            return
        track.checks += 1
        problem = self._check_launch(self.sets.seeds[set_index], outputs)
        if problem is not None and not self._explain(contender, order, launch, outputs):
            track.wrong.append(f"the output of a timed launch is wrong: {problem}")

    def _fetch(self, contender: Contender, launch: int) -> list[Any]:
        """The outputs of one kept launch."""
        fetched = contender.worker.lend(_FETCHED, contender.outputs)
        contender.worker.fetch(names(fetched), launch=launch)
        return tensors(fetched)

    def _explain(
        self, contender: Contender, order: list[int], launch: int, outputs: Sequence[Any]
    ) -> bool:
        """Note whose result a wrong output is; False where that cannot be told."""
        sets, track = self.sets, self.tracks[contender.name]
        text = "timed launches compute only when their outputs are fetched"
        candidates = [(track.cheats, sets.spare_seed, text)]
        previous = self._last_seeds.get(contender.name, [])
        if launch < len(previous):
            # The allocator gives the same memory to the launch at the same place in the batch.
            text = "timed launches return results of an earlier batch"
            candidates.append((track.cheats, previous[launch], text))
        last_seed = sets.seeds[order[-1]]
        if last_seed != sets.seeds[order[launch]]:
            text = "a timed launch's output was overwritten by a later launch of the same batch"
            candidates.append((track.overwritten, last_seed, text))
        for texts, seed, text in candidates:
            if self._check_launch(seed, outputs) is None:
                texts.append(text)
                return True
        return False
