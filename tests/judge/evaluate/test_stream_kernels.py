"""The kernels behind the read and write ceilings touch every word, in Triton's interpreter."""

import os
import subprocess
import sys
from pathlib import Path

CHECK = """
import torch
from judge.evaluate import stream_kernels as kernels

words = 2 * kernels._WORDS
target = torch.zeros(words, dtype=torch.int32)
kernels.write(target.view(torch.uint8))
expected = (torch.arange(words, dtype=torch.int64) * 2654435761).to(torch.int32)
assert torch.equal(target, expected)

source = torch.arange(words, dtype=torch.int32)
sink = torch.zeros(words, dtype=torch.int32)
kernels.read(source.view(torch.uint8), sink.view(torch.uint8))
assert not sink.any()
for place in (3, words - 1):  # one in each program's part
    source[place] = kernels._NEVER
    sink.zero_()
    kernels.read(source.view(torch.uint8), sink.view(torch.uint8))
    assert sink.nonzero().flatten().tolist() == [place % kernels._WORDS]
    source[place] = 0
"""


def test_every_word_is_read_and_written() -> None:
    environment = {
        **os.environ,
        "TRITON_INTERPRET": "1",
        "PYTHONPATH": str(Path(__file__).parents[3]),
    }
    done = subprocess.run(
        [sys.executable, "-c", CHECK], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
