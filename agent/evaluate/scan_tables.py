"""What the syntax-tree checks look for, as tables of names."""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Calls of torch that allocate, describe, move or configure and leave the work to the kernel.
TORCH_HELPERS = _words(
    """
    empty empty_like empty_strided zeros zeros_like ones ones_like full full_like new_empty tensor
    as_tensor as_strided from_file from_numpy frombuffer arange linspace eye rand randn randint
    rand_like randn_like randperm scalar_tensor
    Tensor Size Generator device dtype finfo iinfo is_tensor is_floating_point is_complex numel
    result_type promote_types can_cast broadcast_shapes broadcast_tensors broadcast_to
    set_default_dtype get_default_dtype manual_seed seed initial_seed no_grad inference_mode
    enable_grad set_grad_enabled is_grad_enabled is_inference_mode_enabled
    view_as_real view_as_complex reshape permute transpose t squeeze unsqueeze flatten unflatten
    movedim moveaxis swapaxes chunk split unbind narrow select expand_copy atleast_1d atleast_2d
    cat concat stack clone detach empty_quantized get_device
    set_float32_matmul_precision get_float32_matmul_precision typename is_storage
    use_deterministic_algorithms are_deterministic_algorithms_enabled set_num_threads
    """
)
# Namespaces of torch whose calls compute nothing by themselves.
TORCH_HELPER_SPACES = (
    "torch.cuda", "torch.backends", "torch.autograd", "torch.utils", "torch.library",
    "torch.nn.Parameter", "torch.nn.Module", "torch.nn.init", "torch.nn.parameter",
    "torch.distributed", "torch.testing", "torch.version", "torch.random", "torch.amp",
    "torch.compiler", "torch.types", "torch.accelerator", "torch.profiler", "torch.nn.modules",
    "torch._dynamo", "torch._C", "torch.dtype", "torch.Tensor", "torch.jit.ignore",
)  # fmt: skip
# Below a helper's namespace, but work all the same.
TORCH_WORK_SPACES = ("torch.nn.functional", "torch.ops", "torch.linalg", "torch.fft",
                     "torch.special", "torch._C._nn", "torch.sparse", "torch.ops.aten")  # fmt: skip
# Functions of torch.nn.functional that only pad or reshape.
FUNCTIONAL_HELPERS = frozenset({"pad", "unfold", "fold"})
# Methods that compute, whatever object has them: what a tensor shares with other types is left out
# (sets have `add`, loggers `log`, lists `sort`).
TENSOR_WORK_METHODS = _words(
    """
    matmul mm bmm addmm addmm_ baddbmm baddbmm_ addbmm mv addmv dot vdot inner outer ger einsum
    sum mean std var prod amax amin max min argmax argmin softmax log_softmax logsumexp norm
    cumsum cumprod cummax cummin median nansum nanmean
    exp exp2 log2 log10 log1p expm1 sqrt rsqrt pow square reciprocal tanh sigmoid relu relu_
    sin cos tan erf erfinv sigmoid_ tanh_ exp_ sqrt_ rsqrt_ hardtanh gelu
    mul mul_ div div_ add_ sub sub_ addcmul addcmul_ addcdiv addcdiv_ clamp clamp_ clip lerp
    lerp_ topk argsort scatter_add scatter_add_ index_add index_add_ masked_fill masked_fill_
    conv1d conv2d conv3d
    """
)
# Reading what is none of the kernel's business: severity `cheat`, no honest kernel needs it.
FORBIDDEN_READS = {
    "gc.get_objects": "lists every live object, the reference's tensors among them",
    "gc.get_referrers": "finds objects that hold another one",
    "gc.get_referents": "finds objects that another one holds",
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
# Reading files or source text: honest for a kernel's own CUDA file, so only suspect.
SUSPECT_READS = {
    "open": "opens a file", "io.open": "opens a file", "os.open": "opens a file",
    "os.listdir": "lists a folder", "os.scandir": "lists a folder", "os.walk": "lists folders",
    "glob.glob": "lists files", "glob.iglob": "lists files",
    "inspect.getsource": "reads source text", "inspect.getsourcefile": "looks for source files",
    "inspect.getsourcelines": "reads source text", "inspect.getmodule": "looks modules up",
    "runpy.run_path": "runs another file", "runpy.run_module": "runs another module",
    "torch.load": "loads stored tensors", "numpy.load": "loads stored arrays",
    "pickle.load": "loads stored objects", "pickle.loads": "loads stored objects",
    "marshal.loads": "loads compiled code", "weakref.WeakValueDictionary": "holds objects weakly",
}  # fmt: skip
# Names a kernel would import to call the reference instead of doing the work.
REFERENCE_MODULES = frozenset({"problem", "reference", "ref", "model", "original", "baseline"})

# Assigning below these replaces what the judge measures or compares with.
PROTECTED = (
    "torch", "triton", "time", "builtins", "math", "numpy", "os", "ctypes", "agent", "kb", "json",
    "pydantic", "io", "mmap", "struct", "inspect", "gc", "threading", "importlib",
)  # fmt: skip
# Attributes that nothing but a clock has.
CLOCK_ATTRIBUTES = frozenset(
    {"elapsed_time", "perf_counter", "perf_counter_ns", "monotonic_ns", "process_time"}
)
CLOCKS = (
    "time.time", "time.time_ns", "time.perf_counter", "time.perf_counter_ns", "time.monotonic",
    "time.monotonic_ns", "time.process_time", "time.clock_gettime", "datetime.datetime.now",
)  # fmt: skip
# ... except settings, which are disclosed (`precision` has its own findings).
SETTINGS = (
    "torch.backends", "torch._dynamo.config", "torch._inductor.config", "triton.knobs",
    "torch.autograd.set_detect_anomaly",
)  # fmt: skip
# Compatibility shims assign here: `tl.tanh = libdevice.tanh`.
SHIMMED = ("triton.language",)

STREAMS = frozenset(
    {
        "torch.cuda.Stream", "torch.cuda.stream", "torch.cuda.set_stream",
        "torch.cuda.ExternalStream", "torch.cuda.streams.Stream", "torch.Stream",
        "torch.cuda.graphs.graph", "torch.cuda.StreamContext",
    }
)  # fmt: skip
GRAPHS = frozenset(
    {"torch.cuda.CUDAGraph", "torch.cuda.graph", "torch.cuda.make_graphed_callables"}
)
PROCESSES = (
    "threading", "_thread", "multiprocessing", "subprocess", "concurrent.futures", "asyncio",
    "os.fork", "os.system", "os.popen", "os.spawn", "os.posix_spawn", "os.exec", "os.kill",
    "signal", "torch.multiprocessing", "pty", "socket", "sched",
)  # fmt: skip
# Of those, what only protects or describes.
HARMLESS = frozenset(
    {
        "threading.Lock", "threading.RLock", "threading.local", "threading.get_ident",
        "threading.current_thread", "subprocess.PIPE", "subprocess.DEVNULL",
        "subprocess.CalledProcessError", "subprocess.STDOUT", "subprocess.TimeoutExpired",
    }
)  # fmt: skip
DYNAMIC_CODE = frozenset(
    {"exec", "eval", "compile", "builtins.exec", "builtins.eval", "builtins.compile",
     "types.FunctionType", "types.CodeType"}
)  # fmt: skip
RAW_MEMORY = frozenset(
    {"ctypes.memmove", "ctypes.memset", "ctypes.string_at", "ctypes.cast", "mmap.mmap",
     "ctypes.from_address"}
)  # fmt: skip
HOOKS = frozenset({"atexit.register", "sys.exit", "os._exit", "os.abort", "sys.excepthook",
                   "sys.displayhook", "sys.breakpointhook"})  # fmt: skip
LOW_PRECISION = frozenset(
    {"float16", "half", "bfloat16", "float8_e4m3fn", "float8_e5m2", "float8e4nv", "float8e5",
     "float8_e4m3fnuz", "float8_e5m2fnuz", "float8e4b15"}
)  # fmt: skip
# What describes a tensor without its contents.
METADATA = _words(
    """
    shape dtype device ndim size numel stride dim element_size is_cuda is_contiguous nbytes
    itemsize layout requires_grad get_device storage_offset nelement type new_empty new_zeros
    new_ones new_full new_tensor is_floating_point is_meta names grad_fn
    """
)
# Functions whose result holds none of their argument's contents.
CONTENT_FREE = frozenset(
    {"len", "isinstance", "type", "id", "hasattr", "torch.empty_like", "torch.zeros_like",
     "torch.ones_like", "torch.full_like", "torch.rand_like", "torch.randn_like",
     "torch.is_tensor", "torch.numel", "torch.is_floating_point"}
)  # fmt: skip
