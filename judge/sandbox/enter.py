"""Put the calling process into the sandbox, layer by layer, in the one order that works."""

import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import judge
from judge.sandbox import (
    environment,
    landlock,
    limits,
    linux,
    mounts,
    namespaces,
    paths,
    privileges,
    seccomp,
)
from judge.sandbox.layers import Layer, LayerName, active
from judge.sandbox.policy import Policy


@dataclass
class SetupState:
    """What the supervisor settled before it forked the process that is to be sandboxed."""

    policy: Policy
    change_user: int | None = None
    """User id to take on, still to be done; None: stay."""
    admin: bool = False
    """Namespaces can be made (as root, or inside the user namespace that was entered)."""
    changed_user: bool = False
    """It was changed already: in the supervisor, or since."""
    user_namespace: bool = False
    root_underneath: bool = False
    """To the kernel the user is still root, for whom threads are not limited."""
    process_namespace: bool = False
    why: str = ""
    """Why namespaces cannot be made, or the user id not be changed."""
    layers: list[Layer] = field(default_factory=list)


def prepare(policy: Policy) -> SetupState:
    """Settle user and namespaces, in the supervisor.

    Root takes on a user id of the sandbox's own if Python can still be read under it; without
    CAP_SYS_ADMIN (containers) at once, else after the mounts. Anybody else, and a root that could
    not, enters a user namespace.
    """
    state = SetupState(policy)
    root = os.geteuid() == 0
    state.admin = root and privileges.has_capability(privileges.CAP_SYS_ADMIN)
    may_mount = state.admin and LayerName.MOUNTS not in policy.without
    if root and LayerName.USER not in policy.without:
        if privileges.others_can_read(_needed(policy), parents=not may_mount):
            state.change_user = privileges.USER_BASE + os.getpid()
        else:
            state.why = "only root can read this Python or checkout"
    if not state.admin:
        if state.change_user is not None:
            _own_scratch(policy, state.change_user)
            privileges.become(state.change_user, _device_groups(policy))
            state.change_user, state.changed_user = None, True
        _enter_user_namespace(state)
    # Without this layer the supervisor kills all descendants.
    layer = _layer(state, LayerName.PROCESSES, namespaces.processes, needs_admin=True)
    state.layers.append(layer)
    state.process_namespace = layer.active
    return state


def _enter_user_namespace(state: SetupState) -> None:
    if LayerName.USER in state.policy.without:
        state.why = "user namespace left out"
        return
    uid = os.geteuid()
    try:
        namespaces.user()
    except OSError as error:
        state.why = str(error)
    else:
        state.admin = state.user_namespace = True
        state.root_underneath = uid == 0


def _needed(policy: Policy) -> list[Path]:
    """Return files and folders without which nothing runs, as samples of their trees."""
    package = Path(judge.__file__)
    library = Path(os.__file__)
    prefixes = {Path(sys.prefix), Path(sys.base_prefix)}
    return [*prefixes, library.parent, library, package.parent, package, *policy.read]


def _own_scratch(policy: Policy, uid: int) -> None:
    """Give the scratch folder to `uid`; it is new and nobody else writes there."""
    for folder, subfolders, files in os.walk(policy.scratch):
        for name in (*subfolders, *files):
            os.chown(Path(folder, name), uid, uid, follow_symlinks=False)
        os.chown(folder, uid, uid)


def _device_groups(policy: Policy) -> list[int]:
    """Return the groups that may open the GPU's device files, where not everybody may."""
    states = [path.stat() for path in paths.devices(gpu=policy.gpu)]
    return sorted({state.st_gid for state in states if state.st_mode & 0o6 != 0o6})


def _layer(
    state: SetupState, name: LayerName, make: Callable[[], str], *, needs_admin: bool = False
) -> Layer:
    """Call `make`, which returns what the layer covers, unless the policy leaves the layer out."""
    if name in state.policy.without:
        return Layer(name=name, active=False, detail="left out by the policy")
    if needs_admin and not state.admin:
        return Layer(name=name, active=False, detail=state.why or "not permitted")
    try:
        return Layer(name=name, active=True, detail=make())
    except OSError as error:
        return Layer(name=name, active=False, detail=str(error))


def enter(state: SetupState) -> list[Layer]:
    """Sandbox the calling process, which has one thread. Returns every layer's report.

    After it the process has the scratch folder as working folder, and the scrubbed environment.
    """
    policy = state.policy
    os.umask(0o022)  # folders on the way to what is mounted must be open to the other user id
    read = paths.readable(policy.read)
    device_files = paths.devices(gpu=policy.gpu)
    layers = list(state.layers)

    def add(name: LayerName, make: Callable[[], str], *, needs_admin: bool = False) -> bool:
        layers.append(_layer(state, name, make, needs_admin=needs_admin))
        return layers[-1].active

    def isolated_mounts() -> str:
        own = state.process_namespace
        return mounts.isolate(policy, read=read, devices=device_files, own_processes=own)

    def network() -> str:
        return namespaces.network(loopback=policy.loopback)

    private_network = add(LayerName.NETWORK, network, needs_admin=True)
    mounted = add(LayerName.MOUNTS, isolated_mounts, needs_admin=True)
    layers.append(_change_user(state, mounted=mounted))
    limit_threads = layers[-1].active and not state.root_underneath
    add(LayerName.LIMITS, lambda: limits.restrict(policy, count_threads=limit_threads))
    layers.append(privileges.drop())
    # Without it the process could not open its own /proc files.
    linux.prctl(linux.PR_SET_DUMPABLE, 1)
    _settle(policy, private_shared_memory=mounted)
    layers.append(
        Layer(name=LayerName.ENVIRONMENT, active=True, detail=f"{len(os.environ)} variables")
    )
    # With sockets that connect, other processes' socket files must be out of sight, too.
    loopback = policy.loopback and private_network and mounted
    rules = [(path, landlock.READ) for path in read]
    rules += [(Path("/proc"), landlock.READ)]
    if policy.gpu:
        rules += [(_own_files(state, mounted=mounted), landlock.WRITE_FILE | landlock.TRUNCATE)]
    rules += [(path, landlock.DEVICE) for path in device_files]
    rules += [(policy.scratch, landlock.WRITE)]
    if mounted:
        rules += [(mounts.SHARED_MEMORY, landlock.WRITE)]
    add(LayerName.LANDLOCK, lambda: landlock.restrict(rules, network=loopback))
    add(LayerName.SECCOMP, lambda: seccomp.restrict(loopback=loopback, gpu=policy.gpu))
    layers.append(_signals(state, layers))
    return layers


def _own_files(state: SetupState, *, mounted: bool) -> Path:
    """Return the part of /proc that may be written.

    CUDA names its threads through /proc/self/task/*/comm and does not start where it cannot. All
    of /proc may be, when it shows own processes only (the machine's settings in it are mounted
    read-only) or the user id owns nothing else in it. Otherwise it holds files of the judge's
    processes and, for root, the machine's settings; then it is this one process's folder, and a
    program that this process starts cannot start CUDA.
    """
    if state.changed_user or (mounted and state.process_namespace):
        return Path("/proc")
    own = Path("/proc") / Path("/proc/self").readlink()
    # Landlock knows the folder by its inode, which lasts as long as something holds it.
    os.open(own, os.O_PATH | os.O_CLOEXEC)
    return own


def _signals(state: SetupState, layers: list[Layer]) -> Layer:
    """Say whether signals can leave the sandbox, which no layer stops by itself alone."""
    active_names = active(layers)
    means = []
    if state.process_namespace:
        means.append("process namespace")
    if LayerName.LANDLOCK in active_names and landlock.abi() >= landlock.SIGNALS_ABI:
        means.append("Landlock")
    # A user namespace alone leaves the id, which is what the kernel goes by, the judge's.
    if LayerName.USER in active_names and (state.changed_user or not state.user_namespace):
        means.append("user id")
    detail = f"held back by {', '.join(means)}" if means else "processes of the same user get them"
    return Layer(name=LayerName.SIGNALS, active=bool(means), detail=detail)


def _change_user(state: SetupState, *, mounted: bool) -> Layer:
    """Lock privileges away and take on the user id that the supervisor chose."""
    policy = state.policy
    privileges.lock()
    new_uid = state.change_user
    if new_uid is not None and not privileges.others_can_read(_needed(policy), parents=not mounted):
        state.why = "only root can reach this Python or checkout, and the mount namespace failed"
        new_uid = None
    if new_uid is not None:
        _own_scratch(policy, new_uid)
        uid = privileges.become(new_uid, _device_groups(policy))
        state.changed_user = True
        exact = uid == new_uid
        return Layer(
            name=LayerName.USER, active=True, detail=f"uid {uid}{'' if exact else ', shared'}"
        )
    uid = os.getuid()
    if state.changed_user or state.user_namespace:
        where = ", in a user namespace" if state.user_namespace else ""
        return Layer(name=LayerName.USER, active=True, detail=f"uid {uid}{where}")
    return Layer(name=LayerName.USER, active=False, detail=f"the judge's uid {uid}; {state.why}")


def _settle(policy: Policy, *, private_shared_memory: bool) -> None:
    os.umask(0o077)
    folders = environment.folders(policy.scratch)
    variables = environment.allowed_variables() | folders
    if environment.INTERPRET in os.environ:  # set by the zygote's maker, not by the user
        variables[environment.INTERPRET] = os.environ[environment.INTERPRET]
    if not private_shared_memory:
        # Semaphores live in /dev/shm, where the judge's buffers may be: it stays closed, and
        # Inductor must not start the worker processes that would need them.
        variables["TORCHINDUCTOR_COMPILE_THREADS"] = "1"
    variables |= policy.environment
    os.environ.clear()
    os.environ.update(variables)
    for name in environment.FOLDERS:
        Path(folders[name]).mkdir(parents=True, exist_ok=True)
    root = policy.scratch / ".root"
    if root.exists():
        shutil.rmtree(root, ignore_errors=True)
    os.chdir(policy.scratch)
