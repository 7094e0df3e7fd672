"""What the syntax-tree checks look for, as tables of names."""

# Reading what is none of the kernel's business: no honest kernel needs it.
FORBIDDEN_READS = {
    "gc.get_objects": "lists every live object, the reference's tensors among them",
    "gc.get_referrers": "finds objects that refer to another one",
    "gc.get_referents": "finds objects that another one refers to",
    "sys._getframe": "reads the caller's frame",
    "sys._current_frames": "reads other threads' frames",
    "inspect.stack": "reads the callers' frames",
    "inspect.trace": "reads the callers' frames",
    "inspect.currentframe": "reads the caller's frame",
    "inspect.getouterframes": "reads the callers' frames",
    "inspect.getinnerframes": "reads the callers' frames",
    "traceback.walk_stack": "walks through the callers' frames",
    "traceback.StackSummary": "walks through the callers' frames",
    "sys.settrace": "watches the judge's calls",
    "sys.setprofile": "watches the judge's calls",
    "threading.settrace": "watches the judge's calls",
    "sys.addaudithook": "watches the judge's calls",
    "ctypes.pythonapi": "reaches into the interpreter",
    "torch.utils._python_dispatch.TorchDispatchMode": "intercepts the judge's operators",
    "torch.overrides.TorchFunctionMode": "intercepts the judge's operators",
}
FRAME_ATTRIBUTES = frozenset(
    {"f_back", "f_locals", "f_globals", "f_builtins", "tb_frame", "tb_next", "gi_frame", "cr_frame",
     "ag_frame"}
)  # fmt: skip
# What a function remembers of where it was made: the judge's own state, where it is the judge's.
CLOSURE_ATTRIBUTES = frozenset({"__closure__", "cell_contents"})
# Assigning below these replaces what the judge measures or compares with.
PROTECTED = (
    "torch", "triton", "time", "builtins", "math", "numpy", "os", "ctypes", "judge", "agent", "kb",
    "json", "pydantic", "io", "mmap", "struct", "inspect", "gc", "threading", "importlib",
)  # fmt: skip
# Attributes that nothing but a clock has.
CLOCK_ATTRIBUTES = frozenset(
    {"elapsed_time", "perf_counter", "perf_counter_ns", "monotonic_ns", "process_time"}
)
# ... except settings, and Triton's language, where compatibility shims assign (`tl.tanh = ...`).
UNPROTECTED = (
    "torch.backends", "torch._dynamo.config", "torch._inductor.config", "triton.knobs",
    "torch.autograd.set_detect_anomaly", "triton.language",
)  # fmt: skip
