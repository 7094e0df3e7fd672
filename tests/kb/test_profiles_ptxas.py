"""What `ptxas -v` prints is read kernel by kernel."""

import time

from kb.profiles.ptxas import is_ptxas, parse_ptxas

LOG = """
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function '_Z5smallPf' for 'sm_90a'
ptxas info    : Function properties for _Z5smallPf
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 24 registers, used 0 barriers, 360 bytes cmem[0]
ptxas info    : Compiling entry function '_Z4spmmPfi' for 'sm_90a'
ptxas info    : Function properties for _Z4spmmPfi
    1184 bytes stack frame, 1184 bytes spill stores, 2040 bytes spill loads
ptxas info    : Function properties for _Z6calledf
    8 bytes stack frame, 4 bytes spill stores, 4 bytes spill loads
ptxas info    : Used 255 registers, used 1 barriers, 49152 bytes smem, 380 bytes cmem[0]
"""


def test_each_kernel_has_its_own_figures():
    small, spmm = parse_ptxas(LOG)
    assert (small.function, small.registers, small.spill_bytes) == ("_Z5smallPf", 24, 0)
    assert (spmm.function, spmm.architecture, spmm.registers) == ("_Z4spmmPfi", "sm_90a", 255)
    assert (spmm.stack_bytes, spmm.spill_store_bytes, spmm.spill_load_bytes) == (1184, 1184, 2040)
    assert (small.shared_bytes, spmm.shared_bytes) == (0, 49152)


def test_lines_without_a_function_are_one_kernel():
    (kernel,) = parse_ptxas("\n".join(LOG.splitlines()[4:6]))
    assert (kernel.function, kernel.registers) == ("", 24)


def test_other_texts_are_no_log():
    assert is_ptxas(LOG)
    assert is_ptxas("8 bytes stack frame, 4 bytes spill stores, 4 bytes spill loads")
    assert not is_ptxas("==PROF== Connected")
    assert not is_ptxas('{"a": "ptxas info"}')
    assert parse_ptxas("ptxas info    : 0 bytes gmem") == []


def test_no_log_stalls_the_reader():
    started = time.process_time()
    for line in ("Function properties for ", "8 bytes stack frame, ", "'for 'sm_", "1+"):
        parse_ptxas((line * 50 + "\n") * 3000)
        parse_ptxas(line * 100_000)
    assert time.process_time() - started < 2.0
