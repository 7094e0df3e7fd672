"""No attack on the judge's files, network, processes or privileges succeeds."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.judge.sandbox import attacked_judge, attacks

ROOT = Path(__file__).resolve().parents[3]
NOBODY = "65534"


def attacked(prefix: list[str]) -> dict:
    command = [*prefix, sys.executable, "-m", "tests.judge.sandbox.attacked_judge"]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def as_root_but(*options: str) -> list[str]:
    """A command prefix for which Python can be read by any user, and `options` hold.

    In a mount namespace of its own a Python below a folder that only root may enter (/root) is
    mounted again below one that all may.
    """
    python = Path(sys.base_prefix)
    closed = [p for p in python.parents if not p.stat().st_mode & 0o1]
    lines = ["set -e", "keep=$(mktemp -d)"]
    if closed:
        at, top = shlex.quote(str(python)), shlex.quote(str(closed[-1]))
        lines += [f"mount --bind {at} $keep", f"mount -t tmpfs -o mode=755 none {top}"]
        lines += [f"mkdir -p {at}", f"mount --bind $keep {at}"]
    lines += ['exec setpriv "$@"']
    script = ["unshare", "--mount", "bash", "-c", "\n".join(lines), "bash"]
    return [*script, *options, "env", "HOME=/nonexistent"]


def may_become_others() -> bool:
    return (
        os.geteuid() == 0
        and not subprocess.run(["unshare", "--mount", "true"], check=False).returncode
    )


def is_admin(user: str) -> bool:
    return user == "present user" and may_become_others()


USERS = {
    "present user": lambda: [],
    "ordinary user": lambda: as_root_but(
        f"--reuid={NOBODY}",
        f"--regid={NOBODY}",
        "--clear-groups",
        "--inh-caps=-all",
        "--bounding-set=-all",
    ),
    "root of a container": lambda: as_root_but("--bounding-set=-sys_admin"),
}


@pytest.fixture(scope="module", params=USERS)
def outcomes(request) -> tuple[str, dict]:
    user = request.param
    if user != "present user" and not may_become_others():
        pytest.skip("only root with all capabilities can become somebody else")
    return user, attacked(USERS[user]())


def test_every_attack_succeeds_without_the_sandbox(outcomes):
    user, found = outcomes
    expected = {attack.__name__ for attack in attacks.ANYBODY}
    if user == "present user" and may_become_others():
        expected |= {attack.__name__ for attack in attacks.ROOT_ONLY}
    plain = found["no sandbox"]
    assert {name: plain[name] for name in expected} == dict.fromkeys(expected, "succeeded")


@pytest.mark.parametrize("variant", attacked_judge.VARIANTS)
def test_no_attack_succeeds_where_the_layers_are_called_sufficient(outcomes, variant):
    user, found = outcomes[0], dict(outcomes[1][variant])
    sufficient = found.pop("sufficient")
    del found["layers"]
    assert len(found) >= len(attacks.ANYBODY) + len(attacks.ROOT_ONLY)
    succeeded = {name for name, outcome in found.items() if outcome == "succeeded"}
    plain = variant.removesuffix(", GPU")
    if plain == "no Landlock nor seccomp":
        # Capabilities over a namespace of its own, which is why this is called insufficient.
        assert succeeded <= {"leave_by_a_user_namespace"}
        assert not sufficient
    elif plain == "no Landlock, the judge's user" and not is_admin(user):
        # Without a user namespace there is no other one: what is left is not enough, and said so.
        assert succeeded
        assert not sufficient
    else:
        assert not succeeded
        assert sufficient


def test_the_present_user_has_every_layer(outcomes):
    user, found = outcomes
    layers = set(found["all layers"]["layers"])
    wanted = {"landlock", "mounts", "seccomp", "network namespace", "process namespace", "user"}
    assert wanted | {"privileges", "signals"} <= layers, user
