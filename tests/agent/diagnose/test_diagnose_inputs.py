"""What a diagnosis reads: our profiles, ncu users' JSON, sources; and what it refuses."""

import json
import time

import pytest
from diagnose_cases import POOR_MATVEC, metrics, static

from agent.diagnose.inputs import read_evaluation, read_profile
from judge.profile.result import KernelProfile, Profile
from kb.errors import InvalidInputError
from kb.pasted.source import read_source

DRAM = "dram__throughput.avg.pct_of_peak_sustained_elapsed"


def kernel(name, share, **more):
    return KernelProfile(
        name=name,
        launches=1,
        time_ns=share * 1e6,
        share=share,
        metrics=metrics(POOR_MATVEC),
        **more,
    )


def profile(*kernels, **more):
    values = {"problem": "matvec.py", "kernel": "poor.py", "gpu": "NVIDIA H200"} | more
    return Profile(kernels=kernels, **values)


def test_our_own_profile_gives_the_kernel_that_takes_most_time():
    code = (static(name="fill"), static(name="matvec_kernel"))
    matvec = kernel("matvec_kernel", 0.96, missing=(DRAM,))
    given = profile(matvec, kernel("fill", 0.04), static=code)
    read = read_profile(given.model_dump_json(), "p.json")
    assert read.kernel == "matvec_kernel"
    assert read.metrics == metrics(POOR_MATVEC)
    assert read.gpu == "NVIDIA H200"
    assert read.share == 0.96
    assert read.static.name == "matvec_kernel"
    assert "fill 4%" in read.notes[0]
    assert "1 metrics are missing" in read.notes[1]


def test_a_profile_of_machine_code_alone_has_no_metrics():
    given = profile(static=(static(instructions=10), static(name="main", instructions=900)))
    read = read_profile(given.model_dump_json(), "p.json")
    assert read.metrics == {}
    assert read.static.name == "main"


def test_metrics_of_any_ncu_user_are_read_under_names_and_aliases():
    text = json.dumps({DRAM: 40, "stall_barrier": 3.5, "my_counter": 1})
    read = read_profile(text, "p.json")
    assert read.metrics[DRAM] == 40
    assert read.metrics["smsp__warp_issue_stalled_barrier_per_warp_active.pct"] == 3.5
    assert read.ignored == ("my_counter",)


def test_the_card_that_a_profile_names_is_the_one_of_the_roofs():
    name = "device__attribute_display_name"
    read = read_profile(json.dumps({DRAM: 40, name: "NVIDIA H100 80GB HBM3"}), "p.json")
    assert (read.gpu, read.architecture) == ("NVIDIA H100 80GB HBM3", "sm_90a")
    assert read.ignored == read.notes == ()
    other = read_profile(json.dumps({DRAM: 40, name: "NVIDIA X1"}), "p.json")
    assert other.gpu is None
    assert other.notes == ("the profile names a GPU that is not in the table of GPUs: 'NVIDIA X1'",)


PTXAS = """ptxas info    : Compiling entry function '_Z4spmmPfi' for 'sm_90a'
ptxas info    : Function properties for _Z4spmmPfi
    1184 bytes stack frame, 1184 bytes spill stores, 2040 bytes spill loads
ptxas info    : Used 255 registers, used 1 barriers, 49152 bytes smem
ptxas info    : Compiling entry function '_Z4fillPf' for 'sm_90a'
ptxas info    : Used 16 registers
"""


def test_a_log_of_ptxas_gives_the_kernel_that_spills():
    read = read_profile(PTXAS, "build.log")
    assert read.metrics == metrics(
        {"registers_per_thread": 255.0, "static_shared_mem_per_block": 49152.0}
    )
    assert (read.kernel, read.static.spill_store_bytes, read.static.spill_load_bytes) == (
        "spmm", 1184, 2040,
    )  # fmt: skip
    assert "only an ncu profile shows" in read.notes[0]
    assert "fill" in read.notes[1]
    assert read_profile(PTXAS, "build.log", "fill").static.registers == 16
    with pytest.raises(
        InvalidInputError, match="without registers: give the output of `nvcc -Xptxas -v`"
    ):
        read_profile("ptxas info    : 0 bytes gmem", "build.log")


@pytest.mark.parametrize("value", [None, "n/a", "N/A", True, [1], {"a": 1}])
def test_a_value_that_is_no_number_is_missing_and_not_zero(value):
    text = json.dumps({"dram_throughput": value, "sm_throughput": 5})
    assert list(read_profile(text, "p.json").metrics.values()) == [5.0]


def test_infinite_values_are_missing():
    assert read_profile('{"duration": Infinity, "sm_throughput": NaN}', "p").metrics == {}


def test_several_kernels_give_the_longest():
    text = json.dumps({"a": {"duration": 10, "sm_throughput": 1}, "b": {"duration": 90}})
    read = read_profile(text, "p.json")
    assert (read.kernel, read.share) == ("b", 0.9)
    assert "b takes 90% of the time" in read.notes[0]
    one = read_profile(json.dumps({"a": {"sm_throughput": 1}}), "p.json")
    assert one.kernel == "a"
    some = read_profile('{"a": {"sm_throughput": 1}, "b": {"duration": 2}}', "p.json")
    assert some.kernel == "a"
    assert "a comes first, and not all kernels have a duration" in some.notes[0]


def test_a_kernel_of_several_is_chosen_by_its_name():
    text = json.dumps({"void gemm<4>(int)": {"duration": 10}, "copy": {"duration": 90}})
    read = read_profile(text, "p.json", "gemm")
    assert (read.kernel, read.share, read.notes) == ("void gemm<4>(int)", 0.1, ())
    with pytest.raises(InvalidInputError, match=r"no kernel called 'x': it has void gemm<4>"):
        read_profile(text, "p.json", "x")
    given = profile(kernel("matvec_kernel", 0.96), kernel("fill", 0.04)).model_dump_json()
    assert read_profile(given, "p.json", "fill").share == 0.04


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "p.json is not JSON or `ncu --csv` output"),
        ("[1, 2]", "must hold one JSON object"),
        ("{}", "has no metrics"),
        ('{"dram_throughput": -1}', "p.json: dram_throughput is -1: a metric cannot be negative"),
        ('{"problem": "x", "kernels": []}', "is not a valid profile: kernel: is missing"),
        ("[" * 100_000, "p.json is not JSON"),
    ],
)
def test_what_is_no_profile_is_refused_in_one_line(text, says):
    with pytest.raises(InvalidInputError) as raised:
        read_profile(text, "p.json")
    assert says in str(raised.value)
    assert len(str(raised.value)) < 400


def test_what_is_no_evaluation_is_refused():
    with pytest.raises(InvalidInputError, match=r"e\.json is not a valid evaluation"):
        read_evaluation('{"verdict": "correct"}', "e.json")


TRITON = """
import triton
import triton.language as tl

WARPS = 4

@triton.jit
def norm(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    row = x_ptr + tl.program_id(0) * n
    total = 0.0
    for start in range(0, n, BLOCK):
        v = tl.load(row + start + tl.arange(0, BLOCK))
        total += tl.sum(v * v)
    for start in range(0, n, BLOCK):
        v = tl.load(row + start + tl.arange(0, BLOCK))
        tl.store(y_ptr + start + tl.arange(0, BLOCK), v * total)

def kernel_function(x):
    norm[(8,)](x, y, 100, BLOCK=64, num_warps=WARPS)
"""


def test_two_passes_of_a_triton_kernel_over_one_pointer_are_seen():
    (again,) = read_source(TRITON).rereads
    assert (again.array, again.passes, again.where) == ("x_ptr", 2, "loops")
    once = TRITON.replace(
        "v = tl.load(row + start + tl.arange(0, BLOCK))\n        tl.store", "tl.store"
    )
    assert read_source(once).rereads == ()
    head, _, tail = TRITON.partition("for start in range(0, n, BLOCK):")
    second = "for start in range(0, n, BLOCK):"
    backwards = tail.replace(second, "for start in range(n - BLOCK, -1, -BLOCK):")
    assert read_source(head + second + backwards).rereads == (again,)
    rest = tail.replace(second, "for start in range(n // 8 * 8, n, BLOCK):")
    assert read_source(head + second + rest).rereads == ()
    moving = "row += BLOCK\n        total += tl.sum(v * v)"
    assert read_source(TRITON.replace("total += tl.sum(v * v)", moving, 1)).rereads == ()


def test_a_triton_tile_smaller_than_its_block_is_seen():
    (tile,) = read_source(TRITON).idle
    assert (tile.busy, tile.threads) == (64, 128)
    assert read_source(TRITON.replace("BLOCK=64", "BLOCK=128")).idle == ()
    assert read_source(TRITON.replace("BLOCK=64", "BLOCK=size()")).idle == ()
    assert read_source(TRITON.replace("WARPS = 4", "WARPS = 1")).idle == ()


def test_two_loads_of_different_pointers_are_no_reread():
    other = TRITON.replace("x_ptr, y_ptr", "x_ptr, z_ptr, y_ptr").replace(
        "v = tl.load(row + start + tl.arange(0, BLOCK))\n        tl.store",
        "v = tl.load(z_ptr + start + tl.arange(0, BLOCK))\n        tl.store",
    )
    assert read_source(other).rereads == ()


GUARD = """
#define ROWS 48
__global__ void f(const float* x, float* y) {
  // for (int i = threadIdx.x; i < 8; i += blockDim.x) a comment shows nothing
  if (threadIdx.x < 32) { y[0] = x[0]; }
  if (threadIdx.x < ROWS) { y[threadIdx.x] = x[threadIdx.x]; }
}
void run() { f<<<10, 128>>>(x, y); }
"""


def test_a_cuda_guard_below_the_block_is_seen_and_one_warp_is_not():
    facts = read_source(GUARD)
    assert facts.language == "cuda"
    assert [(each.busy, each.threads) for each in facts.idle] == [(48, 128)]


@pytest.mark.parametrize(
    "text",
    ["def broken(:\n", "\x00", "", "__global__ void f(", "__global__ void f() {" + "{" * 5000],
)
def test_text_that_cannot_be_parsed_shows_nothing(text):
    facts = read_source(text)
    assert facts.rereads == ()
    assert facts.idle == ()


N = 40_000
HOSTILE = {
    "calls": "__global__ " + "a(" * N,
    "many": "__global__ " * N,
    "reads": "__global__ void f(float *x) { x[" + "b[c]" * N,
    "constants": "__global__ " + "const int a = " * (N // 8),
    "comments": "__global__ " + "/*" * N,
    "launches": "__global__ " + "<<<" * N + "," * N,
    "pointers": "__global__ void f(" + "* a " * N + ") {",
    "derived": "__global__ void f(float *x) {" + "* a =" * N + "}",
    "defines": "__global__\n" + "\n#define " * (N // 8),
    "kernels": "__global__ void f(float *x) {" * (N // 20),
    "nested": "x = " + "(" * 5000,
    "minus": "x = " + "-" * N + "1",
    "large": "__global__ void f(float *x) {" * N,
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_no_text_stalls_the_reader(text):
    started = time.process_time()
    read_source(text)
    assert time.process_time() - started < 2.0


def test_formats_and_matrix_instructions_are_recognised():
    assert read_source("x = tl.dot(a, b)").matrix_instructions
    assert not read_source("x = dot(a, b)").matrix_instructions
    assert read_source("# quantize to nvfp4").fp4
    assert not read_source("def softmax(x): ...").fp4
