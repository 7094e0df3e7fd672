"""Questions as users ask them find a kernel of their operator among the first three results."""

import pytest

from kb.search.opening import open_searcher

QUESTIONS = {
    "attention-paged": [
        "decode attention over a paged KV cache with a block table",
        "my paged attention is slow because one sequence is much longer than the others",
    ],
    "attention-mla": [
        "mla attention deepseek",
        "Triton kernel for DeepSeek MLA decode with absorbed weights",
        "avoid reading the compressed KV latent twice, as keys and as values",
    ],
    "attention-varlen": [
        "flash attention with cu_seqlens and no padding in Triton",
        "ragged causal attention has a long tail",
    ],
    "lora": [
        "lora sgmv",
        "how do I apply LoRA adapters when every request in the batch uses a different adapter",
    ],
    "moe-routing": [
        "fused top-k softmax gating kernel for a mixture of experts router",
        "compute expert counts and the sorted position of each token for MoE without a sort",
    ],
    "kv-cache": [
        "write new keys and values into a paged KV cache by slot mapping",
        "Fuse RoPE with reshape_and_cache and store the KV cache in fp8",
    ],
    "sampling": [
        "top-p sampling from logits without sorting the vocabulary",
        "sort in nucleus sampling takes most of the decode step",
    ],
    "optimizer": [
        "adam optimizer fused multi tensor",
        "AdamW for 300 parameter tensors in one launch",
    ],
    "stochastic-rounding": [
        "bf16 stochastic rounding",
        "stochastic rounding of fp32 to bf16 in Triton",
    ],
    "rmsnorm-backward": [
        "rmsnorm bwd is slow because of atomic_add on dweight",
        "RMSNorm backward dx and dweight",
    ],
    "layernorm-backward": [
        "layernorm backward kernel with dgamma and dbeta",
        "gradients of LayerNorm: dx, dweight and dbias in one pass",
    ],
    "dropout": [
        "dropout with residual add without storing the mask",
    ],
    "embedding-backward": [
        "embedding backward with hot tokens",
        "deterministic gradient of an embedding with many duplicate indices",
    ],
    "ssm": [
        "how do I write the Mamba selective scan in Triton",
        "selective scan is slow for batch 1 and a long sequence",
    ],
    "linear-attention": [
        "chunked gated linear attention with tensor cores",
        "my recurrent linear attention kernel is slow at prefill",
    ],
    "sparse-matmul": [
        "CSR sparse times dense with power-law rows",
        "SpMM where one row has most nonzeros",
    ],
    "segment-reduction": [
        "jagged tensors",
        "mean of variable-length segments with offsets",
        "one long segment makes my segment sum slow",
    ],
    "hadamard": [
        "fast Walsh-Hadamard transform before FP8 quantization",
        "QuaRot rotation kernel",
    ],
    "fused-linear-cross-entropy": [
        "lm_head loss without materialising logits",
        "out of memory in cross entropy with a 128k vocabulary",
    ],
}


@pytest.fixture(scope="module")
def searcher(shipped_index):
    return open_searcher(shipped_index)


@pytest.mark.parametrize("op", QUESTIONS)
def test_a_question_finds_a_kernel_of_its_operator(op, searcher):
    kernels = searcher.generation.kernels.values()
    paths = {record.path for record in kernels if record.entry.op == op}
    for question in QUESTIONS[op]:
        found = searcher.search(question, 3).results
        assert paths & {result.path for result in found}, question
