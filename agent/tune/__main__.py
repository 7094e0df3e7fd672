"""A process that tunes one kernel: a request on standard input, lines of JSON on standard output.

A process of its own, so that the optimizer holds no CUDA context, and whatever goes wrong with a
device ends with it. Lines are `{"say": …}`, and at the end `{"tuned": …}` or `{"error": …}`.
"""

import json
import os
import sys
from typing import Any

from agent.tune.request import Request
from agent.tune.tuner import tune
from kb.errors import KbError


def main() -> int:
    """Obey one request."""
    request = Request.model_validate_json(sys.stdin.buffer.read())
    # What libraries print goes elsewhere.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def tell(**line: Any) -> None:
        print(json.dumps(line), file=answers, flush=True)

    try:
        tuned = tune(request, say=lambda text: tell(say=text))
    except KbError as error:
        tell(error=str(error))
        return 1
    tell(tuned=tuned.model_dump(mode="json"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
