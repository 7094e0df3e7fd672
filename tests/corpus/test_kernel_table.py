"""docs/kernels.md says what the entries' records say."""

from pathlib import Path

from benchmarks.kernels.table import page
from kb.corpus.loader import load_shipped_corpus

DOCS = Path(__file__).resolve().parents[2] / "docs" / "kernels.md"


def test_the_table_is_what_the_records_give() -> None:
    kernels = [kernel.entry for kernel in load_shipped_corpus().kernels]
    assert DOCS.read_text(encoding="utf-8") == page(kernels), (
        "run `python -m benchmarks.kernels.table`"
    )


def test_every_kernel_stands_in_the_table_and_losses_are_shown() -> None:
    kernels = [kernel.entry for kernel in load_shipped_corpus().kernels]
    text = page(kernels)
    assert all(f"`{kernel.slug}`" in text for kernel in kernels)
    lost = [r for kernel in kernels for r in kernel.verified if r.speedup < 0.95]
    assert lost
    assert all(f"{record.speedup:.2f}x" in text for record in lost if record.baseline == "eager")
