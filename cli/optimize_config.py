"""What the options of `kb optimize` ask for: a `RunConfig`, and the model's price."""

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from agent.optimize.config import Limits, RunConfig
    from kb.gpus import GpuSpec

_LIMITS = {
    "rounds": "rounds",
    "max_seconds": "seconds",
    "max_gpu_seconds": "gpu_seconds",
    "max_tokens": "tokens",
    "max_money": "money",
    "floor": "floor_target",
}
# What a resumed run may be given anew; the rest is as it was begun.
_RESUMABLE = {
    *_LIMITS, "resume", "model", "base_url", "price", "gpu_spec", "as_json", "batch", "ray",
}  # fmt: skip


def default_folder(name: str) -> Path:
    """Where a run, or the runs of a folder of problems, are kept if --out is not given."""
    return Path("kb-runs") / f"{name}-{datetime.now(UTC):%Y%m%d-%H%M%S}"


def new_config(problem: Path | None, options: dict[str, Any]) -> "RunConfig":
    """Config of a new run."""
    from agent.opening import LLM, NAMES
    from agent.optimize.config import REPLAY, RunConfig, Strategy
    from agent.optimize.run import read_config
    from agent.optimize.starting import read_problem, read_start

    model: str | None = options["model"]
    recorded = None
    if model is not None and model.startswith(REPLAY):
        recorded = read_config(Path(model.removeprefix(REPLAY)).expanduser())
    if options["replay_verdicts"]:
        if recorded is None:
            raise click.UsageError("--replay-verdicts needs --model replay:RUN")
        if problem is None:
            # Everything is as it was, but for where replies come from.
            update = {"model": model, "base_url": None, "replay_verdicts": True}
            return recorded.model_copy(update=update)
    if problem is None:
        raise click.UsageError("Missing argument 'PROBLEM'.")
    for name in ("base_url", "batch", "max_money"):
        if options[name] is not None and model is None:
            raise click.UsageError(f"--{name.replace('_', '-')} needs --model")
    if options["greedy"] and options["width"] not in (None, 1):
        raise click.UsageError("--greedy means --width 1: omit --width")
    names = [name.strip() for name in (options["proposers"] or "").split(",") if name.strip()]
    if not names:
        names = [name for name in NAMES if name != LLM or model is not None]
    if unknown := [name for name in names if name not in NAMES]:
        raise click.UsageError(f"no proposer '{unknown[0]}': choose from {', '.join(NAMES)}")
    if LLM in names and model is None:
        raise click.UsageError("the proposer llm needs --model")
    strategy = {
        # Profiles take a third of a run of five minutes. Without a model they give the tuner hints
        # and the report its metrics; what the benchmarks publish was reached without.
        "profiling": model is not None or options["profile"],
        "width": 1 if options["greedy"] else options["width"],
        "branching": options["branching"],
        "repairs": options["repairs"],
        "patience": options["patience"],
        "crossover": not options["no_crossover"],
        "retirement": not options["no_retirement"],
        "confirm": not options["no_confirm"],
    }
    info = read_problem(problem)
    start = read_start(options["kernel"]) if options["kernel"] is not None else None
    # What is called the same on the command line and in the configuration.
    shared = {
        name: options[name] for name in RunConfig.model_fields.keys() & options.keys() - {"batch"}
    }
    fields = shared | {
        **_card(options),
        "knowledge": not options["no_knowledge"],
        "problem": info,
        "given": start is not None,
        "start": start,
        "proposers": tuple(dict.fromkeys(names)),
        "baselines": options["baselines"],
        "limits": _limits(options),
        "strategy": Strategy.model_validate({k: v for k, v in strategy.items() if v is not None}),
    }
    return RunConfig.model_validate({k: v for k, v in fields.items() if v is not None})


def specs_of(file: Path | None) -> "tuple[GpuSpec, ...]":
    """The cards that a file of --gpu-spec describes."""
    from kb.gpus import load_specs

    return load_specs(file) if file is not None else ()


def _card(options: dict[str, Any]) -> dict[str, Any]:
    """The card that is named, where none can be seen."""
    from kb.gpus import find_spec

    if options["gpu"] is None:
        return {}
    spec = find_spec(options["gpu"], specs_of(options["gpu_spec"]))
    return {"gpu": spec.name, "architecture": spec.architecture}


def resume_config(
    ctx: click.Context, config: "RunConfig", problem: Path | None, options: dict[str, Any]
) -> "RunConfig":
    """Config of a run that goes on, with what was given anew."""
    explicit = {
        name
        for name in options
        if ctx.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE
    }
    if problem is not None or (explicit := explicit - _RESUMABLE):
        label = "PROBLEM" if problem is not None else f"--{min(explicit).replace('_', '-')}"
        raise click.UsageError(f"{label} cannot be changed: --resume continues the run as started")
    update: dict[str, Any] = {"limits": _limits(options, config.limits)}
    for name in ("model", "base_url", "batch"):
        if options[name] is not None:
            update[name] = str(options[name])
    if options["model"] is not None and "llm" not in config.proposers:
        update["proposers"] = (*config.proposers, "llm")
        update["strategy"] = config.strategy.model_copy(update={"profiling": True})
    return config.model_copy(update=update)


def _limits(options: dict[str, Any], current: "Limits | None" = None) -> "Limits":
    from agent.optimize.config import Limits

    changes = {field: options[name] for name, field in _LIMITS.items() if options[name] is not None}
    return Limits.model_validate((current or Limits()).model_dump() | changes)


def price_of(text: str | None, config: "RunConfig") -> Any:
    """What the run's model costs; None where that is not said, and nothing depends on it."""
    from agent.proposers.llm.accounting import find_price

    if text is None:
        live = config.model is not None and config.replayed is None
        if live and config.limits.money is not None:
            raise click.UsageError("--max-money needs --price: the model's price is not known")
        return None
    if config.model is None:
        raise click.UsageError("--price needs --model")
    return find_price(text, config.model)
