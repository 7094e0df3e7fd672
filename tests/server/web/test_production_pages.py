"""The tree and a technique's page list production code with what it is cited by."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from markup_checks import assert_well_made, links, parsed, text_of
from support import HashingEmbedder, TinyCorpus, opened

from ingest.pipeline import Request, ingest
from server.web.rendering import page
from server.web.views import technique_page, tree_page

KERNEL = """import triton
import triton.language as tl


@triton.jit
def striped_rope_kernel(x_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + i, pid_swizzling_order(i))
"""


@pytest.fixture(scope="module")
def index(tmp_path_factory) -> Path:
    place = tmp_path_factory.mktemp("pages")
    corpus = TinyCorpus(place / "corpus")
    code = place / "<zebra>"
    code.mkdir()
    (code / "rope.py").write_text(KERNEL)
    ingest([Request(corpus.root), Request(code)], place / "index", HashingEmbedder())
    return place / "index"


@pytest.mark.parametrize("name", ["tree.html", "technique.html"])
def test_production_code_is_listed_with_place_and_licence(index, name):
    with opened(index) as generation:
        chunk = next(c for c in generation.store.all() if c.symbol == "striped_rope_kernel")
        values = (
            tree_page(generation)
            if name == "tree.html"
            else technique_page(generation, "pid-swizzling")
        )
    answer = page(name, **values)
    document = parsed(SimpleNamespace(headers=answer.headers, text=bytes(answer.body).decode()))
    assert_well_made(document)
    assert f"/chunk/{chunk.id}" in links(document)
    shown = " ".join(text_of(document).split())
    assert "striped_rope_kernel <zebra> · rope.py:5-8 · licence unknown" in shown
    assert "1 in production" in shown or "in 1 piece of ingested code" in shown


def test_a_technique_that_no_code_shows_has_no_such_part(index):
    with opened(index) as generation:
        values = technique_page(generation, "persistent-kernel")
    html = bytes(page("technique.html", **values).body).decode()
    assert "production" not in html
