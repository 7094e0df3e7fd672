"""What a model reads that was trained on words: names apart, marks gone, operators kept."""

import shutil

import numpy as np
import pytest

from kb.embedders.onnx import OnnxEmbedder
from kb.embedders.shipped import MODEL_FOLDER, RECORD_FILE
from kb.embedders.words import words_of


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


def test_a_model_of_words_reads_names_in_any_case_alike(tmp_path):
    for name, kind in (("words", "words"), ("text", "text")):
        shutil.copytree(MODEL_FOLDER, tmp_path / name)
        record = tmp_path / name / RECORD_FILE
        lines = [line for line in record.read_text().splitlines() if not line.startswith("reads")]
        at = next(row for row, line in enumerate(lines) if line.startswith("precision"))
        lines.insert(at, f'reads = "{kind}"')
        record.write_text("\n".join(lines) + "\n")
    words, text = OnnxEmbedder(tmp_path / "words"), OnnxEmbedder(tmp_path / "text")
    snake, spoken = "def row_sum(x_ptr): return x_ptr[0]", "def row sum x ptr return x ptr 0"
    assert np.array_equal(words.embed_query(snake), words.embed_query(spoken))
    assert np.array_equal(words.embed_query(snake), text.embed_query(spoken))
    assert text.embed_query(snake) @ text.embed_query(spoken) < 0.9999
    assert np.linalg.norm(words.embed_query("{}")) == pytest.approx(1, abs=1e-5)
