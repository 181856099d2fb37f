"""Campaigns on real hosts: a board loses its power, the controller is killed, a dead board has a spare.

Kinder than a bench: the boards boot in seconds, their meters are emulated, and the network is a cable.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from hosts.lab.bench_hosts import BenchHosts
from hosts.lab.bench_run import ALWAYS_THERE
from hosts.lab.cli import identified, roambench
from roambench.study.campaign.campaign_log import CampaignEvent, CampaignRow, End, read_campaign

pytestmark = [pytest.mark.slow, pytest.mark.timeout(2400)]

_ROOT = Path(__file__).resolve().parents[2]
_SHORT = ("trace.steps=4", "fleet.deadline_s=30", "learning.local_epochs=4")


class Campaign:
    """`roambench sweep` over some seeds, started at once."""

    def __init__(self, folder: Path, bench: Path, seeds: int, devices: int) -> None:
        self.out = folder / "out"
        (folder / "s.toml").write_text(
            f'experiment = "{_ROOT}/experiments/demo_full.toml"\nfleet = "bench:{bench}"\n'
            f'metrics = ["final_accuracy", "measured_j"]\n[grid]\nsystems = ["mohawk"]\nseeds = {seeds}\n'
        )
        settings = (*ALWAYS_THERE, *_SHORT, "rounds.rest_s=0", f"fleet.agents={devices}")
        self._words = [str(Path(sys.executable).with_name("roambench")), "sweep", str(folder / "s.toml")]
        self._words += ["-o", str(self.out), "--pause", "1", "--keep-free", "0.5"]
        self._words += [word for setting in settings for word in ("--set", setting)]
        self._log = folder / "log.txt"
        self.begin()

    def begin(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._words,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, "COLUMNS": "200", "OMP_NUM_THREADS": "1"},
                start_new_session=True,
            )

    def rows(self, *events: CampaignEvent) -> list[CampaignRow]:
        return [row for row in read_campaign(self.out) if row.event in events]

    def until(self, what: Callable[[], bool]) -> None:
        """Wait for it as long as the campaign lives."""
        while not what():
            assert self._process.poll() is None, self._log.read_text()
            time.sleep(0.3)

    def is_in_point(self, number: int) -> bool:
        """Whether the run of the `number`-th point (from 1) plays its rounds."""
        began = self.rows(CampaignEvent.POINT_BEGAN)
        if len(began) < number:
            return False
        return any((self.out / "points" / began[-1].point).glob("runs/*/checkpoint.json"))

    def kill(self) -> None:
        os.kill(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def end(self) -> str:
        """The status has to be 0; what it said."""
        assert self._process.wait() == 0, self._log.read_text()
        return self._log.read_text()

    def stop(self) -> None:
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(120)


@pytest.fixture
def proven(provisioned: BenchHosts) -> Iterator[BenchHosts]:
    """Hosts whose meters are proven, as a campaign wants it; all have power again at the end."""
    provisioned.settle()
    said = identified("fleet", "identify", provisioned.bench)
    assert said.code == 0, said
    yield provisioned
    for name in provisioned.names:
        provisioned.on(name)


def test_a_board_without_power_and_a_killed_controller_cost_a_campaign_no_point(
    proven: BenchHosts, tmp_path: Path
) -> None:
    """pi2 is cut at its meter in the second point, the controller is killed in the third."""
    campaign = Campaign(tmp_path, proven.bench, seeds=4, devices=3)
    try:
        campaign.until(lambda: campaign.is_in_point(2))
        proven.off("pi2")
        campaign.until(lambda: bool(campaign.rows(CampaignEvent.POWER_CYCLED)))
        finished = campaign.rows(CampaignEvent.POINT_ENDED)
        tries = [row.end for row in finished]
        assert tries[:2] == [End.FINISHED, End.UNFIT]
        campaign.until(lambda: len({row.point for row in campaign.rows(CampaignEvent.POINT_BEGAN)}) == 3)
        campaign.until(lambda: campaign.is_in_point(len(campaign.rows(CampaignEvent.POINT_BEGAN))))
        campaign.kill()
        campaign.begin()
        campaign.end()
    finally:
        campaign.stop()
    # On a machine that others keep busy an emulated board may fail the preflight's idle watts, too.
    cycled = campaign.rows(CampaignEvent.POWER_CYCLED)[0]
    assert (cycled.board, cycled.done) == ("pi2", True)
    assert [row.board for row in campaign.rows(CampaignEvent.BOARD_FAILED)][:2] == ["pi2", "pi2"]
    assert len(campaign.rows(CampaignEvent.RESUMED)) == 1
    table = json.loads((campaign.out / "table.json").read_text())
    assert [(row["finished"], row["sure"], row["doubts"]) for row in table["rows"]] == [(4, True, [])]
    second = campaign.out / "points" / finished[1].point
    kept = json.loads((second / "attempts/001/result.json").read_text())
    assert kept["boards"] == ["pi2"]
    assert "coverage" in kept["unfit"][0]
    assert list((second / "attempts/001/runs").glob("*/run.json"))


def test_a_board_that_stays_dead_is_replaced_by_the_spare_and_the_campaign_goes_on(
    proven: BenchHosts, tmp_path: Path
) -> None:
    """pi2 has no switch and dies in the first point; pi3 waits with the tag `spare`."""
    written = proven.bench.read_text()
    assert written.count("[[hosts]]") == 3
    first, one, two, three = written.split("[[hosts]]")
    two = "".join(line for line in two.splitlines(keepends=True) if "wifi_hop" not in line)
    bench = proven.bench.with_name("spare.toml")  # of the same name: the same state
    bench.write_text("[[hosts]]".join([first, one, two, f'{three}tags = ["spare"]\n']))
    campaign = Campaign(tmp_path, bench, seeds=2, devices=2)
    try:
        campaign.until(lambda: campaign.is_in_point(1))
        proven.off("pi2")
        campaign.end()
        began = campaign.rows(CampaignEvent.POINT_BEGAN)
        (replaced,) = campaign.rows(CampaignEvent.REPLACED)
        assert (replaced.board, replaced.spare, replaced.done) == ("pi2", "pi3", True)
        cared = campaign.rows(CampaignEvent.POWER_CYCLED, CampaignEvent.LEFT_OUT, CampaignEvent.REPLACED)
        assert cared[0] == replaced
        table = json.loads((campaign.out / "table.json").read_text())
        assert [(row["finished"], row["sure"]) for row in table["rows"]] == [(2, True)]
        (run,) = (campaign.out / "points" / began[-1].point).glob("runs/*/bench.json")
        addresses = [host["address"] for host in json.loads(run.read_text())["hosts"]]
        assert addresses == [proven.address("pi1"), proven.address("pi3")]
    finally:
        campaign.stop()
        proven.on("pi2")
        roambench("fleet", "replace", proven.bench, "pi2", "--undo")
        bench.unlink()
        words = ("--only", "pi2", "--only", "pi3")
        said = roambench("fleet", "provision", proven.bench, *words, timeout_s=580)
    assert said.code == 0, said
