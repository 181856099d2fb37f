"""The first steps of a generated trace: those of the whole, which is not made."""

from __future__ import annotations

from pathlib import Path

import pytest

from roambench.contract.errors import TraceError
from roambench.experiment.load import WrittenExperiment, load_experiment
from roambench.experiment.sections import Experiment
from roambench.mobility import trace as traces
from roambench.mobility.files import write_trace
from roambench.mobility.walks import GENERATORS
from roambench.runner.world import movement_of


def experiment(parameters: dict[str, object], **source: object) -> Experiment:
    trace = {"window": "first", "steps": 6, "offset": 3, **source}
    values = {"name": "first", "trace": trace, "fleet": {"agents": 20, "aps": 5}}
    if "file" not in source:
        trace |= {"generator": "city", "parameters": parameters}
    return load_experiment(WrittenExperiment(values, "here", Path()))


@pytest.mark.parametrize("presence", ["routine", "always", "checkins"])
def test_the_first_steps_are_those_of_the_whole_trace(
    presence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parameters = {"devices": 40, "steps": 96, "aps": 5, "presence": presence}
    if presence == "routine":
        del parameters["presence"]
    cut = experiment(parameters)
    whole = GENERATORS.load("city").generate(cut.seed, parameters)
    write_trace(whole, tmp_path / "whole.parquet")
    wanted = movement_of(experiment({}, file=str(tmp_path / "whole.parquet")))
    monkeypatch.setattr(traces, "MAX_FIXES", 6 * 40)  # no more than there can be in six steps
    assert movement_of(cut).content_hash == wanted.content_hash
    if presence == "always":
        with pytest.raises(TraceError, match="a trace of 3,840 fixes, expected at most 240"):
            movement_of(experiment(parameters, window="busiest"))
