"""Agents exchange models while two of them are killed again and again: nothing hangs, no reading is lost,
and every single exchange is accounted for."""

from __future__ import annotations

import math
import sqlite3
import time
from collections import Counter
from contextlib import closing
from dataclasses import dataclass

import pyarrow.parquet as pq
import pytest

from roambench.contract.draws import generator
from roambench.contract.events import EventKind
from roambench.contract.phases import Phase
from roambench.energy.readings.timeline import partition_check
from roambench.rounds.exchanges import PeerTransfer, peer_transfers
from roambench.rounds.records import (
    FleetEvent,
    MixingPlanned,
    ModelsExchanged,
    OrderAnswered,
    OrderGiven,
    RoundRecord,
    StepClosed,
)
from roambench.runs.measured.accounts import RunEnergy
from samples import sampled

pytestmark = pytest.mark.timeout(600)  # on a machine that does other things

SYSTEM = "metropolis_hastings"
DEADLINE_S, TIME_SCALE = 160.0, 4.0
MOMENTS = (EventKind.TRAIN_STARTED, EventKind.EXCHANGE_STARTED)
EXPERIMENT = """
name = "killed"
seed = 5
systems = ["metropolis_hastings"]

[fleet]
agents = AGENTS
deadline_s = DEADLINE_S

[learning]
dataset = "digits"
model = "mlp"
images_per_device = 40
test_images = 200

[decentralised]
iterations = STEPS
evaluate_every = 4
exchange_deadline_s = 40.0

[mobility]
model = "random"
grid = 5
mobile = 2

[contacts]
radius = 2.0

[rounds]
rest_s = 0.0

[local]
time_scale = TIME_SCALE
upload_mbit_s = 0.2
download_mbit_s = 2.0

[energy]
idle_baseline_s = 2.0
"""


@dataclass(frozen=True)
class Size:
    """How many agents, in how many iterations, and how often each of two of them is killed."""

    agents: int
    steps: int
    kills: int

    def experiment(self) -> str:
        values = {"AGENTS": self.agents, "STEPS": self.steps}
        text = EXPERIMENT
        for name, value in {**values, "DEADLINE_S": DEADLINE_S, "TIME_SCALE": TIME_SCALE}.items():
            text = text.replace(f"= {name}\n", f"= {value}\n")
        return text


@dataclass(frozen=True)
class Kill:
    """What was planned: as soon as the journal holds this event of this agent in this step or later."""

    step: int
    device: int
    moment: str

    @property
    def name(self) -> str:
        return f"pi-{self.device + 1:02d}"


def planned_kills(size: Size) -> list[Kill]:
    """Two agents at random moments of random iterations."""
    draw = generator(7, "kills")
    victims = draw.choice(size.agents, 2, replace=False).tolist()
    kills = []
    for victim in victims:
        for step in sorted(draw.choice(range(1, size.steps - 2), size.kills, replace=False).tolist()):
            moment = str(draw.choice(MOMENTS))
            kills.append(Kill(step, victim, moment))
    return sorted(kills, key=lambda kill: kill.step)


@dataclass(frozen=True)
class Survived:
    """The finished run and what was done to it."""

    size: Size
    run: object
    kills: list[Kill]
    records: list[RoundRecord]
    energy: RunEnergy
    transfers: list[PeerTransfer]

    def of(self, kind: type) -> list:
        return [record for record in self.records if isinstance(record, kind)]

    @property
    def planned(self) -> Counter[int]:
        """How many models were to move in each step."""
        return Counter(
            {p.step: len(p.columns) - sum(c > 0 for c in p.counts) for p in self.of(MixingPlanned)}
        )


@pytest.fixture(scope="module", params=sampled([Size(5, 8, 1)], [Size(12, 20, 3)]), ids=str)
def survived(request, launch, tmp_path_factory) -> Survived:
    size: Size = request.param
    file = tmp_path_factory.mktemp("killed") / "killed.toml"
    file.write_text(size.experiment())
    run = launch(file=file, name="killed")
    journal = run.folder(SYSTEM) / "events.sqlite"
    kills, before = planned_kills(size), Counter()
    for kill in kills:
        wait_for(run, journal, kill, before[kill.name])
        hellos = count(journal, EventKind.SESSION_OPENED, kill.name)
        run.agent(kill.name, SYSTEM).reader.kill()
        launch.until(
            lambda k=kill, n=hellos: count(journal, EventKind.SESSION_OPENED, k.name) > n,
            60,
            f"{kill.name} again",
        )
        before[kill.name] = sum(count(journal, moment, kill.name) for moment in MOMENTS)
    run.finish(400)
    records = run.records(SYSTEM)
    return Survived(size, run, kills, records, run.energy(SYSTEM), list(peer_transfers(records)))


def wait_for(run, journal, kill: Kill, before: int) -> None:
    """Until the agent, in a new life, is in the planned moment of the planned step, or of a later one."""
    deadline_s = time.monotonic() + 180.0
    while time.monotonic() < deadline_s:
        assert run.process.poll() is None, f"the run ended before {kill}:\n{run.text()}"
        lives = sum(count(journal, moment, kill.name) for moment in MOMENTS) > before
        if lives and count(journal, kill.moment, kill.name, kill.step):
            return
        time.sleep(0.01)
    raise AssertionError(f"{kill} never came:\n{run.text()}")


def count(journal, kind: str, name: str, from_step: int = -1) -> int:
    """How many such events the fleet saw of the agent, in that step or later."""
    ask = (
        "SELECT count(*) FROM event WHERE kind = 'FleetEvent' AND body ->> 'kind' = ? "
        "AND body ->> 'name' = ? AND body ->> 'step' >= ?"
    )
    if not journal.is_file():
        return 0
    with closing(sqlite3.connect(f"{journal.as_uri()}?mode=ro", uri=True, timeout=10)) as opened:
        try:
            (found,) = opened.execute(ask, (kind, name, from_step)).fetchone()
        except sqlite3.OperationalError:  # it has just been created
            return 0
    return int(found)


def test_the_run_goes_on_to_the_end_and_waits_for_no_order_deadline(survived: Survived) -> None:
    closed = survived.of(StepClosed)
    assert [record.step for record in closed] == list(range(survived.size.steps))
    assert max(record.wall_s for record in closed) < DEADLINE_S / TIME_SCALE
    lost = Counter(event.name for event in survived.of(FleetEvent) if event.kind == EventKind.SESSION_LOST)
    assert lost == Counter(kill.name for kill in survived.kills)


def test_every_device_answers_every_iteration_and_only_the_killed_fail(survived: Survived) -> None:
    answers = [r for r in survived.of(OrderAnswered) if r.order_id.endswith("exchange")]
    assert Counter(answer.device for answer in answers) == Counter(
        dict.fromkeys(range(survived.size.agents), survived.size.steps)
    )
    failed = [answer for answer in answers if answer.status != "done"]
    victims = {kill.device for kill in survived.kills}
    assert failed or survived.size.kills < 3  # few kills may all miss a training
    assert {answer.device for answer in failed} <= victims
    assert len(failed) <= len(survived.kills)
    assert {answer.reason for answer in failed} <= {"the agent died while training"}


def test_a_killed_agent_goes_on_from_the_model_it_held(survived: Survived) -> None:
    given = [record for record in survived.of(OrderGiven) if record.kind == "exchange"]
    assert {record.step for record in given if record.start_digest} == {0}  # nobody is given a model again
    done = {(r.step, r.device) for r in survived.of(ModelsExchanged)}
    for kill in survived.kills:
        assert (survived.size.steps - 1, kill.device) in done


def test_no_reading_is_lost(survived: Survived) -> None:
    folder = survived.run.folder(SYSTEM)
    with closing(sqlite3.connect(folder / "records.sqlite")) as store:
        stored = {
            name: (count, first, last)
            for name, count, first, last in store.execute(
                "SELECT device, count(*), min(seq), max(seq) FROM record GROUP BY device"
            )
        }
        assert store.execute("SELECT count(*) FROM dead_letter").fetchone() == (0,)
        assert store.execute("SELECT count(DISTINCT spool_uuid) FROM record").fetchone() == (
            survived.size.agents,
        )
    assert len(stored) == survived.size.agents
    for count, first, last in stored.values():
        assert (first, count) == (1, last)  # none is missing before the last one of the run


def test_every_exchange_is_accounted_for(survived: Survived) -> None:
    assert Counter(item.step for item in survived.transfers) == survived.planned
    pairs = Counter((item.step, item.sender, item.receiver) for item in survived.transfers)
    assert set(pairs.values()) == {1}
    sizes = {item.transferred_bytes for item in survived.transfers if item.status == "done"}
    assert len(sizes) == 1
    missed = [item for item in survived.transfers if item.status != "done"]
    victims = {kill.device for kill in survived.kills}
    assert missed or survived.size.kills < 3  # few may all be back in time
    assert all(item.sender in victims or item.receiver in victims for item in missed)
    table = pq.read_table(survived.run.folder(SYSTEM) / "exchanges.parquet").to_pylist()
    assert len(table) == len(survived.transfers)
    assert sum(row["transferred_bytes"] for row in table) == sum(
        t.transferred_bytes for t in survived.transfers
    )


def test_whoever_lived_received_what_is_accounted_for(survived: Survived) -> None:
    for told in survived.of(ModelsExchanged):
        came = [t for t in survived.transfers if (t.step, t.receiver) == (told.step, told.device)]
        assert sum(item.transferred_bytes for item in came) == told.received_bytes
        assert tuple(sorted(t.sender for t in came if t.status != "done")) == told.left_out


def test_sender_and_receiver_are_charged_in_the_ledger(survived: Survived) -> None:
    energy = survived.energy
    told = {record.order_id: record for record in survived.of(ModelsExchanged)}
    charged: Counter[str] = Counter()
    for device in energy.devices:
        assert partition_check(device.spans, energy.start_ns, energy.end_ns) == []
        for row, span in zip(device.rows, device.spans, strict=True):
            if span.phase is Phase.EXCHANGE and span.order_id in told:
                assert row.outcome is not None
                assert row.gross_j > 0.0 or row.covered_s == 0.0
                charged[span.order_id] += span.transferred_bytes
    assert charged == Counter({o: r.sent_bytes + r.received_bytes for o, r in told.items()})


def test_the_meters_see_what_was_really_drawn(survived: Survived) -> None:
    for device in survived.energy.devices:
        assert device.truth.whole_j == pytest.approx(device.whole_run.joules, rel=0.05)
        covered_s = math.fsum(row.covered_s for row in device.rows)
        assert covered_s == pytest.approx(device.whole_run.covered_s, abs=1e-6)
