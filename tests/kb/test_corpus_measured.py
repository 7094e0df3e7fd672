"""What is claimed of a technique is what it alone gained; the rest is the kernel's."""

from kb.corpus.loader import load_shipped_corpus
from kb.corpus.measured import (
    BASELINES,
    is_slow,
    kernel_line,
    own_records,
    ranked_records,
    technique_line,
)

CORPUS = load_shipped_corpus()
KERNELS = {each.entry.slug: each.entry for each in CORPUS.kernels}
TECHNIQUES = {each.entry.slug: each.entry for each in CORPUS.techniques}


def test_a_technique_is_credited_only_by_pairs_that_differ_in_it_alone():
    for technique in TECHNIQUES.values():
        # The entry holds no others, so that no surface can show them.
        assert own_records(technique, KERNELS) == list(technique.verified), technique.slug
        for record in technique.verified:
            shown = KERNELS[record.shape.partition(" ")[0]]
            plain = KERNELS[record.baseline]
            assert shown.derived_from == plain.slug
            assert set(shown.techniques) - set(plain.techniques) == {technique.slug}
            assert not is_slow(plain)


def test_a_technique_whose_kernels_combine_it_with_others_says_so():
    assert "not measured alone" in technique_line(TECHNIQUES["loop-unrolling"], KERNELS)
    assert technique_line(TECHNIQUES["loop-unrolling"], {}) == "not measured"


def test_a_kernel_is_compared_with_pytorch_and_with_what_it_is_derived_from():
    for kernel in KERNELS.values():
        others = {each.baseline for each in kernel.verified} - set(BASELINES)
        assert others <= {kernel.derived_from}, kernel.slug


def test_a_kernel_is_headed_by_its_fastest_rival_and_never_by_a_slow_one():
    for kernel in KERNELS.values():
        if not kernel.verified:
            continue
        line = kernel_line(kernel, KERNELS)
        first, *rest = ranked_records(kernel, KERNELS)
        head = line.partition(": ")[2]
        assert head.startswith(f"{first.speedup:.2f}x over {first.baseline}"), line
        theirs = [each for each in (first, *rest) if each.baseline in BASELINES]
        assert first.speedup == min(each.speedup for each in theirs)
        if kernel.derived_from in KERNELS and is_slow(KERNELS[kernel.derived_from]):
            assert f"over {kernel.derived_from}" not in line
    quantize = kernel_line(KERNELS["nvfp4-quantize-emulated"], KERNELS)
    assert "x over torch.compile, " in quantize.partition(": ")[2]
    assert any(is_slow(kernel) for kernel in KERNELS.values())
