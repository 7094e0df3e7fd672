"""The curated list: what the shipped one holds, and how all of a list is taken."""

import pytest

from ingest.sources import curated as module
from ingest.sources.curated import Curated, curated, listed_licences, quality_of
from ingest.sources.licence import canonical
from ingest.sources.spec import Repository

NAMED = {
    "FlashInfer": 1.0,
    "vLLM": 1.0,
    "SGLang": 1.0,
    "CUTLASS": 0.95,
    "Triton": 0.95,
    "PyTorch": 0.9,
    "Apex": 0.9,
    "LMDeploy": 0.85,
}


def test_the_shipped_list_holds_the_sources_that_ranking_knows_each_pinned_and_licensed():
    assert NAMED.items() <= {each.name: each.quality for each in curated()}.items()
    for each in curated():
        assert canonical(each.licence) == each.licence
        assert each.licence in listed_licences()
        assert each.spec.pinned if isinstance(each.spec, Repository) else each.spec.version
        # What it is called in an index has the entry's weight.
        assert quality_of(each.spec.name) == each.quality, each.name


def test_an_entry_that_is_not_pinned_is_refused():
    with pytest.raises(ValueError, match="not pinned"):
        entry("zebra", origin="pypi:zebra")


def entry(name, **changed):
    made = {
        "name": name.title(),
        "matches": [name],
        "quality": 0.7,
        "origin": f"pypi:{name}==1.0",
        "licence": "MIT",
        "homepage": f"https://example.org/curated/{name}",
    }
    return Curated.model_validate(made | changed)


@pytest.fixture
def listed(monkeypatch):
    def install(*entries):
        made = module._List(default=0.8, licences=("MIT",), source=entries)
        monkeypatch.setattr(module, "_list", lambda: made)

    return install


class TestTakingAll:
    def test_each_source_is_taken_as_its_entry_says(self, packages, listed, index, cli):
        packages.wheel()
        packages.sdist(files={"csrc/a.cu": "int a;\n\nint b;\n", "tests/b.py": "b = 1\n" * 3})
        listed(entry("zebra", artefact="sdist", exclude=["tests/"]))
        report = cli("ingest", "--curated", "--json").json()
        assert [each["files"] for each in report["sources"]] == [1]
        source = cli("sources", "--json").json()[0]
        assert source["url"] == "https://example.org/curated/zebra"
        assert (source["quality"], source["licence"]) == (0.7, "MIT")

    def test_one_that_fails_is_named_and_the_others_are_in_the_index(
        self, packages, listed, index, cli
    ):
        packages.wheel("zebra")
        packages.wheel("okapi", licence="License-Expression: BSD-3-Clause")
        packages.wheel("quagga")
        listed(entry("zebra"), entry("okapi"), entry("heron"), entry("quagga"))
        done = cli("ingest", "--curated")
        assert done.status == 1
        last = done.err.splitlines()[-1]
        assert last.startswith("kb: 2 of the curated sources could not be ingested (Okapi, Heron)")
        assert "is under BSD-3-Clause, but corpus/sources.toml expects MIT" in done.err
        assert "no package 'heron'" in done.err
        names = [each["name"] for each in cli("sources", "--json").json()]
        assert names == ["quagga", "zebra"]
        # The next run goes on from there.
        packages.wheel("heron")
        packages.requests.clear()
        report = cli("ingest", "--curated", "--allow-licence", "BSD-3-Clause", "--json").json()
        assert [each["unchanged_files"] for each in report["sources"]] == [1, 0, 0, 1]
        assert {path.split("/")[2] for path in packages.fetched()} == {"heron"}

    def test_an_unchanged_list_fetches_and_embeds_nothing(self, packages, listed, index, cli):
        packages.wheel("zebra")
        packages.wheel("okapi")
        listed(entry("zebra"), entry("okapi"))
        assert cli("ingest", "--curated", "--json").json()["embedded"] > 0
        packages.requests.clear()
        again = cli("ingest", "--curated", "--json").json()
        assert (again["embedded"], again["published"], packages.requests) == (0, False, [])

    def test_patterns_and_sources_do_not_go_with_it(self, packages, listed, index, cli):
        assert "--curated takes no sources" in cli("ingest", "--curated", "pypi:a").err
