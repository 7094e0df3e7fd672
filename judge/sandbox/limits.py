"""Resource limits of a sandboxed process. None on address space: CUDA reserves terabytes of it."""

import resource

from judge.sandbox.policy import Policy

# CUDA and Inductor open a few hundred files; compilers few.
OPEN_FILES = 4096


def restrict(policy: Policy, *, count_threads: bool) -> str:
    """Set the limits, soft and hard, never above the present hard ones.

    `count_threads`: RLIMIT_NPROC counts all of a user's threads, so it is set only when the user
    id, or its namespace, is this sandbox's alone. Raises OSError after all were tried.
    """
    requested = {
        "RLIMIT_CORE": 0,
        "RLIMIT_NOFILE": OPEN_FILES,
        "RLIMIT_FSIZE": min(policy.file_bytes, policy.scratch_bytes),
        "RLIMIT_MSGQUEUE": 0,
    }
    if count_threads:
        requested["RLIMIT_NPROC"] = policy.max_threads
    failures = []
    for name, value in requested.items():
        kind = getattr(resource, name, None)
        if kind is None:  # RLIMIT_MSGQUEUE is not known to Python on every C library
            continue
        hard = resource.getrlimit(kind)[1]
        limit = value if hard == resource.RLIM_INFINITY else min(value, hard)
        try:
            resource.setrlimit(kind, (limit, limit))
        except (OSError, ValueError) as error:
            failures.append(f"{name}: {error}")
    if failures:
        raise OSError("; ".join(failures))
    return f"{'threads, ' if count_threads else ''}open files, file size, no core files"
