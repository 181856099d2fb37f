"""Runs as TensorBoard event files: what a step brought, and the joules it took, one curve each."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from roambench.contract.errors import ConfigError
from roambench.report.tracked import Scalar, missing, named_twice, tracked_names, tracked_runs
from roambench.runs.database import naming
from roambench.runs.settings import folder_name


def export_tensorboard(runs: Sequence[Path], out: Path) -> list[Path]:
    """Write one folder of event files per run into `out`, named as the run, which in a sweep is what varies
    there; returns the folders.

    ConfigError where two runs have one name and for a folder that is there already (TensorBoard would draw
    both); RunError for what is no run, or where the library is not installed.
    """
    names = tracked_names(runs)
    places = [out / folder_name(name).replace(" ", "_") for name in names]
    problems = named_twice([place.name for place in places])
    problems += [
        f"{place}: exists already; choose another -o" for place in dict.fromkeys(places) if place.exists()
    ]
    if problems:
        raise ConfigError(problems)
    writer_of, event_of = _library()
    folders = []
    for run, place in zip(tracked_runs(runs), places, strict=True):
        with naming(place):
            place.mkdir(parents=True)
            writer = writer_of(str(place))
            for point in run.curves:
                writer.add_event(event_of(point, run.began_s))
            writer.close()
        folders.append(place)
    return folders


def _library() -> tuple[Any, Any]:
    """TensorBoard's writer of an event file, and a maker of an event from a point: its time is the run's
    begin."""
    try:
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary
        from tensorboard.summary.writer.event_file_writer import EventFileWriter
    except ModuleNotFoundError as error:
        raise missing(error, "tensorboard", "tensorboard") from None

    def event_of(point: Scalar, began_s: float) -> Any:
        value = Summary.Value(tag=point.tag, simple_value=point.value)
        return Event(wall_time=began_s, step=point.step, summary=Summary(value=[value]))

    return EventFileWriter, event_of
