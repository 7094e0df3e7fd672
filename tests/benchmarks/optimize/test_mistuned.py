"""The benchmark of `tune` alone, in the interpreter on a tiny problem."""

from benchmarks.optimize.mistuned import __main__ as mistuned
from benchmarks.optimize.mistuned import measure
from benchmarks.tasks import done
from judge.sandbox.launch import Zygote


def test_a_kernel_is_measured_and_not_measured_again(interpreting: Zygote) -> None:
    name = "leaky_relu_slivers"
    asked = measure.Measure(
        name=name, device="cpu", seconds=12.0, reference_seconds=3.0, seed=0, trust=True,
        small=True, check=False,
    )  # fmt: skip
    record = measure.measure(asked, interpreting, lambda _: None)
    assert record["over_best"] >= 1.0
    assert record["tried"] > 1
    assert record["tuned_ms"] >= record["best_ms"]
    # Configurations that do not work are no failure of the measurement.
    assert done({"records": {name: record}}, name)
    assert mistuned.summary([record])["kernels"] == 1
    assert str(record["not_working"]) in mistuned.BENCHMARK.row(name, record)


def test_a_kernel_without_times_is_tried_again() -> None:
    nothing = {"name": "a", "failed": "there was no time for any configuration"}
    assert not done({"records": {"a": nothing}}, "a")
    assert "no time for any" in mistuned.BENCHMARK.row("a", nothing)[1]
    assert mistuned.summary([nothing])["missed"] == ["a"]
