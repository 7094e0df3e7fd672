"""What a module says about itself, and when a context listens to it."""

import pytest

from benchmarks.context.problems import shown_example
from kb.context.build import build_context
from kb.context.models import ContextRequest
from kb.errors import InvalidInputError
from kb.problems.wording import wording
from kb.search.opening import open_searcher

MODULE = '''import torch

class {name}(torch.nn.Module):
    """{doc}

    More that nobody needs.
    """

    def forward(self, x, gate_up):
        # {comment}
        return ((x * gate_up).sum(0) + 1).clamp(0)

def get_inputs():
    return [torch.rand(8192, 4096), torch.rand(8192, 4096)]
'''


@pytest.fixture(scope="module")
def searcher(shipped_index):
    return open_searcher(shipped_index)


def test_names_docstrings_and_comments_are_what_a_module_says():
    text = MODULE.format(name="TokenSampler", doc="Picks a token.", comment="greedy where cold")
    assert wording(text) == "Picks a token. token sampler. x, gate up. greedy where cold"
    assert wording("import torch\n\ndef forward(x):\n    return x\n") == ""
    assert len(wording(text.replace("Picks", "Picks " * 2000))) == 1500
    with pytest.raises(InvalidInputError, match="problem:1: not Python"):
        wording("class (:")


def test_words_choose_where_operators_are_those_of_everything(searcher):
    told = MODULE.format(
        name="Model", doc="Top-k and top-p sampling of the next token.", comment="nucleus"
    )
    untold = MODULE.format(name="Model", doc="Runs.", comment="x")
    response = build_context(ContextRequest(problem=told, gpu="H200", max_tokens=9000), searcher)
    assert shown_example(response.text)[0] == "sampling-top-p"
    assert "Chosen by the problem's names and comments." in response.text
    response = build_context(ContextRequest(problem=untold, gpu="H200", max_tokens=9000), searcher)
    assert shown_example(response.text)[0] == "reduce-dim-split"


def test_words_do_not_overrule_operators_that_say_more(searcher):
    text = MODULE.format(name="Model", doc="Top-p sampling of the next token.", comment="nucleus")
    text = text.replace("((x * gate_up).sum(0) + 1).clamp(0)", "torch.softmax(x @ gate_up.t(), -1)")
    response = build_context(ContextRequest(problem=text, gpu="H200", max_tokens=6000), searcher)
    slug, _ = shown_example(response.text)
    assert searcher.generation.kernels[slug].entry.op.startswith("matmul")


@pytest.mark.parametrize("body", ["for i in y.tolist():", "for i in range(int(y.max())):"])
def test_a_loop_over_what_is_not_known_is_read_once(searcher, body):
    text = (
        "import torch\n\nclass Model(torch.nn.Module):\n    def forward(self, x, y):\n"
        f"        out = []\n        {body}\n            if i < 0:\n                continue\n"
        "            out.append(torch.softmax(x, -1))\n        return out\n\n"
        "def get_inputs():\n    return [torch.rand(4096, 8192), torch.randint(0, 9, (3, 2))]\n"
    )
    facts = build_context(ContextRequest(problem=text, gpu="H200"), searcher).text
    assert "softmax [4096, 8192]" in facts
    assert "branches on values" in facts
