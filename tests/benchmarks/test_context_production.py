"""Contexts for production code keep showing kernels that do the heart of it."""

from benchmarks.context.production import PROBLEMS, read_grades, shown
from kb.search.opening import open_searcher


def test_every_problem_has_a_grade_and_every_grade_a_kernel(shipped_index):
    ops = {record.entry.op for record in open_searcher(shipped_index).generation.kernels.values()}
    graded = read_grades()
    assert {op for grades in graded.values() for op in grades} <= ops
    files = {
        file.relative_to(PROBLEMS).with_suffix("").as_posix() for file in PROBLEMS.rglob("*.py")
    }
    assert set(graded) <= files
    assert len(files - set(graded)) <= 3  # for which the corpus has nothing


def test_contexts_show_kernels_that_do_the_heart_of_a_problem(shipped_index):
    examples = list(shown("held_out", open_searcher(shipped_index), 6000))
    assert sum(example.grade == 2 for example in examples) >= 20
    assert sum(example.grade >= 1 for example in examples) >= 22


def test_small_contexts_show_short_kernels_that_do_the_heart_of_a_problem(shipped_index):
    examples = list(shown("held_out", open_searcher(shipped_index), 2000))
    assert sum(example.grade == 2 for example in examples) >= 15
    slugs = {example.slug for example in examples}
    assert {"layernorm-backward-fused", "sampling-bisected", "attention-mla-compact"} <= slugs
