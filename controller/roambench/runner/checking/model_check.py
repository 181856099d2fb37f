"""The final model of a run: that it is the one of the event log, and that it scores as the run says."""

from __future__ import annotations

import asyncio
import math
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from roambench.contract.errors import ConfigError, DataError, RoambenchError
from roambench.contract.model_blob import encode
from roambench.contract.model_digest import SHOWN, digest_like
from roambench.contract.orders import Vector
from roambench.rounds.ports import Score
from roambench.rounds.records import CloudAggregated, MetricsScored, ModelsScored, StepClosed
from roambench.runner.checking.findings import CheckFinding, CheckOutcome, compared, differing_values
from roambench.runner.model_files import GLOBAL_MODEL
from roambench.runner.scoring import TestSetEvaluator, scored_samples
from roambench.runner.world import LearningTask, learning_task_of
from roambench.runs.event_log import EventLog
from roambench.runs.folder import RunFolder
from roambench.runs.info import RunState
from roambench.runs.models import load_model

#: Images in a thousand that another machine may classify otherwise, as its sums are rounded otherwise; one is
#: always allowed. Of losses and other metrics the share that they may differ by.
IMAGES_IN_1000: Final = 1
OF_A_METRIC: Final = 1e-3
_MODEL, _SCORE, _DATA = "final model", "final model scored again", "data set"


@dataclass(frozen=True, slots=True)
class LastScore:
    """The last scores of the global (decentralised: mean) model in the event log."""

    accuracy: float | None
    loss: float | None
    metrics: Mapping[str, float]


def check_model(folder: RunFolder, log: EventLog, *, download: bool = False) -> Iterator[CheckFinding]:
    """The findings; a data set that is missing is fetched with `download`."""
    if not folder.info.kind.trains:
        yield CheckFinding(_SCORE, CheckOutcome.NOT_RECORDED, ("a rehearsal trains no model",))
        return
    if not (folder.path / GLOBAL_MODEL).is_file():
        # Its marks say whether it was ever there.
        outcome = (
            CheckOutcome.DIFFERS if GLOBAL_MODEL in folder.info.marks.files else CheckOutcome.NOT_RECORDED
        )
        yield CheckFinding(_SCORE, outcome, (f"{GLOBAL_MODEL} is not there",))
        return
    try:
        model = load_model(folder.path / GLOBAL_MODEL)
    except RoambenchError as error:
        yield CheckFinding(_MODEL, CheckOutcome.DIFFERS, tuple(str(error).splitlines()))
        return
    try:
        task = _learning_task(folder, download=download)
    except RoambenchError as error:
        why = str(error).splitlines()
        if isinstance(error, ConfigError | DataError):
            command = f"roambench check {shlex.quote(str(folder.path))} --download"
            why.append(f"where the data set is missing: {command}")
        yield CheckFinding(_SCORE, CheckOutcome.NOT_CHECKED, tuple(why))
        return
    other = [
        f"the {name} are not those that the run was made of"
        for name, digest in task.contents.items()
        if name in folder.info.data and folder.info.data[name] != digest
    ]
    if folder.info.data:
        yield compared(_DATA, other, "as loaded here it is what the run was made of")
    else:
        yield CheckFinding(
            _DATA, CheckOutcome.NOT_RECORDED, ("this version's digests of it are not in run.json",)
        )
    if model.size != task.layout.size:
        text = f"{model.size:,} parameters; the experiment's model has {task.layout.size:,}"
        yield CheckFinding(_MODEL, CheckOutcome.DIFFERS, (text,))
        return
    yield from _facts(task, folder)
    yield from _named_by_the_log(model, task, log, folder)
    last = last_score(log)
    if last is None:
        finished = folder.info.state is RunState.FINISHED
        text = "the event log has no score of the last model"
        text += ", which every run has that ends" if finished else ""
        yield CheckFinding(_SCORE, CheckOutcome.DIFFERS if finished else CheckOutcome.NOT_RECORDED, (text,))
        return
    found = asyncio.run(TestSetEvaluator(folder.experiment, task).score(model))
    yield scored_again(last, found, scored_samples(folder.experiment, task))


def _facts(task: LearningTask, folder: RunFolder) -> Iterator[CheckFinding]:
    """Find false facts of model and test set in run.json."""
    info = folder.info
    facts = (
        ("model_parameters", info.model_parameters, task.layout.size),
        ("test_samples", info.test_samples, scored_samples(folder.experiment, task)),
        ("chance_accuracy", info.chance_accuracy, task.chance_accuracy),
    )
    wrong = [
        text
        for name, recorded, now in facts
        if recorded is not None and now
        for text in differing_values(recorded, now, f"run.json: {name}")
    ]
    if wrong:
        yield compared(_MODEL, wrong)


def last_score(log: EventLog) -> LastScore | None:
    """The scores of the model that the last step left; None where that step has none."""
    if log.count(ModelsScored):
        last = list(log.only(ModelsScored))[-1]
        return LastScore(last.average_score, last.average_loss, {})
    closed = list(log.only(StepClosed))
    if not closed or (closed[-1].accuracy is None and closed[-1].loss is None):
        return None
    metrics = {
        name: value
        for record in log.only(MetricsScored)
        if record.step == closed[-1].step
        for name, value, better in zip(record.names, record.values, record.better, strict=True)
        if better
    }
    return LastScore(closed[-1].accuracy, closed[-1].loss, metrics)


def scored_again(last: LastScore, found: Score, images: int) -> CheckFinding:
    """The finding on a model that the event log gives `last`, and that scored `found` on `images`."""
    wrong, equal = [], []
    if last.accuracy is not None and found.accuracy is not None:
        allowed = max(1, images * IMAGES_IN_1000 // 1000)
        text = f"accuracy {last.accuracy:.4%} is recorded, {found.accuracy:.4%} is what the model reaches"
        off = abs(last.accuracy - found.accuracy) * images
        if not off <= allowed + 1e-6:
            wrong.append(f"{text}: {off:,.0f} of {images:,} images, expected at most {allowed:,}")
        else:
            equal.append(f"{text} ({off:,.0f} of {images:,} images, {allowed:,} allowed)")
    recorded = {**last.metrics, **({} if last.loss is None else {"loss": last.loss})}
    now = {**found.metrics, "loss": found.loss}
    for name, value in recorded.items():
        again = now.get(name, math.nan)
        both_nan = math.isnan(value) and math.isnan(again)
        if not both_nan and not math.isclose(value, again, rel_tol=OF_A_METRIC, abs_tol=1e-6):
            wrong.append(f"{name} {value:.6g} is recorded, {again:.6g} is what the model has")
    return compared(_SCORE, wrong, "; ".join(equal))


def _learning_task(folder: RunFolder, *, download: bool) -> LearningTask:
    """The run's own; nothing is fetched unless asked for."""
    experiment = folder.experiment
    learning = experiment.learning.model_copy(update={"download": download})
    wanted = experiment.model_copy(update={"learning": learning})
    return learning_task_of(wanted, len(folder.info.device_names))


def _named_by_the_log(
    model: Vector, task: LearningTask, log: EventLog, folder: RunFolder
) -> Iterator[CheckFinding]:
    """The event log names models by their bytes. What an algorithm sends beside a model is in no file."""
    digests = log.texts(CloudAggregated, "digest")
    blob = encode(model, task.layout.fingerprint)
    if not len(digests) or folder.info.model_bytes != len(blob):
        return
    last = digests[len(digests) - 1].as_py()
    ours, theirs = digest_like(last, blob), last[:SHOWN]
    text = f"{GLOBAL_MODEL} is {ours[:SHOWN]}; the event log names {theirs} as the last one"
    yield compared(_MODEL, [] if ours == last else [text], f"the event log names it: {theirs}")
