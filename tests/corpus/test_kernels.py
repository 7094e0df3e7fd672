"""Every kernel of the shipped corpus passes `kb verify`; a missing tool fails, never skips."""

import itertools
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from support import VERIFIED

from kb.corpus.loader import load_corpus
from kb.verify import verify_corpus
from kb.verify.cache import ResultCache

CORPUS = Path(__file__).parents[2] / "corpus"
KERNELS = {kernel.entry.slug: kernel.entry for kernel in load_corpus(CORPUS).kernels}

# The first test runs those that changed since they passed: all take 200 s of processor time.
pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def results():
    """Every kernel, a half each in two runs side by side: nothing else takes that long."""
    slugs = sorted(KERNELS)
    found = {}
    with ThreadPoolExecutor(2) as pool:
        halves = pool.map(
            lambda only: verify_corpus(CORPUS, only=only, cache=ResultCache(VERIFIED)),
            (slugs[::2], slugs[1::2]),
        )
        for result in itertools.chain.from_iterable(halves):
            found.setdefault(result.slug, {})[result.check] = result
    return found


def test_every_entry_of_the_corpus_is_valid(results):
    entries = results["corpus"]["entries"]
    assert entries.passed, entries.detail


@pytest.mark.parametrize("slug", KERNELS)
def test_kernel_exports_what_the_format_asks_for(results, slug):
    assert results[slug]["exports"].passed, results[slug]["exports"].detail


@pytest.mark.parametrize("slug", KERNELS)
def test_kernel_inputs_would_expose_a_wrong_result(results, slug):
    assert results[slug]["power"].passed, results[slug]["power"].detail


@pytest.mark.parametrize("slug", [s for s, k in KERNELS.items() if k.language == "triton"])
def test_triton_kernel_equals_its_reference_at_every_size_and_dtype(results, slug):
    result = results[slug]["result"]
    assert result.passed, result.detail
    cases = len(KERNELS[slug].sizes.check) * len(KERNELS[slug].dtypes)
    assert result.detail.startswith(f"{cases} cases agree")


@pytest.mark.parametrize("slug", [s for s, k in KERNELS.items() if k.language == "triton"])
def test_triton_kernel_compiles_for_hopper_within_its_shared_memory(results, slug):
    assert results[slug]["compile sm_90"].passed, results[slug]["compile sm_90"].detail


@pytest.mark.parametrize("slug", [s for s, k in KERNELS.items() if k.language == "cuda"])
def test_cuda_kernel_compiles_for_its_architectures_with_the_instructions_it_promises(
    results, slug
):
    checks = results[slug]
    architectures = {f"compile {name}" for name in KERNELS[slug].architectures}
    assert architectures == {check for check in checks if check.startswith("compile")}
    for check in architectures:
        assert checks[check].passed, checks[check].detail
        assert "no spills" in checks[check].detail


def test_the_fp4_kernel_promises_the_hardware_conversion():
    assert any("E2M1" in p for p in KERNELS["nvfp4-quantize-cuda"].expect_sass["sm_100a"])
