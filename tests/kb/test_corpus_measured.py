"""What is claimed of a technique is what it alone gained; the rest is the kernel's."""

from kb.corpus.loader import load_corpus, shipped_corpus
from kb.corpus.measured import entry_line, is_slow, kernel_line, own_records, technique_line

CORPUS = load_corpus(shipped_corpus())
KERNELS = {each.entry.slug: each.entry for each in CORPUS.kernels}
TECHNIQUES = {each.entry.slug: each.entry for each in CORPUS.techniques}


def test_a_technique_is_credited_only_by_pairs_that_differ_in_it_alone():
    for technique in TECHNIQUES.values():
        for record in own_records(technique, KERNELS):
            shown = KERNELS[record.shape.partition(" ")[0]]
            plain = KERNELS[record.baseline]
            assert set(shown.techniques) - set(plain.techniques) == {technique.slug}
            assert not is_slow(plain)


def test_what_others_gained_against_weak_baselines_is_claimed_no_more():
    wrong = {"loop-unrolling": "218.60x", "vectorized-access": "20.54x",
             "structural-sparsity": "492.5", "fast-math": "2.68x"}  # fmt: skip
    for slug, figure in wrong.items():
        assert figure not in technique_line(TECHNIQUES[slug], KERNELS), slug


def test_a_kernel_is_headed_by_pytorch_and_a_slow_baseline_is_left_out():
    for kernel in KERNELS.values():
        line = kernel_line(kernel, KERNELS)
        over = [each.baseline for each in kernel.verified]
        if "eager" in over or "torch.compile" in over:
            first = line.partition("x over ")[2]
            assert first.startswith(("eager", "torch.compile")), line
    slow = [slug for slug, kernel in KERNELS.items() if is_slow(kernel)]
    assert slow
    for kernel in KERNELS.values():
        if kernel.derived_from in slow and any(r.baseline == "eager" for r in kernel.verified):
            assert f"over {kernel.derived_from}" not in entry_line(kernel, KERNELS)
