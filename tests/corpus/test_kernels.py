"""Every kernel of the shipped corpus passes `kb verify`; a missing tool fails, never skips."""

import itertools
from concurrent.futures import ThreadPoolExecutor

import pytest
from recorded import CORPUS, DAYS, RecordedResults, sampled, today
from support import VERIFIED

from kb.corpus.loader import load_shipped_corpus
from kb.verify import CheckResult, verify_corpus
from kb.verify.cache import ResultCache

KERNELS = {kernel.entry.slug: kernel.entry for kernel in load_shipped_corpus().kernels}

# The first test runs those that are not recorded as they are: all take 200 s of processor time.
pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def results():
    """Every kernel: today's sample and what is not recorded run, the rest as it was recorded.

    In two runs side by side, since nothing else takes as long when all are verified.
    """
    sample = sampled(list(KERNELS), today())
    others = sorted(set(KERNELS) - set(sample))
    runs = [
        (others[::2], RecordedResults(VERIFIED)),
        (others[1::2], RecordedResults(VERIFIED)),
        (sample, ResultCache(VERIFIED)),
    ]
    found = {}
    with ThreadPoolExecutor(2) as pool:
        parts = pool.map(lambda run: verify_corpus(CORPUS, only=run[0], cache=run[1]), runs)
        for result in itertools.chain.from_iterable(parts):
            found.setdefault(result.slug, {})[result.check] = result
    return found


def test_every_kernel_is_verified_anew_within_some_days():
    samples = [sampled(list(KERNELS), day) for day in range(DAYS)]
    assert sorted(itertools.chain(*samples)) == sorted(KERNELS)
    assert all(samples)


def test_results_that_are_not_recorded_under_a_digest_are_not_made_up(tmp_path):
    results = RecordedResults(tmp_path)
    assert results.read("0" * 64) is None
    results.write("0" * 64, [CheckResult("a", "result", True, "4 cases agree", 1.0)])
    assert [each.slug for each in results.read("0" * 64)] == ["a"]


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
