"""Clocks of agents over real gRPC: offset, drift, bound, and when no probe may be sent."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict
from pathlib import Path

import pytest

from agent_ports import Log, Party
from hand_agent import LAYOUT, MODEL, REPORT, SPEC, HandAgent, bench, connected, done, hand_agent, train_order
from roambench.agent.session.control_link import ControlLink
from roambench.agent.settings import AgentSettings, MeterSettings
from roambench.contract.device_time import DeviceClock
from roambench.contract.errors import FleetError
from roambench.contract.events import EventKind
from roambench.contract.records import AgentEvent
from roambench.energy.clocks.clock_fit import ClockVerdict
from roambench.fleet.grpc_fleet import FleetSettings, GrpcFleet
from roambench.fleet.limits import AgentLimits
from roambench.identity.authority import CONTROLLER_NAME, Authority
from roambench.meters.traits import MeterDescription
from roambench.rounds.records import ClockProbed
from roambench.runner.agents.clocks import FleetClocks, check_clocks
from roambench.runs.measured.clocks import ReaderCase, board_clock
from roambench.wire.v1 import control_pb2 as wire
from roambench.wire.v1.methods import PROTOCOL_VERSION

pytestmark = pytest.mark.asyncio

NAMES = ("pi-01", "pi-02")
REMOTE = MeterDescription("smartpower2", "/dev/ttyUSB0", "smartpower2", remote_reader="controller")
LOCAL = MeterDescription("smartpower2", "/dev/ttyUSB0", "smartpower2")


@asynccontextmanager
async def controller(
    authority: Authority, limits: AgentLimits | None = None
) -> AsyncIterator[tuple[GrpcFleet, list[ClockProbed]]]:
    bursts: list[ClockProbed] = []
    fleet = GrpcFleet(
        FleetSettings("run", NAMES, (SPEC, SPEC), LAYOUT, 5.0),
        authority.issue(CONTROLLER_NAME),
        DeviceClock(),
        lambda name, uuid, records: max(seq for seq, _, _ in records),
        lambda *event: None,
        clock_observer=bursts.append,
        limits=limits,
    )
    await fleet.start()
    try:
        yield fleet, bursts
    finally:
        await fleet.stop("test over", drain_s=2.0)


@asynccontextmanager
async def echoing(authority: Authority, name: str, port: int) -> AsyncIterator[None]:
    """An agent in this process whose clock is this machine's: its true offset is 0."""

    def take(frame: wire.ControllerFrame) -> None:
        if frame.HasField("clock_probe"):
            now_ns = time.monotonic_ns()
            echo = wire.ClockEcho(probe=frame.clock_probe.probe, received_ns=now_ns, sent_ns=now_ns)
            link.send(wire.AgentFrame(clock_echo=echo))

    def hello() -> wire.Hello:
        return wire.Hello(protocol_version=PROTOCOL_VERSION, device=name, machine_id=name, boot_id="boot")

    link = ControlLink(f"127.0.0.1:{port}", authority.issue(name), name, Log())
    task = asyncio.create_task(link.run(Party(hello, take)))
    try:
        yield
    finally:
        link.hang_up("test over")
        await asyncio.wait({task}, timeout=60)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@asynccontextmanager
async def slow_road(to_port: int, there_s: float, back_s: float) -> AsyncIterator[int]:
    """A TCP relay that holds every byte back, by another time in each direction; yields its port."""
    tasks: set[asyncio.Task[None]] = set()

    async def carry(source: asyncio.StreamReader, sink: asyncio.StreamWriter, delay_s: float) -> None:
        queue: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

        async def deliver() -> None:
            while True:
                due_s, data = await queue.get()
                await asyncio.sleep(due_s - time.monotonic())
                if not data:
                    sink.close()
                    return
                sink.write(data)

        delivery = asyncio.create_task(deliver())
        try:
            while data := await source.read(65536):
                queue.put_nowait((time.monotonic() + delay_s, data))
            queue.put_nowait((time.monotonic() + delay_s, b""))
            await delivery
        except OSError:
            pass
        finally:
            delivery.cancel()
            sink.close()
            with contextlib.suppress(OSError):
                await sink.wait_closed()

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", to_port)
        for source, sink, delay_s in ((reader, far_writer, there_s), (far_reader, writer, back_s)):
            task = asyncio.create_task(carry(source, sink, delay_s))
            tasks.add(task)
            task.add_done_callback(tasks.discard)

    server = await asyncio.start_server(relay, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def until(ask: Callable[[], object], patience_s: float = 30.0) -> None:
    async with asyncio.timeout(patience_s):
        while not ask():
            await asyncio.sleep(0.01)


def worst_ppm_of(bursts: Sequence[ClockProbed]) -> float:
    """By how much a drift between the first and the last of them may be off."""
    seconds = (bursts[-1].at_ns - bursts[0].at_ns) * 1e-9
    return 2.0 * max(burst.bound_ns for burst in bursts) * 1e-3 / seconds


async def test_a_real_agents_shifted_and_drifting_clock_is_found_within_its_bound(tmp_path: Path) -> None:
    """A process whose clock runs 1 % fast and was right 100 s ago: 1 s ahead now, 10 ms more every second."""
    epoch_ns = time.monotonic_ns() - 100_000_000_000
    theirs = DeviceClock(epoch_ns, 1.01)
    authority = Authority.create()
    async with controller(authority) as (fleet, bursts):
        authority.issue("pi-01").save(tmp_path / "identity")
        settings = AgentSettings(
            device="pi-01",
            controller=f"127.0.0.1:{fleet.control_port}",
            identity_dir=str(tmp_path / "identity"),
            state_dir=str(tmp_path / "state"),
            epoch_ns=epoch_ns,
            time_scale=1.01,
            meter=MeterSettings(port=""),
        )
        (tmp_path / "agent.json").write_text(json.dumps(asdict(settings)))
        command = str(Path(sys.executable).with_name("roambench-agent"))
        with (tmp_path / "agent.log").open("wb") as log:
            process = await asyncio.create_subprocess_exec(
                command, "run", "--settings", str(tmp_path / "agent.json"), stdout=log, stderr=log
            )
        try:
            await until(lambda: bursts, 60.0)
            await asyncio.sleep(0.7)
            await fleet.probe_clocks("before")
            deadline_s = time.monotonic() + 60.0
            while len(bursts) < 4 or worst_ppm_of(bursts) > 4_000:  # a late burst counts less and less
                assert time.monotonic() < deadline_s
                await asyncio.sleep(0.7)
                await fleet.probe_clocks("during")
            await fleet.probe_clocks("after")
        finally:
            process.terminate()
            await asyncio.wait_for(process.wait(), 30)
    between = ["during"] * (len(bursts) - 3)
    assert [burst.occasion for burst in bursts] == ["hello", "before", *between, "after"]
    assert {burst.probes for burst in bursts} == {8}
    assert {burst.boot_id for burst in bursts} == {
        Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    }
    for burst in bursts:
        true_ns = theirs.from_host_ns(burst.at_ns) - burst.at_ns
        assert true_ns > 1_000_000_000
        # Besides the bound: within half a round trip the fast clock gains one per cent of it.
        assert abs(burst.offset_ns - true_ns) <= burst.bound_ns * 1.01
        t0_ns, t1_ns, t2_ns, t3_ns = burst.stamps_ns
        assert burst.offset_ns == pytest.approx(((t1_ns - t0_ns) + (t2_ns - t3_ns)) / 2)
        assert burst.bound_ns == pytest.approx(((t3_ns - t0_ns) - (t2_ns - t1_ns)) / 2)
    clock = board_clock("pi-01", bursts, LOCAL)
    assert clock.drift_ppm == pytest.approx(10_000, abs=worst_ppm_of(bursts))


async def test_uneven_delays_grow_the_bound_until_it_is_flagged_and_then_refused() -> None:
    """All of the delay lies on one way: the offset is wrong by half of it, just as the bound allows."""
    authority = Authority.create()
    async with (
        controller(authority) as (fleet, bursts),
        slow_road(fleet.control_port, 0.0, 0.3) as slow,
        slow_road(fleet.control_port, 0.9, 0.0) as slower,
        echoing(authority, "pi-01", slow),
        echoing(authority, "pi-02", slower),
    ):
        await until(lambda: {burst.device for burst in bursts} == {0, 1}, 60.0)
        clocks = {
            name: board_clock(name, [burst for burst in bursts if burst.device == device], REMOTE)
            for device, name in enumerate(NAMES)
        }
        flagged, refused = clocks["pi-01"], clocks["pi-02"]
        assert flagged.verdict is ClockVerdict.FLAGGED
        assert 150 <= flagged.bound_ns * 1e-6 < 250
        assert abs(flagged.offset_ms) == pytest.approx(150, abs=20)
        assert abs(flagged.offset_ms) * 1e6 <= flagged.bound_ns
        assert refused.verdict is ClockVerdict.REFUSED
        assert refused.refused
        assert refused.bound_ns * 1e-6 >= 450

        with pytest.raises(FleetError, match=r"^pi-02: its clock is known to \d{3} ms only; the meter"):
            check_clocks(NAMES, bursts, {name: [REMOTE.to_event(1)] for name in NAMES})
        check_clocks(NAMES, bursts, {name: [LOCAL.to_event(1)] for name in NAMES})


async def test_a_board_that_reads_its_own_meter_needs_no_offset() -> None:
    authority = Authority.create()
    async with controller(authority) as (fleet, _):  # nobody is here: no clock is known at all
        clocks = FleetClocks(fleet, NAMES, DeviceClock(), period_s=60.0)
        await clocks.before({"pi-01": [LOCAL.to_event(1)], "pi-02": [AgentEvent(EventKind.METER_OK, 1)]})
        with pytest.raises(FleetError, match="pi-02: its clock did not answer a single probe"):
            await clocks.before({"pi-01": [LOCAL.to_event(1)], "pi-02": [REMOTE.to_event(2)]})
        lost = MeterDescription("smartpower2", "/dev/ttyUSB0", "smartpower2", remote_reader="gateway")
        with pytest.raises(FleetError, match="pi-01: gateway reads its meter, but its clock is not probed"):
            await clocks.before({"pi-01": [lost.to_event(1)]})
    clock = board_clock("pi-01", [], LOCAL)
    assert (clock.case, clock.refused) == (ReaderCase.LOCAL, False)
    assert clock.sentence() == "pi-01: reads its own meter, so no offset is needed (no clock probes)"


async def test_between_steps_a_burst_is_made_when_one_is_due() -> None:
    authority = Authority.create()
    async with (
        controller(authority) as (fleet, bursts),
        echoing(authority, "pi-01", fleet.control_port),
    ):
        await until(lambda: bursts)
        often = FleetClocks(fleet, NAMES, DeviceClock(), period_s=0.0)
        seldom = FleetClocks(fleet, NAMES, DeviceClock(), period_s=3600.0)
        for clocks in (often, seldom):
            await clocks.before({})
            for _ in range(3):
                await clocks.between_steps()
            await clocks.after()
    assert [burst.occasion for burst in bursts] == [
        *("hello", "before", "during", "during", "during", "after"),
        *("before", "after"),
    ]


async def test_no_probe_is_sent_to_a_device_that_has_an_order() -> None:
    """The agent holds its answer back while two bursts are asked for: it hears of none of them."""
    probes: list[int] = []
    may_answer = asyncio.Event()

    async def serve(agent: HandAgent, order: wire.Order) -> None:
        await may_answer.wait()
        agent.link.send(done(order, train=REPORT))

    async with bench() as where, hand_agent(where, on_order=serve) as agent:
        await connected(where)
        await until(lambda: EventKind.CLOCK_OFFSET in where.kinds())
        take = agent.take

        def count(frame: wire.ControllerFrame) -> None:
            if frame.HasField("clock_probe"):
                probes.append(frame.clock_probe.probe)
            take(frame)

        agent.take = count
        asked = asyncio.create_task(where.fleet.perform([train_order(where.fleet.publish(MODEL))]))
        await until(lambda: agent.orders)
        assert await where.fleet.probe_clocks("during") == []
        assert await where.fleet.probe_clocks("during") == []
        assert probes == []
        may_answer.set()
        await asked
        assert [burst.probes for burst in await where.fleet.probe_clocks("during")] == [8]
        assert len(probes) == 8


async def test_in_an_idle_baseline_no_clock_is_probed_not_even_of_an_agent_that_comes_back() -> None:
    authority = Authority.create()
    async with controller(authority) as (fleet, bursts):
        fleet.hush(True)
        async with echoing(authority, "pi-01", fleet.control_port):
            await until(lambda: fleet.sessions.all())
            assert await fleet.probe_clocks("during") == []
            await asyncio.sleep(0.1)
            assert bursts == []
            fleet.hush(False)
            assert [burst.probes for burst in await fleet.probe_clocks("after")] == [8]


async def test_a_silent_agent_ends_a_burst_and_holds_up_no_other() -> None:
    authority = Authority.create()
    async with controller(authority, AgentLimits(echo_s=0.1)) as (fleet, bursts):

        def hello() -> wire.Hello:
            return wire.Hello(protocol_version=PROTOCOL_VERSION, device="pi-02", machine_id="b")

        mute = ControlLink(
            f"127.0.0.1:{fleet.control_port}",
            authority.issue("pi-02"),
            "pi-02",
            Log(),
        )
        task = asyncio.create_task(mute.run(Party(hello)))
        async with echoing(authority, "pi-01", fleet.control_port):
            await until(lambda: len(fleet.sessions.all()) == 2 and bursts)
            assert [burst.device for burst in await fleet.probe_clocks("before")] == [0]
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
