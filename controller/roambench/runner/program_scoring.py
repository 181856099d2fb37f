"""Scores global models by the program that has the data, in a separate process beside the controller."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from roambench.agent.orders.program import Program
from roambench.agent.orders.program_models import model_score, score_message
from roambench.agent.orders.worker import TrainerDied, TrainerRefused
from roambench.agent.session.data_link import TimeIsUp
from roambench.contract.errors import PluginError
from roambench.contract.orders import Vector
from roambench.contract.program_spec import ProgramSpec
from roambench.fleet.fork_server import ONE_THREAD
from roambench.rounds.ports import Score
from roambench.runs.folder import RunFolder
from roambench.runs.lost_metrics import LostMetrics

#: In the run folder.
FOLDER: Final = "scoring"
_LIMIT_S: Final = 3600.0


class ProgramEvaluator:
    """`rounds.ports.Evaluator` of models that programs train."""

    def __init__(self, program: Program, lost_metrics: LostMetrics) -> None:
        self._program, self._lost_metrics = program, lost_metrics

    async def score(self, model: Vector) -> Score:
        """The program's score. PluginError where it gives none."""
        try:
            await self._program.ready()
            computed = await self._program.call(score_message(model), _LIMIT_S)
            found = model_score(computed.answer)
        except (TrainerRefused, TrainerDied, TimeIsUp) as error:
            raise PluginError(f"scoring: {error}") from None
        self._lost_metrics.say(found.left_out)
        loss = float("nan") if found.loss is None else found.loss
        better = {name: "lower" if "loss" in name.lower() else "higher" for name in found.metrics}
        return Score(found.accuracy, loss, found.metrics, better)  # type: ignore[arg-type]


@asynccontextmanager
async def program_evaluator(spec: ProgramSpec, folder: RunFolder) -> AsyncIterator[ProgramEvaluator]:
    """An evaluator whose program is loaded; ended behind the body. PluginError says why it cannot be."""
    place = folder.path / FOLDER
    place.mkdir(parents=True, exist_ok=True)
    program = Program(place, environment=ONE_THREAD)
    try:
        try:
            await program.prepare(spec)
        except (TrainerRefused, TrainerDied) as error:
            raise PluginError(f"scoring: {error}") from None
        yield ProgramEvaluator(program, LostMetrics(folder))
    finally:
        await program.close()
