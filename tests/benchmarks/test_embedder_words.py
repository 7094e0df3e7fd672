"""What a model reads that was trained on words: names apart, marks gone, operators kept."""

import pytest

from benchmarks.embedder.training.words import words_of


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("fused_moe_kernel(a_ptr, b_ptr)", "fused moe kernel a ptr b ptr"),
        ("FusedMoEKernel", "Fused Mo E Kernel"),
        ("HTTPServer::run()", "HTTP Server run"),
        ("x *= a[i] + 0.5f;", "x * a i + 0.5f"),
        ("cp.async.bulk", "cp async bulk"),
        ("a  <\n\tb", "a < b"),
        ("(){}[];", ""),
        ("plain words stay", "plain words stay"),
    ],
)
def test_marks_go_and_names_come_apart(text, words):
    assert words_of(text) == words
    assert words_of(words) == words
