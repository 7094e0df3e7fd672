"""When a set of layers is enough for code that nobody trusts."""

import pytest

from judge.sandbox.layers import Layer, LayerName, missing

ENOUGH = {LayerName.LANDLOCK, LayerName.SECCOMP, LayerName.PRIVILEGES, LayerName.SIGNALS}


def layers(active):
    return [Layer(name=name, active=name in active) for name in LayerName]


def test_landlock_seccomp_no_privileges_and_no_signals_are_enough():
    assert not missing(layers(ENOUGH))
    assert missing(layers(ENOUGH)) == []


def test_a_mount_and_a_process_namespace_do_for_landlock():
    others = {LayerName.MOUNTS, LayerName.PROCESSES}
    assert not missing(layers(ENOUGH - {LayerName.LANDLOCK} | others))


@pytest.mark.parametrize(
    ("without", "says"),
    [
        (LayerName.LANDLOCK, "file system"),
        (LayerName.SECCOMP, "network"),
        (LayerName.PRIVILEGES, "privileges"),
        (LayerName.SIGNALS, "signals"),
    ],
)
def test_what_is_missing_is_named(without, says):
    assert missing(layers(ENOUGH - {without}))
    assert any(says in name for name in missing(layers(ENOUGH - {without})))


def test_no_layers_are_not_enough():
    assert len(missing([])) == 5
