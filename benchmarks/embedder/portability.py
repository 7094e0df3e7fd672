"""Do vectors agree between processors? ``python -m benchmarks.embedder.portability``.

Vectors that ship with the corpus are compared with queries embedded on the user's machine, and
onnxruntime multiplies int8 by other instructions where there is no VNNI. Each variant embeds the
same texts on this processor and on one that QEMU emulates (``apt install qemu-user``).
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.embedder import report
from benchmarks.embedder.variants import FLOAT32, SHIPPED, VARIANTS
from kb.embedders.base import Vectors
from kb.embedders.onnx import OnnxEmbedder

COMMAND = "python -m benchmarks.embedder.portability"
QEMU = "qemu-x86_64"
PROCESSOR = "Haswell"  # AVX2 without VNNI or AVX-512: servers up to 2016, and AMD's up to 2021
TEXTS = 8
MAX_CHARACTERS = 250  # emulation is some hundred times slower
TEXTS_FILE = "texts.npy"
VECTORS_FILE = "vectors.npy"


def main() -> None:
    if shutil.which(QEMU) is None:
        raise SystemExit(f"{QEMU} is missing: apt install qemu-user")
    from benchmarks.embedder.export import write_model
    from benchmarks.embedder.mining import chunks

    machine = report.machine()
    texts = [text[:MAX_CHARACTERS] for text in chunks(TEXTS)]
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        np.save(folder / TEXTS_FILE, np.array(texts))
        for name in VARIANTS:
            write_model(folder / name, name)
        here = {name: OnnxEmbedder(folder / name).embed_documents(texts) for name in VARIANTS}
        subprocess.run(
            [QEMU, "-cpu", PROCESSOR, sys.executable, "-m", __spec__.name, scratch],
            check=True,
            stderr=subprocess.DEVNULL,  # a line for each feature that QEMU does not emulate
            env=os.environ | {"OPENBLAS_CORETYPE": PROCESSOR, "OPENBLAS_NUM_THREADS": "1"},
        )
        there = {name: np.load(folder / name / VECTORS_FILE) for name in VARIANTS}
    rows = [
        {
            "variant": name,
            "between": smallest_cosine(here[name], there[name]),
            "here_to_float32": smallest_cosine(here[name], here[FLOAT32]),
            "there_to_float32": smallest_cosine(there[name], here[FLOAT32]),
        }
        for name in VARIANTS
    ]
    lines = [
        [f"**{row['variant']}**" if row["variant"] == SHIPPED else str(row["variant"])]
        + [f"{row[key]:.4f}" for key in ("between", "here_to_float32", "there_to_float32")]
        for row in rows
    ]
    header = ["variant", "between the two", "this one to float32", f"{PROCESSOR} to float32"]
    text = (
        f"Smallest cosine over {TEXTS} texts, between this processor and an emulated {PROCESSOR} "
        f"(AVX2, no VNNI), and of each to float32.\n\n{report.table(header, lines)}"
    )
    report.write("portability", COMMAND, text, {"machine": machine, "variants": rows})


def smallest_cosine(left: Vectors, right: Vectors) -> float:
    """Return the smallest inner product of rows."""
    return float((left * right).sum(axis=1).min())


def emulated(folder: Path) -> None:
    """Embed the texts left in `folder` with each variant; runs under emulation."""
    texts = [str(text) for text in np.load(folder / TEXTS_FILE)]
    for name in VARIANTS:
        vectors = OnnxEmbedder(folder / name, workers=1).embed_documents(texts)
        np.save(folder / name / VECTORS_FILE, vectors)
        print(f"{name}: embedded on {PROCESSOR}", flush=True)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        emulated(Path(sys.argv[1]))
    else:
        main()
