"""A process that tunes one kernel, or screens several: a request on standard input, JSON on output.

A process of its own, so that the optimizer holds no CUDA context, and whatever goes wrong with a
device ends with it. Lines are `{"say": …}`, and at the end `{"tuned": …}`, `{"ranking": …}` or
`{"error": …}`. What loads torch is loaded before the request comes: a process that was started
early answers sooner. It ends with its parent, so that no card is held for a run that was killed.
"""

import contextlib
import json
import os
import sys
import threading
import time
from typing import Any, Final

from pydantic import TypeAdapter

from agent.sandbox.launch import Zygote
from agent.tune.request import Ranking, Request, Screening, Tuned
from agent.tune.screen import screen
from agent.tune.tuner import tune
from kb.errors import KbError

_AHEAD: Final = "--ahead"
# How often it looks whether its parent is still there.
_LOOK_S: Final = 0.5
# Told apart by their fields.
_REQUEST: TypeAdapter[Request | Screening] = TypeAdapter(Request | Screening)


def main() -> int:
    """Obey one request; without one, end."""
    end_with_parent()
    with contextlib.ExitStack() as stack:
        zygote = stack.enter_context(Zygote()) if _AHEAD in sys.argv[1:] else None
        told = sys.stdin.buffer.read()
        return _obey(_REQUEST.validate_json(told), zygote) if told else 0


def end_with_parent() -> None:
    """From now on, end this process at once when the one that started it is gone."""
    parent = os.getppid()

    def look() -> None:
        while os.getppid() == parent:
            time.sleep(_LOOK_S)
        os._exit(1)

    threading.Thread(target=look, daemon=True).start()


def _obey(request: Request | Screening, zygote: Zygote | None) -> int:
    # What libraries print goes elsewhere.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def tell(**line: Any) -> None:
        print(json.dumps(line), file=answers, flush=True)

    try:
        if request.device == "cpu":  # kernels are interpreted, which this one is not for
            zygote = None
        found: dict[str, Tuned | Ranking]
        if isinstance(request, Screening):
            found = {"ranking": screen(request, zygote=zygote, say=lambda text: tell(say=text))}
        else:
            found = {"tuned": tune(request, zygote=zygote, say=lambda text: tell(say=text))}
    except KbError as error:
        tell(error=str(error))
        return 1
    tell(**{name: each.model_dump(mode="json") for name, each in found.items()})
    return 0


if __name__ == "__main__":
    sys.exit(main())
