"""bm25s is used without starting JAX and without loading SciPy, wherever they are installed."""

import subprocess
import sys
from pathlib import Path

USE = """
import sys
from pathlib import Path
from kb.index.lexical import LexicalIndex, write_lexical

folder = Path(sys.argv[1])
write_lexical(folder, [])
LexicalIndex(folder, 0)
assert "bm25s.selection" in sys.modules
"""


def _use(folder: Path, before: str = "", after: str = "") -> list[str]:
    """Lines printed by a process that uses the lexical index where JAX is installed."""
    library = folder / "site" / "jax"
    library.mkdir(parents=True)
    (library / "__init__.py").write_text("print('JAX started')\n")
    (library / "lax.py").write_text("def top_k(scores, k):\n    print('JAX used')\n")
    done = subprocess.run(
        [sys.executable, "-c", before + USE + after, str(folder / "index")],
        env={"PYTHONPATH": str(folder / "site"), "PATH": ""},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.splitlines()


def test_jax_is_not_started_and_scipy_not_loaded(tmp_path):
    assert _use(tmp_path, after="assert 'scipy' not in sys.modules\n") == []


def test_others_may_still_import_it(tmp_path):
    assert _use(tmp_path, after="import jax\n") == ["JAX started"]


def test_one_that_was_imported_stays(tmp_path):
    kept = "assert sys.modules['jax'] is jax\n"
    assert _use(tmp_path, before="import jax\n", after=kept) == ["JAX started"]
