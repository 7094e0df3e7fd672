"""The cache of fetched archives, used by several processes at a time."""

import multiprocessing
from pathlib import Path

from ingest.sources.cache import Cache


def test_a_workspace_is_not_cleared_by_a_process_that_makes_its_own(tmp_path):
    with multiprocessing.get_context("fork").Pool(4) as pool:
        assert pool.map(_disturbed, [tmp_path] * 4) == [0] * 4
    assert list((tmp_path / "tmp").iterdir()) == []


def _disturbed(root: Path) -> int:
    """How many of 500 workspaces lost a file while they were held."""
    lost = 0
    for _ in range(500):
        with Cache(root).workspace() as place:
            try:
                (place / "kept").touch()
                (place / "kept").unlink()
            except OSError:
                lost += 1
    return lost
