"""The kernels behind the read and write ceilings touch every word, in Triton's interpreter."""

from collections.abc import Callable

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


def test_every_word_is_read_and_written(interpreted: Callable[..., str]) -> None:
    interpreted(CHECK)
