"""A run as proposers see it: `SearchState`, made from the record alone."""

from agent.optimize import beam as beams
from agent.optimize import budget
from agent.optimize.candidate import SearchState
from agent.optimize.config import RunConfig
from agent.optimize.record import Record, Round


def state_of(config: RunConfig, record: Record, each: Round) -> SearchState:
    """The state in which a round's proposals are made; it was advised on by then."""
    strategy, standing = config.strategy, record.standing
    assert each.advised is not None
    assert standing is not None
    pair = None
    if strategy.crossover:
        pair = beams.crossover_pair(record.beam, record.history, record.crossed)
    return SearchState.like(
        config,
        device=standing.devices[0] if standing.devices else "cpu",
        gpu=standing.gpu or config.gpu,
        architecture=standing.architecture or config.architecture,
        round=each.number,
        width=strategy.width,
        branching=strategy.branching,
        beam=record.beam,
        leader=record.leader,
        start=record.start,
        crossover=pair,
        retired=record.retired,
        history=record.history,
        tried=frozenset(record.tried),
        baselines=record.baselines,
        floor=standing.floor,
        ceilings=standing.ceilings,
        diagnosis=each.advised.diagnosis,
        context=each.advised.context,
        notes=record.notes,
        versions=standing.versions or config.versions,
        gpu_seconds_left=budget.gpu_seconds_left(record, config),
    )
