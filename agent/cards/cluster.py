"""The cards of a Ray cluster: an actor holds each, and passes requests on to its judging process.

The actor has Ray's whole share of a card, so no other work of the cluster gets it. Requests travel
with the files that they name. This module imports Ray, and is loaded only for `--ray`.
"""

import contextlib
import hashlib
import itertools
import json
import queue
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

import ray
from pydantic import BaseModel
from ray.exceptions import GetTimeoutError, RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

import kb
from agent.cards.local import LocalCard, share_of_cores
from agent.cards.pool import CardLostError, CardPool
from agent.optimize.judge_main import read_request, write_message
from agent.optimize.judge_process import JudgeLostError, JudgeProcess, read_message, write_request
from agent.optimize.judge_requests import Describe, Request
from judge.progress import Progress, Say, silent
from kb.errors import InvalidInputError, KbError
from kb.ray_cluster import START_ONE, connected, require_listener

R = TypeVar("R", bound=BaseModel)

# Starting an actor and a process with torch takes some seconds, tens from a cold disk.
_START_S: Final = 180.0
_END_S: Final = 5.0
_ERRORS: Final[dict[str, type[KbError]]] = {"lost": JudgeLostError, "fault": CardLostError}


class CardActor:
    """Holds one card of a node, the one at `place` of `places`, which divide the node's cores.

    Its methods are called through Ray. With `interpret` it is a processor.
    """

    def __init__(self, name: str, place: int, places: int, *, interpret: bool) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="kernel-kb-card-")
        cores = share_of_cores(place, places)
        # Ray gives an actor one OpenMP thread; on one machine it is one for each core.
        threads = {} if interpret else {"OMP_NUM_THREADS": str(len(cores))}
        start_process = partial(JudgeProcess, environment=threads, cores=cores)
        self._card = LocalCard(name, None, start_process, "cpu" if interpret else "cuda:0")
        self._card.kind = self._card.ask(Describe(interpret=interpret), silent).gpu

    def describe(self) -> tuple[str | None, str]:
        """Name of the card's model, and the version of kernel-kb on this node."""
        return self._card.kind, kb.__version__

    def ask(self, line: str, files: dict[str, bytes]) -> Iterator[str]:
        """Lines of progress, then one with the answer, as a judging process writes them, or one of
        `_ERRORS` with its message. `files` has the contents of the files that the request names, by
        their paths on the driver's machine.
        """
        request = read_request(line)
        paths = {Path(name): self._keep(Path(name), data) for name, data in files.items()}
        request = request.model_copy(update=dict(_with_local_paths(request, paths)))
        messages: queue.SimpleQueue[str | None] = queue.SimpleQueue()

        def work() -> None:
            try:
                answer = self._card.ask(request, lambda event: messages.put(write_message(event)))
                messages.put(write_message(answer))
            except Exception as error:
                name = next((key for key, cls in _ERRORS.items() if isinstance(error, cls)), None)
                messages.put(json.dumps({name: str(error)}) if name else write_message(error))
            messages.put(None)

        threading.Thread(target=work, daemon=True).start()
        while (message := messages.get()) is not None:
            for path, copy in paths.items():  # messages name files
                message = message.replace(_json_escaped(copy), _json_escaped(path))
            yield message

    def cancel(self) -> None:
        """End the request in progress."""
        self._card.cancel()

    def close(self) -> None:
        """End the judging process, and remove its files."""
        self._card.close()
        self._folder.cleanup()

    def _keep(self, path: Path, data: bytes) -> Path:
        stored = Path(self._folder.name, hashlib.sha256(data).hexdigest()[:16], path.name)
        if not stored.exists():
            stored.parent.mkdir(exist_ok=True)
            stored.write_bytes(data)
        return stored


def _json_escaped(path: Path) -> str:
    """A path as it stands within JSON."""
    return json.dumps(str(path))[1:-1]


def _with_local_paths(request: Request[Any], paths: dict[Path, Path]) -> Iterator[tuple[str, Any]]:
    for name, value in request:
        if isinstance(value, Path):
            yield name, paths[value]
        elif isinstance(value, tuple) and value and isinstance(value[0], Path):
            yield name, tuple(paths[path] for path in value)


def _files(request: Request[Any]) -> dict[str, bytes]:
    """Contents of the files that a request names."""
    values = (value if isinstance(value, tuple) else (value,) for _, value in request)
    flat_values = itertools.chain.from_iterable(values)
    return {str(path): path.read_bytes() for path in flat_values if isinstance(path, Path)}


@dataclass(eq=False, slots=True)
class RayCard:
    """A card of a node; see `Card`."""

    name: str
    actor: Any
    kind: str | None = None

    def ask(self, request: Request[R], say: Say) -> R:
        """See `Card.ask`. A node that is gone is a card that is lost."""
        ask = self.actor.ask.options(num_returns="streaming")
        try:
            for reference in ask.remote(write_request(request), _files(request)):
                line = ray.get(reference)
                for name, message in json.loads(line).items():
                    if name in _ERRORS:
                        raise _ERRORS[name](message)
                reply = read_message(request, line)
                if not isinstance(reply, Progress):
                    return reply
                say(reply)
        except RayError as error:
            raise CardLostError(f"its node was lost ({type(error).__name__})") from error
        raise CardLostError("it sent no answer")

    def cancel(self) -> None:
        """See `Card.cancel`."""
        self.actor.cancel.remote()

    def close(self) -> None:
        """See `Card.close`."""
        with contextlib.suppress(RayError):  # its node may be gone
            ray.get(self.actor.close.remote(), timeout=_END_S)
        ray.kill(self.actor)


def _require_reachable(address: str) -> None:
    """Say at once that nothing listens there: Ray tries for minutes."""
    if address == "auto":
        return
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or "/" in host:
        raise InvalidInputError(f"--ray takes auto or HOST:PORT, not '{address}'")
    try:
        require_listener(host, int(port), _END_S)
    except OSError as error:
        raise KbError(f"nothing answers at '{address}': {error}; {START_ONE}") from error


@contextlib.contextmanager
def cluster_cards(address: str, *, interpret: bool = False) -> Iterator[CardPool]:
    """Cards of all nodes of a running cluster, until the context ends; those that other work holds
    are left out.

    Parameters
    ----------
    address
        `auto` for the cluster that this machine is in, or `HOST:PORT` of its head.
    interpret
        Take processors that use Triton's interpreter in place of cards.

    Raises
    ------
    KbError
        There is no such cluster, it has no free card, or a node has another version of kernel-kb.
    """
    _require_reachable(address)
    with connected(address), _start_pool(_start_actors(interpret=interpret)) as pool:
        yield pool


def _start_pool(cards: list[RayCard]) -> CardPool:
    """The pool of those whose actors start."""
    if not cards:
        raise KbError("the Ray cluster has no GPU; --interpret does a dry run without one")
    by_reference = {card.actor.describe.remote(): card for card in cards}
    ready, late = ray.wait(list(by_reference), num_returns=len(by_reference), timeout=_START_S)
    ready_cards = []
    for reference in ready:
        card = by_reference[reference]
        try:
            card.kind, version = ray.get(reference, timeout=_START_S)
        except (GetTimeoutError, RayError) as error:
            why = str(error).strip().splitlines()[-1]
            raise KbError(f"{card.name} cannot judge: {why}") from error
        if version != kb.__version__:
            raise KbError(f"{card.name} has kernel-kb {version}, this machine {kb.__version__}")
        ready_cards.append(card)
    pool = CardPool(sorted(ready_cards, key=lambda card: card.name))
    for reference in late:
        pool.lost.append(f"{by_reference[reference].name}: not free for {_START_S:.0f} s")
        by_reference[reference].close()
    if not ready_cards:
        raise KbError("other work holds all devices of the Ray cluster")
    return pool


def _start_actors(*, interpret: bool) -> list[RayCard]:
    """An actor for each card, on the card's node."""
    resource = "CPU" if interpret else "GPU"
    resources: dict[str, Any] = {"num_cpus": 1} if interpret else {"num_cpus": 0, "num_gpus": 1}
    actor_class = ray.remote(CardActor)
    cards: list[RayCard] = []
    for node in ray.nodes():
        places = int(node["Resources"].get(resource, 0)) if node["Alive"] else 0
        for place in range(places):
            name = f"{node['NodeManagerHostname']} {node['NodeID'][:6]} {resource} {place}"
            actor = actor_class.options(
                **resources,
                # `cancel` while `ask` goes on.
                max_concurrency=4,
                scheduling_strategy=NodeAffinitySchedulingStrategy(node["NodeID"], soft=False),
            ).remote(name, place, places, interpret=interpret)
            cards.append(RayCard(name, actor))
    return cards
