"""A point of a sweep's folder as a campaign runs it: one process a try, earlier tries kept aside."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from roambench.contract.json_values import kept_in
from roambench.fleet.fork_server import ForkServer
from roambench.runner.stopping import STOPPING, run_async
from roambench.runs.database import naming
from roambench.runs.whole_file import write_whole
from roambench.study.campaign.campaign import Ended
from roambench.study.campaign.campaign_log import End
from roambench.study.campaign.cooling import Cooled
from roambench.study.sweep.points import Point
from roambench.study.sweep.pool import Listener, run_points
from roambench.study.sweep.sweep_folder import PointEnd, SweepFolder

_START: Final = "start.json"


@dataclass(frozen=True, slots=True)
class CampaignPoint:
    """A `CampaignTask`. `heard` is called as by `pool.run_points`, which has the `server`, too."""

    point: Point
    sweep: SweepFolder
    heard: Listener
    server: ForkServer | None = None

    @property
    def name(self) -> str:
        """The name of its folder."""
        return self.point.folder_name

    @property
    def label(self) -> str:
        """The name for people."""
        return self.point.label

    @property
    def folder(self) -> Path:
        """The point's folder."""
        return self.sweep.folder_of(self.point)

    @property
    def tried(self) -> int:
        """The number of tries that have ended."""
        return len(self.sweep.tries_of(self.point))

    @property
    def attempt(self) -> int:
        """The number of the attempt that comes next."""
        return self.sweep.attempt_of(self.point)

    def put_aside(self, *, counts: bool) -> None:
        """Keep the latest attempt apart."""
        self.sweep.put_aside(self.point, counts=counts)

    def cooled(self, cooled: Cooled) -> None:
        """Keep how its start was waited for."""
        with naming(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
        write_whole(self.folder / _START, json.dumps(asdict(cooled), indent=1) + "\n")

    def run(self, left_out: tuple[str, ...]) -> Ended:
        """Try it in its own process."""
        run_async(run_points([self.point], 1, self.sweep, self.heard, left_out, self.server), STOPPING)
        outcome = self.sweep.outcome_of(self.point)
        assert outcome is not None  # `run_points` writes one for a process that left none
        return ended_of(outcome)


def ended_of(outcome: PointEnd) -> Ended:
    """Return how a try ended, as its campaign has it."""
    if not outcome.finished:
        return Ended(End.FAILED, outcome.reason, outcome.boards, outcome.wall_s)
    end = End.UNFIT if outcome.unfit else End.FINISHED
    return Ended(end, "; ".join(outcome.unfit), outcome.boards, outcome.wall_s)


def is_done(sweep: SweepFolder, point: Point, tries: int) -> bool:
    """Return whether nothing more is to be tried: it finished, and is fit or was tried often enough."""
    outcome = sweep.outcome_of(point)
    if outcome is None or not outcome.finished:
        return False
    return not outcome.unfit or len(sweep.tries_of(point)) >= tries


def read_start(folder: Path) -> Cooled | None:
    """Return how the start of the point in this folder was waited for; None where that was not kept."""
    return kept_in(Cooled, folder / _START)
