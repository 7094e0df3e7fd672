"""A process in which Triton's interpreter is loaded: loading it takes longer than most scripts."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def interpreted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., str]]:
    """Run a script in Triton's interpreter, from a file or its text; returns what it prints.

    Each has a process of its own, in the repository's root.
    """
    place = tmp_path_factory.mktemp("interpreted")
    process = subprocess.Popen(
        [sys.executable, Path(__file__).with_name("interpreting.py")],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT,
        env={**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None

    def run(script: Path | str, *arguments: object) -> str:
        if isinstance(script, str):
            # The interpreter reads the source of Triton functions: they have to stand in a file.
            path = place / "script.py"
            path.write_text(script)
            script = path
        output = place / "output"
        job = {"arguments": [str(each) for each in (script, *arguments)], "output": str(output)}
        process.stdin.write(json.dumps(job) + "\n")
        process.stdin.flush()
        status = process.stdout.readline().strip()
        assert status == "0", (status, Path(f"{output}.err").read_text()[-3000:])
        return output.read_text()

    yield run
    process.stdin.close()
    process.wait(30)
