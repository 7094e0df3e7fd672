"""Static facts, read from what nvcc really made."""

import textwrap

import pytest

from judge.profile.sass import classify, functions_in, mix_of, opcode_classes, width_bits
from judge.profile.static import facts_for, facts_of, kernel_name, source_name
from kb import nvcc
from kb.corpus.loader import shipped_corpus

COPIES = """
__global__ void scalar_copy(const float* __restrict__ a, float* __restrict__ b, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) b[i] = a[i];
}
__global__ void vector_copy(const float4* __restrict__ a, float4* __restrict__ b, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) b[i] = a[i];
}
namespace deep {
template <int N>
__global__ void indexed(const float* a, float* b, const int* chosen) {
    __shared__ float s[256];
    float t[N];
    for (int i = 0; i < N; i++) t[i] = a[i * threadIdx.x];
    s[threadIdx.x] = a[threadIdx.x];
    __syncthreads();
    for (int i = 0; i < N; i++) b[i] = t[chosen[i]] + s[255 - threadIdx.x];
}
template __global__ void indexed<64>(const float*, float*, const int*);
}
__global__ void __launch_bounds__(1024) crowded(const float* a, float* b) {
    float t[96];
#pragma unroll
    for (int i = 0; i < 96; i++) t[i] = a[i * 1024 + threadIdx.x];
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 96; i++) b[i * 1024 + threadIdx.x] = t[i] * t[95 - i] + t[(i * 7) % 96];
}
"""


@pytest.fixture(scope="module")
def facts(tmp_path_factory):
    """Facts of the functions above for sm_90a, by name."""
    source = tmp_path_factory.mktemp("copies") / "copies.cu"
    source.write_text(textwrap.dedent(COPIES))
    cubin = nvcc.compile_cubin(source, "sm_90a")
    return {each.name: each for each in facts_of(cubin, "nvcc", "sm_90a")}


def test_a_scalar_copy_moves_32_bits_an_instruction_and_a_vectorised_one_128(facts):
    scalar, vector = facts["scalar_copy"], facts["vector_copy"]
    assert (scalar.widths["global_load"], scalar.widths["global_store"]) == ({32: 1}, {32: 1})
    assert (vector.widths["global_load"], vector.widths["global_store"]) == ({128: 1}, {128: 1})
    assert "shared_load" not in scalar.widths


def test_an_array_indexed_at_run_time_is_a_stack_frame_but_no_spill(facts):
    indexed = facts["indexed"]
    assert indexed.stack_bytes == 64 * 4
    assert (indexed.spill_store_bytes, indexed.spill_load_bytes) == (0, 0)
    assert indexed.mix["local_store"] > 0
    assert indexed.mix["local_load"] == 64
    assert indexed.shared_bytes == 256 * 4
    assert indexed.mix["barrier"] == 1
    assert indexed.widths["shared_store"] == {32: 1}


def test_registers_that_do_not_fit_are_spilled_and_ptxas_says_how_much(facts):
    crowded = facts["crowded"]
    assert crowded.registers <= 65536 // 1024
    assert crowded.spill_store_bytes > 0
    assert crowded.spill_load_bytes >= crowded.spill_store_bytes
    assert facts["vector_copy"].spill_store_bytes == 0


def test_local_traffic_stands_in_for_ptxas_report_where_there_is_none(facts, tmp_path):
    source = tmp_path / "copies.cu"
    source.write_text(textwrap.dedent(COPIES))
    alone = tmp_path / "alone.cubin"
    alone.write_bytes(nvcc.compile_cubin(source, "sm_90a").read_bytes())
    found = {each.name: each for each in facts_of(alone, "nvcc", "sm_90a")}
    reported, counted = facts["crowded"], found["crowded"]
    assert counted.spill_store_bytes == reported.spill_store_bytes
    assert counted.spill_load_bytes == reported.spill_load_bytes


def test_the_corpus_fp4_kernel_converts_in_hardware_on_sm_100a_only():
    source = shipped_corpus() / "kernels" / "cuda" / "nvfp4_quantize.cu"
    new = facts_of(nvcc.compile_cubin(source, "sm_100a"), "nvcc", "sm_100a")
    assert all(each.mix["convert_fp4"] > 0 for each in new)
    assert all(any("E2M1" in name for name in each.opcodes) for each in new)
    assert all(max(each.widths["global_load"]) == 128 for each in new)
    old = facts_of(nvcc.compile_cubin(source, "sm_90a"), "nvcc", "sm_90a")
    assert len(old) == len(new)
    assert not any("convert_fp4" in each.mix for each in old)


@pytest.mark.parametrize(
    ("instruction", "kind", "bits"),
    [
        ("LDG.E.128.CONSTANT", "global_load", 128),
        ("LDG.E.U8", "global_load", 8),
        ("LDG.E.EF.64", "global_load", 64),
        ("LDG.E.ENL2.256", "global_load", 256),
        ("STG.E.U16", "global_store", 16),
        ("LDSM.16.M88.4", "shared_load", 128),
        ("LDSM.16.MT88.2", "shared_load", 64),
        ("STSM.16.M88", "shared_store", 32),
        ("LDGSTS.E.BYPASS.128", "async_copy", 128),
        ("STL", "local_store", 32),
    ],
)
def test_widths_are_read_from_the_modifiers(instruction, kind, bits):
    found = classify(instruction)
    assert found is not None
    assert (found.name, found.width) == (kind, True)
    assert width_bits(instruction) == bits


@pytest.mark.parametrize(
    ("instruction", "kind"),
    [
        ("HGMMA.64x256x16.F32.BF16", "wgmma"),
        ("UTCHMMA", "tcgen05"),
        ("HMMA.16816.F32.BF16", "mma"),
        ("HFMA2.MMA", "fp16"),
        ("F2FP.SATFINITE.E2M1.F32.PACK_AB_MERGE_C", "convert_fp4"),
        ("F2FP.SATFINITE.E4M3.F32.PACK_AB_MERGE_C", "convert_fp8"),
        ("F2FP.BF16.F32.PACK_AB", "convert"),
        ("UTMALDG.2D", "tma"),
        ("SYNCS.PHASECHK.TRANS64.TRYWAIT", "mbarrier"),
        ("IMAD.MOV.U32", None),
    ],
)
def test_classes_are_those_of_the_opcode_table(instruction, kind):
    found = classify(instruction)
    assert (found.name if found else None) == kind


def test_no_opcode_is_in_two_classes_unless_a_modifier_tells_them_apart():
    seen: dict[str, str] = {}
    for kind in opcode_classes():
        for opcode in kind.opcodes:
            if opcode in seen:
                first = next(each for each in opcode_classes() if each.name == seen[opcode])
                assert first.modifier, f"{opcode} is in {first.name} and {kind.name}"
            seen.setdefault(opcode, kind.name)


def test_a_listing_of_nvdisasm_is_read_as_well_and_padding_does_not_count():
    listing = (
        '\t.section\t.text.copy,"ax",@progbits\n'
        "        /*0000*/                   LDG.E.64 R2, desc[UR4][R2.64] ;\n"
        "        /*0010*/              @!P0 STG.E.64 desc[UR4][R4.64], R2 ;\n"
        "        /*0020*/             @!UP1 UIADD3 UR4, UR4, 0x1, URZ ;\n"
        "        /*0030*/                   NOP ;\n"
    )
    [(name, instructions)] = functions_in(listing)
    assert name == "copy"
    mix = mix_of(instructions)
    assert mix.instructions == 3
    assert mix.mix == {"global_load": 1, "global_store": 1}


def test_names_are_brought_to_what_the_source_calls_the_function():
    assert source_name("_ZN4deep7indexedILi64EEEvPKfPfPKi") == "indexed"
    assert source_name("_Z11scalar_copyPKfPfi") == "scalar_copy"
    assert source_name("_matmul_kernel") == "_matmul_kernel"
    printed = "void at::native::<unnamed>::softmax<at::Tag<(int)4>, float>(T1 *, const T2 *, int)"
    assert kernel_name(printed) == "softmax"
    assert kernel_name("void deep::indexed<64>(const float *, float *, const int *)") == "indexed"
    assert kernel_name("_matmul_kernel") == "_matmul_kernel"


def test_of_several_variants_the_one_with_the_launched_registers_is_taken(facts):
    one = facts["vector_copy"]
    other = one.model_copy(update={"registers": one.registers + 8})
    assert facts_for("vector_copy(const float4 *)", one.registers, [one, other]) is one
    assert facts_for("vector_copy(const float4 *)", 255, [one, other]) is None
    assert facts_for("vector_copy(const float4 *)", None, [one]) is one
    assert facts_for("torch_kernel()", 16, [one]) is None


def test_every_class_says_what_it_is():
    assert all(kind.label and kind.opcodes for kind in opcode_classes())
    assert len({kind.name for kind in opcode_classes()}) == len(opcode_classes())
