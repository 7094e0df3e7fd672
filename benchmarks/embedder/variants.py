"""The precisions that were compared, by name, and the one that ships."""

from benchmarks.embedder.graph import Plan
from benchmarks.embedder.quantize import Precision

FLOAT32 = "float32"
# The fastest of those whose vectors agree between processors as well as with float32
# (results/precision.md, results/portability.md). Per-column int8 is faster, but has one scale for
# all the activations of a run, which the widest of them sets, and saturates where there is no VNNI.
SHIPPED = "int8 per block of 64"

VARIANTS: dict[str, Plan] = {
    FLOAT32: Plan.uniform(Precision.FLOAT32),
    "int8 per tensor": Plan.uniform(Precision.TENSOR_INT8),
    "int8 per column": Plan.uniform(Precision.COLUMN_INT8),
    "int8 per column, FFN output float32": Plan(
        Precision.COLUMN_INT8,
        Precision.COLUMN_INT8,
        Precision.COLUMN_INT8,
        Precision.FLOAT32,
        word_embeddings_int8=False,
    ),
    "int8 per column, FFN output weights only": Plan(
        Precision.COLUMN_INT8,
        Precision.COLUMN_INT8,
        Precision.COLUMN_INT8,
        Precision.WEIGHT_INT8,
        word_embeddings_int8=True,
    ),
    "int8 per column, FFN output per block of 64": Plan(
        Precision.COLUMN_INT8,
        Precision.COLUMN_INT8,
        Precision.COLUMN_INT8,
        Precision.BLOCK_INT8,
        word_embeddings_int8=True,
    ),
    "int8 weights only": Plan.uniform(Precision.WEIGHT_INT8),
    "int8 per block of 32": Plan.uniform(Precision.BLOCK_INT8, block=32),
    SHIPPED: Plan.uniform(Precision.BLOCK_INT8, block=64),
    "int8 per block of 128": Plan.uniform(Precision.BLOCK_INT8, block=128),
}
