"""What a run asks the knowledge base."""

from pathlib import Path
from typing import Any

import pytest
from scripted import ScriptedJudge, config, start
from support import TinyCorpus, add
from support import searcher as make_searcher

from agent.optimize.advice import Advice, IndexAdvisor, build_query, ids_of_sources
from agent.optimize.candidate import Context, ProblemInfo
from agent.optimize.events import Started
from agent.optimize.run import RunFolder
from kb.errors import KbError
from kb.search.models import MAX_QUERY_CHARS


@pytest.mark.parametrize(
    ("stem", "query"),
    [
        ("conv_transpose3d", "conv transpose 3d"),
        ("max_pool1d", "max pool 1d"),
        ("36_RMSNorm_", "36 RMSNorm "),
        ("rms_norm-bf16.v2", "rms norm bf16 v2"),
        ("method_of_3d", "method of 3d"),
    ],
)
def test_a_problem_is_asked_for_in_words(stem: str, query: str) -> None:
    assert build_query(stem, None, ()) == query


def test_a_query_is_never_longer_than_search_takes() -> None:
    assert len(build_query("word_" * 10_000, None, ())) <= MAX_QUERY_CHARS


PROBLEM = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4096, 4096)

    def forward(self, x):
        return self.linear(x)

def get_inputs():
    return [torch.rand(1024, 4096)]

def get_init_inputs():
    return []
"""


@pytest.fixture(scope="module")
def two_sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of the small corpus and of a folder of notes."""
    place = tmp_path_factory.mktemp("advised")
    (place / "notes").mkdir()
    (place / "notes" / "swizzle.md").write_text("# Pid swizzling\n\nPid swizzling of tiles won.\n")
    add(TinyCorpus(place / "corpus").root, place / "index")
    add(place / "notes", place / "index", name="notes")
    return place / "index"


def advised(root: Path, index: Path, searcher: Any, **changed: Any) -> Advice:
    """What a run on a linear layer is told of its start."""
    info = ProblemInfo(name="linear.py", source=PROBLEM, sha256="0")
    run = config().model_copy(update={"problem": info, "gpu": "H200", **changed})
    with RunFolder.create(root, run) as folder:
        standing = ScriptedJudge().judge_start(start(), lambda _: None)
        folder.append(Started(wall=0, at="", standing=standing))
        return IndexAdvisor(folder, index, (), searcher).advise(standing.start, 1, ())


def test_without_knowledge_nothing_is_asked(tmp_path: Path, two_sources: Path) -> None:
    found = advised(tmp_path / "run", two_sources, None, knowledge=False)
    assert found.context == Context()
    assert found.diagnosis is not None


def test_sources_that_are_left_out_are_not_shown(tmp_path: Path, two_sources: Path) -> None:
    one = make_searcher(two_sources)
    whole = advised(tmp_path / "whole", two_sources, one)
    assert whole.context.techniques
    less = advised(tmp_path / "less", two_sources, one, exclude_sources=("tiny",))
    assert less.context.techniques == ()
    assert not {*whole.context.chunks} & {*less.context.chunks}
    unknown = advised(tmp_path / "unknown", two_sources, one, exclude_sources=("nobody",))
    assert unknown.context == Context()
    assert "no source 'nobody': its sources are notes, tiny" in unknown.notes[0]
    hidden = ids_of_sources(one.generation, ("notes",))
    assert hidden
    assert hidden < {each.id for each in one.generation.store.all()}


def test_a_technique_comes_with_what_goes_wrong_with_it(tmp_path: Path, two_sources: Path) -> None:
    one = make_searcher(two_sources)
    context = advised(tmp_path / "run", two_sources, one).context
    for slug in context.techniques:
        risk = one.generation.techniques[slug].entry.risks[0]
        assert context.reasons[slug].endswith(f". Risk: {risk}")


@pytest.mark.parametrize("error", [KbError("damaged"), OSError("disk\ngone"), ValueError("x")])
def test_knowledge_that_fails_never_stops_a_run(
    tmp_path: Path, two_sources: Path, error: Exception
) -> None:
    class Failing:
        @property
        def generation(self) -> object:
            raise error

    found = advised(tmp_path / "run", two_sources, Failing())
    assert found.context == Context()
    (note,) = found.notes
    assert note.startswith("no context: ")
    assert "\n" not in note
