"""Every kind of fault: what it does to a run that is under way, and what it may cost."""

from __future__ import annotations

import contextlib
import dataclasses
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
import psutil

from roambench.contract.errors import MeterError, RoambenchError
from roambench.emulation.control import inject
from roambench.emulation.spec import Fault as MeterFault
from roambench.emulation.spec import FaultKind
from roambench.identity.authority import CONTROLLER_NAME, Authority, Credential
from roambench.wire.v1.methods import DOWNLOAD, DRAIN, UPLOAD
from soaking import rubbish
from soaking.sockets import Found, half_close, held, lose, lose_nothing, reset
from soaking.worlds import TIME_SCALE, World

if TYPE_CHECKING:
    from soaking.hosts import SoakedHosts
    from soaking.plan import Fault
    from soaking.underway import Underway

#: Does the fault; returns what was hit, None where there was nothing to hit.
Act = Callable[["Underway", "Fault"], str | None]
#: How often new connections are looked for while a link is down, host seconds.
_LOOK_S: Final = 0.1


@dataclass(frozen=True)
class Kind:
    """`costs_training`: a training may be lost to it, with a reason. `ends`: the run ends by it, with this
    status. `stops_reading`: the agent hit does not read its meter meanwhile; `breaks_lines`: what its meter
    says may be no reading. `everybody`: all agents are hit. `may_fail`: the run may end with this reason.
    `resumes`: it is ended and goes on."""

    name: str
    act: Act
    lasts_s: tuple[float, float] = (0.0, 0.0)
    costs_training: bool = False
    stops_reading: bool = False
    breaks_lines: bool = False
    everybody: bool = False
    ends: int | None = None
    may_fail: str = ""
    fleets: tuple[str, ...] = ("local",)
    influxdb: bool = False
    resumes: bool = False

    def fits(self, world: World) -> bool:
        return world.fleet in self.fleets and (world.influxdb or not self.influxdb)


def _kill(who: str) -> Act:
    def act(run: Underway, fault: Fault) -> str | None:
        process = run.process_of(fault.device, who)
        if process is None:
            return None
        process.kill()
        return f"{who} {process.pid}"

    return act


def _stop(who: str) -> Act:
    def act(run: Underway, fault: Fault) -> str | None:
        process = run.controller if who == "controller" else run.process_of(fault.device, who)
        if process is None:
            return None
        process.suspend()
        try:
            time.sleep(fault.lasts_s)
        finally:
            with contextlib.suppress(psutil.Error):
                process.resume()
        return f"{who} {process.pid}"

    return act


def _reset(run: Underway, fault: Fault) -> str | None:
    mine = run.links(fault.device)
    some = mine if fault.draw % 2 else [one for one in run.far_ends(mine) if one not in mine]
    with held(some) as sockets:
        for one in sockets:
            reset(one)
        return f"{len(sockets)} connections" if sockets else None


def _reset_in_transfer(run: Underway, fault: Fault) -> str | None:
    """As soon as the device begins to move a model, or a moment later."""
    if not run.wait_for_transfer(fault.device, 6.0):
        return None
    time.sleep(fault.draw % 1000 / 1000 * 0.6)
    return _reset(run, fault)


def _half_close(run: Underway, fault: Fault) -> str | None:
    mine = run.links(fault.device)
    some = mine if fault.draw % 2 else [one for one in run.far_ends(mine) if one not in mine]
    with held(some) as sockets:
        for one in sockets:
            half_close(one)
        return f"{len(sockets)} connections" if sockets else None


def _lost_while(find: Callable[[], list[Found]], lasts_s: float, share: float) -> int:
    """This share is lost of what arrives at any socket that is there or comes within the time; how many they
    were."""
    hit: set[Found] = set()
    until_s = time.monotonic() + lasts_s
    try:
        while True:
            new = [one for one in find() if one not in hit]
            with held(new) as sockets:
                for one in sockets:
                    lose(one, share)
            hit.update(new)
            if time.monotonic() + _LOOK_S >= until_s:
                break
            time.sleep(_LOOK_S)
        time.sleep(max(0.0, until_s - time.monotonic()))
    finally:
        with held(hit) as sockets:
            for one in sockets:
                lose_nothing(one)
    return len(hit)


def _lossy(share: float) -> Act:
    def act(run: Underway, fault: Fault) -> str | None:
        ends = lambda: run.far_ends(run.links(fault.device))  # noqa: E731
        count = _lost_while(ends, fault.lasts_s, share)
        return f"{count} ends" if count else None

    return act


def _flapping(run: Underway, fault: Fault) -> str | None:
    draw = np.random.Generator(np.random.PCG64(fault.draw))
    until_s, hit = time.monotonic() + fault.lasts_s, 0
    while time.monotonic() < until_s:
        hit += _lost_while(lambda: run.far_ends(run.links(fault.device)), float(draw.uniform(0.1, 0.8)), 1.0)
        time.sleep(float(draw.uniform(0.1, 0.8)))
    return f"{hit} ends" if hit else None


def _unreachable(run: Underway, fault: Fault) -> str | None:
    """The controller's ports, and all that goes over them, are in a hole: for everybody."""
    count = _lost_while(lambda: run.far_ends(run.ports()), fault.lasts_s, 1.0)
    return f"{count} ends" if count else None


def _meter(kind: FaultKind, *, count: bool = False) -> Act:
    def act(run: Underway, fault: Fault) -> str | None:
        what = MeterFault(
            kind,
            duration_s=fault.lasts_s * TIME_SCALE,
            count=1 + fault.draw % 5 if count else 1,
        )
        try:
            inject(run.emulator_socket(), fault.device, what)
        except (MeterError, OSError):
            return None
        time.sleep(fault.lasts_s)
        return f"{what.count} lines" if count else kind.value

    return act


def _disk(how: str, whose: str = "") -> Act:
    def act(run: Underway, fault: Fault) -> str | None:
        if run.switches is None:
            return None
        name = whose or fault.device
        with run.switches.on(f"{name}.{how}", str(300 + fault.draw % 1700)):
            time.sleep(fault.lasts_s)
        return name

    return act


def _wall_clock(whose: str) -> Act:
    def act(run: Underway, fault: Fault) -> str | None:
        process = run.controller if whose else run.process_of(fault.device, "reader")
        if run.switches is None or process is None:
            return None
        step_s = fault.draw % 600 - 300 if fault.draw % 3 else fault.draw % 172_800
        run.switches.keep(f"clock.{process.pid}", str(step_s))
        return f"{step_s:+d} s"

    return act


def _silent(run: Underway, fault: Fault) -> str | None:
    """Calls without a request, by the device's own certificate, at the ports that the others need."""
    port, methods = (run.control_port, [DRAIN]) if fault.draw % 2 else (run.data_port, [DOWNLOAD, UPLOAD])
    opened = _call(run.folder / "identity" / fault.device, port, fault.lasts_s, 20.0, 4, 12, methods)
    return f"{opened} calls" if opened else None  # without its certificates the run is over


def _call(
    identity: Path,
    port: int,
    lasts_s: float,
    patience_s: float,
    connections: int,
    each: int,
    methods: list[str],
) -> str:
    """How many calls were opened, in a process of its own: gRPC likes one event loop a process."""
    words = [identity, f"127.0.0.1:{port}", CONTROLLER_NAME, lasts_s, patience_s, connections, each, *methods]
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("silent_calls.py")), *map(str, words)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.strip()


def _rubbish(run: Underway, fault: Fault) -> str | None:
    """Malformed bytes: before TLS, and as HTTP/2 frames under a certificate that the bench knows."""
    draw = np.random.Generator(np.random.PCG64(fault.draw))
    files = run.folder / "identity" / fault.device
    try:
        tls = ssl.create_default_context(cafile=str(files / "ca.pem"))
        tls.set_alpn_protocols(["h2"])
        tls.load_cert_chain(files / "cert.pem", files / "key.pem")
    except OSError:
        return None
    count, until_s = 0, time.monotonic() + fault.lasts_s
    while time.monotonic() < until_s:
        port = (run.control_port, run.data_port)[int(draw.integers(2))]
        wrapped = draw.random() < 0.5
        data = rubbish.http2(draw) if wrapped else rubbish.before_tls(draw)
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 5.0) as plain:
            count += 1
            if wrapped:
                with tls.wrap_socket(plain, server_hostname=CONTROLLER_NAME) as line:
                    line.sendall(data)
            else:
                plain.sendall(data)
        time.sleep(0.02)
    return f"{count} connections" if count else None


def _stranger(run: Underway, fault: Fault) -> str | None:
    """Somebody with a certificate of another authority, who has the device's name."""
    try:
        ours = Credential.load(run.folder / "identity" / fault.device)
    except RoambenchError:  # the run is over
        return None
    stranger = dataclasses.replace(Authority.create().issue(fault.device), authority_pem=ours.authority_pem)
    identity = run.base / f"stranger-{fault.draw}"
    stranger.save(identity)
    opened = _call(identity, run.control_port, fault.lasts_s, 0.0, 1, 2, [DRAIN])
    return f"{opened or 'no'} calls"


def _influxd_killed(run: Underway, fault: Fault) -> str | None:
    if run.influxd is None:
        return None
    with run.influxd.away():
        time.sleep(fault.lasts_s)
    return f"port {run.influxd.port}"


def _end(number: signal.Signals) -> Act:
    def act(run: Underway, fault: Fault) -> str | None:
        run.controller.send_signal(number)
        return number.name

    return act


def _resumed(number: signal.Signals) -> Act:
    """End the controller as soon as there is something to go on from; `roambench resume` goes on."""

    def act(run: Underway, fault: Fault) -> str | None:
        return run.end_and_resume(number)

    return act


def _on_host(do: Callable[[SoakedHosts, Fault], None]) -> Act:
    def act(run: Underway, fault: Fault) -> str | None:
        if run.hosts is None:
            return None
        do(run.hosts, fault)
        return fault.device

    return act


_ANY: Final = ("local", "bench")
_HOSTS: Final = ("bench",)

_ALL = (
    Kind("agent killed", _kill("reader"), costs_training=True, stops_reading=True),
    Kind("agent stopped for seconds", _stop("reader"), (0.5, 8.0), stops_reading=True),
    Kind("trainer killed", _kill("trainer"), costs_training=True),
    Kind("trainer stopped for seconds", _stop("trainer"), (0.5, 6.0)),
    Kind("trainer fork server killed", _kill("fork_server"), costs_training=True),
    Kind("links reset", _reset),
    Kind("links reset in a transfer", _reset_in_transfer),
    Kind("links half closed", _half_close),
    Kind("links in a black hole", _lossy(1.0), (1.0, 20.0)),
    Kind("links lose a third", _lossy(0.33), (2.0, 8.0)),
    Kind("links flap", _flapping, (2.0, 8.0)),
    Kind("controller unreachable", _unreachable, (1.0, 8.0), everybody=True, fleets=_ANY),
    Kind("controller stopped for seconds", _stop("controller"), (0.5, 6.0), everybody=True, fleets=_ANY),
    Kind("meter unplugged", _meter(FaultKind.UNPLUG), (0.3, 4.0), stops_reading=True),
    Kind("meter says garbage", _meter(FaultKind.GARBAGE, count=True), breaks_lines=True),
    Kind("meter's lines truncated", _meter(FaultKind.TRUNCATE, count=True), breaks_lines=True),
    Kind("meter's lines lost", _meter(FaultKind.DROP, count=True), breaks_lines=True),
    Kind("meter's lines broken by others", _meter(FaultKind.NOISE, count=True), breaks_lines=True),
    Kind("meter stalls, then catches up", _meter(FaultKind.STALL), (0.3, 2.0)),
    Kind("meter silent", _meter(FaultKind.SILENCE), (0.3, 3.0)),
    Kind("meter boots", _meter(FaultKind.RESET), breaks_lines=True),
    Kind("agent's disk full", _disk("enospc"), (0.3, 3.0), costs_training=True, stops_reading=True),
    Kind("agent's disk fails to sync", _disk("eio"), (0.3, 3.0), costs_training=True, stops_reading=True),
    Kind("agent's disk slow to sync", _disk("slow"), (1.0, 6.0)),
    Kind(
        "controller's disk full",
        _disk("enospc", "controller"),
        (0.2, 1.5),
        everybody=True,
        may_fail="the disk is full",
    ),
    Kind("controller's disk slow to sync", _disk("slow", "controller"), (1.0, 4.0), everybody=True),
    Kind("agent's wall clock stepped", _wall_clock("")),
    Kind("controller's wall clock stepped", _wall_clock("controller"), everybody=True),
    Kind("calls without a request", _silent, (1.0, 6.0)),
    Kind("malformed bytes at the ports", _rubbish, (1.0, 5.0)),
    Kind("stranger's certificate", _stranger, (1.0, 3.0)),
    Kind("InfluxDB killed and started", _influxd_killed, (0.1, 2.0), influxdb=True),
    Kind("InfluxDB away for long", _influxd_killed, (5.0, 12.0), influxdb=True),
    Kind("Ctrl-C", _end(signal.SIGINT), ends=128 + signal.SIGINT),
    Kind("SIGTERM", _end(signal.SIGTERM), ends=128 + signal.SIGTERM),
    Kind("SIGHUP", _end(signal.SIGHUP), ends=128 + signal.SIGHUP),
    Kind("controller killed", _end(signal.SIGKILL), ends=-signal.SIGKILL),
    *(
        Kind(
            f"controller {ended} and resumed",
            _resumed(number),
            stops_reading=True,
            everybody=True,
            fleets=("local", "simulated", "bench"),
            resumes=True,
        )
        for ended, number in (("killed", signal.SIGKILL), ("stopped", signal.SIGTERM))
    ),
    Kind(
        "host rebooted",
        _on_host(lambda hosts, fault: hosts.reboot(fault.device)),
        costs_training=True,
        stops_reading=True,
        fleets=_HOSTS,
    ),
    Kind(
        "host's power cut",
        _on_host(lambda hosts, fault: hosts.cut_power(fault.device, fault.lasts_s)),
        (0.2, 5.0),
        costs_training=True,
        stops_reading=True,
        fleets=_HOSTS,
    ),
    Kind(
        "host's agent killed",
        _on_host(lambda hosts, fault: hosts.kill_agent(fault.device)),
        costs_training=True,
        stops_reading=True,
        fleets=_HOSTS,
    ),
    Kind(
        "host's agent stopped for seconds",
        _on_host(lambda hosts, fault: hosts.stop_agent(fault.device, fault.lasts_s)),
        (0.5, 8.0),
        stops_reading=True,
        fleets=_HOSTS,
    ),
    Kind(
        "host's link cut",
        _on_host(lambda hosts, fault: hosts.cut_link(fault.device, fault.lasts_s)),
        (1.0, 20.0),
        fleets=_HOSTS,
    ),
    Kind(
        "host's certificate rotated",
        _on_host(lambda hosts, fault: hosts.rotate_certificate(fault.device)),
        fleets=_HOSTS,
    ),
)
KINDS: Final[Mapping[str, Kind]] = {kind.name: kind for kind in _ALL}
