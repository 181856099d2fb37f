"""A kit: the answers of a board and its meter to load, rest and data."""

from __future__ import annotations

import re
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from roambench.contract import __version__
from roambench.energy.readings.samples import UNUSABLE
from roambench.extras.verify.cutting import CutPower, cut_power, latch_of
from roambench.extras.verify.imaging import image_of
from roambench.extras.verify.kit import FORMAT, NOT_A_PI, Kit, Looked, MeterSeries, TimedTransfer
from roambench.provision import layout
from roambench.provision.agent_asks import ask_agent
from roambench.provision.bench import CONTROLLER_READER, NO_METER, Bench, Host
from roambench.provision.claims import claim_by, keep_off
from roambench.provision.identify import seconds_to_here
from roambench.provision.meters_here import HeardMeter, meter_elsewhere, meters_here
from roambench.provision.preflight.host_clock import host_clock
from roambench.provision.preflight.preflight import check
from roambench.provision.ssh.host_error import HostError
from roambench.provision.ssh.hosts import HostLink, open_link
from roambench.provision.ssh.script import Script

#: Of the square wave: no multiple of any meter's period is near, so that lines fall everywhere in it.
PERIOD_S: Final = 5.37
#: Of a login, and after it: nothing that is measured.
_CALM_S: Final = 5.0
_PIECE: Final = bytes(2**16)
_EXCHANGES: Final = 8
_SLOW_S: Final = 60.0
#: For a meter that this machine reads to say what it is.
_DESCRIBED_S: Final = 20.0


@dataclass(frozen=True, slots=True)
class Pace:
    """The lengths of the parts: with less than this some assumptions are not shown."""

    wave_s: float = 600.0
    rest_s: float = 90.0
    transfer_s: float = 12.0
    transfers: int = 5


#: Both print when the first byte was there, when the last one, and how many there were.
_RECEIVE: Final = """
import os, time
first = last = None
count = 0
while piece := os.read(0, 1 << 20):
    last = time.monotonic()
    first = first or last
    count += len(piece)
print(first, last, count)
"""
_SEND: Final = """
import os, sys, time
first = last = time.monotonic()
count = 0
piece = bytes(1 << 16)
while last - first < float(sys.argv[1]):
    count += os.write(1, piece)
    last = time.monotonic()
print(first, last, count, file=sys.stderr)
"""
_PYTHON: Final = Script('python3 -c "$@"')
#: CPU-seconds of an SGD step of experiments/demo_full.toml's model; torch is that of the agent.
_STEP: Final = """
import numpy as np
from roambench.contract.learning_spec import LearningSpec
from roambench.learning.learner import Learner
from roambench.learning.shards import Shard
learner = Learner(LearningSpec("mohawk_cnn", 1, 10, 0.01, 0.9, 0.0, 8, ""))
batch = Shard(np.zeros((8, 1, 32, 32), np.float32), np.zeros(8, np.int64))
print(min(learner.warm_up(batch, 4) for _ in range(3)))
"""
_STEP_PATIENCE_S: Final = 300.0
_TRIPS: Final = 6
#: Serial numbers, machine ids, digests: not the decimals of a figure.
_LONG_HEX: Final = re.compile(r"\b(?=\w*\d)(?=\w*[a-f])[0-9a-f]{8,}\b", re.IGNORECASE)


def collect(
    bench: Bench, host: Host, pace: Pace, report: Callable[[str], None], *, may_cut: bool = False
) -> Kit:
    """Work with one host of a bench that the caller holds; HostError where it does not do its part.

    `may_cut`: the board may lose its power, at the end (`cutting`).
    """
    if host.meter.driver == NO_METER:
        raise HostError(host.name, "it has no meter", "name one in the bench file")
    report("preflight")
    checks = check(bench, [host]).hosts[0].checks
    with meters_here(bench, [host]) as here, open_link(bench, host) as link:
        meter = _Meter(bench, host, link, here.get(host.name))
        keep_off(link, claim_by(bench))
        offsets = [_offset(link)]
        status = ask_agent(link, "status")
        if status.get("run"):
            raise HostError(host.name, f"takes part in run {status['run']}", "roambench fleet who")
        about = meter.described(status)
        began_s = _now_s(link)
        rests = [_rest(link, pace, report)]
        report(f"all cores on and off for {pace.wave_s / 60:g} min")
        words = (f"{pace.wave_s:g}", f"{_cores(link)}", f"{PERIOD_S}")
        answer = ask_agent(link, "burn", *words, timeout_s=pace.wave_s + _SLOW_S)
        edges_s = [_number(link, edge) * 1e-9 for edge in _list(link, answer, "edges_ns")]
        throttle_bits = _throttle_bits(link)
        found = meter.readings(_now_s(link) - began_s)
        rests.append(_rest(link, pace, report))
        moved, trips_s = [], []
        for direction in ("download", "upload"):
            report(f"{pace.transfers} {direction}s of {pace.transfer_s:g} s")
            for _ in range(pace.transfers):
                moved.append(_move(link, direction, pace.transfer_s))
                time.sleep(pace.transfer_s)
                trips_s.append(_trips(link))
        found |= meter.readings(_now_s(link) - began_s)
        offsets.append(_offset(link))
        report("an SGD step, and what its system does")
        step_cpu_s, images, openings = _step_cpu_s(link), image_of(link), latch_of(link)
        board = str(link.run(Script("cat /proc/device-tree/model")).out.decode(errors="replace")).strip(
            "\0\n "
        )
        kernel = link.must(Script("uname -rm")).decode(errors="replace").strip()
    cut = CutPower()
    if may_cut:
        cut = cut_power(bench, host, report)
        if cut.cuts:
            with open_link(bench, host) as link:
                images += image_of(link)
    at_ns = sorted(found)
    zero_s = at_ns[0] * 1e-9 if at_ns else began_s
    columns = zip(*(found[ns] for ns in at_ns), strict=True) if at_ns else ((), (), ())
    watts, volts, amps = (tuple(column) for column in columns)
    return Kit(
        format=FORMAT,
        version=__version__,
        board=board or NOT_A_PI,
        driver=host.meter.driver,
        traits=about["traits"],
        nominal_s=float(about["nominal_s"]),
        cores=int(answer.get("cores", 0)),
        series=MeterSeries(tuple(ns * 1e-9 - zero_s for ns in at_ns), watts, volts, amps),
        edges_s=tuple(edge - zero_s for edge in edges_s),
        rests_s=tuple((from_s - zero_s, until_s - zero_s) for from_s, until_s in rests),
        moved=tuple(
            TimedTransfer(one.direction, one.first_s - zero_s, one.last_s - zero_s, one.bytes_moved)
            for one in moved
        ),
        offsets=tuple((at_s - zero_s, offset_s, bound_s) for at_s, offset_s, bound_s in offsets),
        checks=tuple(
            Looked(one.name, str(one.verdict), _without_names(bench, host, one.found)) for one in checks
        ),
        facts={
            "kernel": kernel,
            **{name: _without_names(bench, host, fact) for name, fact in cut.facts.items()},
        },
        trips_s=tuple(trips_s),
        step_cpu_s=step_cpu_s,
        throttle_bits=throttle_bits,
        images=images,
        openings=(*openings, *cut.openings),
        cuts=tuple(cut.cuts),
        transcript=_without_names(bench, host, cut.transcript),
    )


def _rest(link: HostLink, pace: Pace, report: Callable[[str], None]) -> tuple[float, float]:
    """Return the start and end of a time without questions, by the host's clock."""
    report(f"at rest for {pace.rest_s:g} s")
    from_s = _now_s(link) + _CALM_S
    time.sleep(pace.rest_s)
    return from_s, from_s + pace.rest_s - 2 * _CALM_S


def _now_s(link: HostLink) -> float:
    """By the clock of the agent's stamps."""
    return _number(link, ask_agent(link, "readings", "0.001").get("now_ns")) * 1e-9


@dataclass(frozen=True, slots=True)
class _Meter:
    """The meter of a board, whichever machine reads it: the board, this one (`heard`), or a neighbour."""

    bench: Bench
    host: Host
    link: HostLink
    heard: HeardMeter | None

    def described(self, status: dict[str, Any]) -> dict[str, Any]:
        """Its traits and its period; HostError where its reader hears no meter."""
        asked = meter_elsewhere(self.bench, self.host)
        end_s = time.monotonic() + _DESCRIBED_S
        while self.heard is not None and self.heard.watch.description is None and time.monotonic() < end_s:
            time.sleep(0.1)
        elsewhere = self.heard or asked
        meter = elsewhere.status() if elsewhere is not None else status.get("meter")
        about = meter.get("description") if isinstance(meter, dict) else None
        if not isinstance(about, dict) or not isinstance(about.get("traits"), str):
            raise HostError(self.host.name, f"{self.host.reader} hears no meter", "roambench fleet preflight")
        return {"traits": about["traits"], "nominal_s": _number(self.link, about.get("nominal_s", 0.0))}

    def readings(self, seconds: float) -> dict[int, tuple[float | None, float | None, float | None]]:
        """Watts, volts and amps by their stamps in the board's time, without what is inconsistent or off."""
        if self.host.reader == self.host.name:
            return _columns(self.link, ask_agent(self.link, "readings", f"{seconds:g}", timeout_s=_SLOW_S))
        if self.heard is not None:
            return _columns(self.link, self.heard.answer(seconds), -_to_here_s(self.link))
        with open_link(self.bench, self.bench.host(self.host.reader)) as reader:
            words = (f"{seconds:g}", self.host.name)
            answer = ask_agent(reader, "readings", *words, timeout_s=_SLOW_S)
            return _columns(reader, answer, _to_here_s(reader) - _to_here_s(self.link))


def _to_here_s(link: HostLink) -> float:
    """Seconds from the host's monotonic clock to this machine's."""
    asked_s = time.monotonic()
    now_s = _now_s(link)
    return seconds_to_here(link, (now_s, now_s), (asked_s, time.monotonic()))


def _columns(
    link: HostLink, answer: dict[str, Any], shift_s: float = 0.0
) -> dict[int, tuple[float | None, float | None, float | None]]:
    columns = [_list(link, answer, name) for name in ("ns", "flags", "watts", "volts", "amps")]
    if len({len(column) for column in columns}) != 1:
        raise HostError(link.host.name, "ctl readings: not what an agent says")
    found = {}
    for ns, flags, *values in zip(*columns, strict=True):
        if not int(_number(link, flags)) & int(UNUSABLE):
            watts, volts, amps = (None if value is None else _number(link, value) for value in values)
            found[int(_number(link, ns)) + round(1e9 * shift_s)] = watts, volts, amps
    return found


def _move(link: HostLink, direction: str, seconds: float) -> TimedTransfer:
    said = bytearray()
    patience_s = seconds + _SLOW_S
    if direction == "download":
        said += link.run(_PYTHON, _RECEIVE, stdin=_pieces(seconds), timeout_s=patience_s).out
    else:
        sending = (_SEND, f"{seconds:g}")
        link.stream(_PYTHON, lambda piece: None, said.extend, *sending, timeout_s=patience_s)
    words = said.split()
    try:
        first_s, last_s, count = float(words[0]), float(words[1]), int(words[2])
    except (IndexError, ValueError):
        raise HostError(link.host.name, f"a {direction} over SSH did not end", "look at its load") from None
    return TimedTransfer(direction, first_s, last_s, count)


def _trips(link: HostLink) -> tuple[float, float]:
    """Return how long the first answer after a rest takes, and the next ones in the median."""
    took_s = []
    for _ in range(_TRIPS):
        began_s = time.monotonic()
        link.must(Script("true"))
        took_s.append(time.monotonic() - began_s)
    return took_s[0], statistics.median(took_s[1:])


def _step_cpu_s(link: HostLink) -> float | None:
    ran = link.run(
        Script(f"{layout.CURRENT}/bin/python -"),
        root=True,
        stdin=_STEP.encode(),
        timeout_s=_STEP_PATIENCE_S,
    )
    try:
        return float(ran.out)
    except ValueError:
        return None


def _throttle_bits(link: HostLink) -> int | None:
    sample = ask_agent(link, "status").get("host")
    bits = sample.get("throttle_bits") if isinstance(sample, dict) else None
    return bits if isinstance(bits, int) and not isinstance(bits, bool) and bits >= 0 else None


def _pieces(seconds: float) -> Iterator[bytes]:
    end_s = time.monotonic() + seconds
    while time.monotonic() < end_s:
        yield _PIECE


def _offset(link: HostLink) -> tuple[float, float, float]:
    at_s = _now_s(link)
    offset = host_clock(link, _EXCHANGES)
    return at_s, offset.offset_s, offset.bound_s


def _cores(link: HostLink) -> int:
    return max(1, min(64, int(_number(link, float(link.must(Script("nproc")))))))


def _list(link: HostLink, answer: dict[str, Any], key: str) -> list[Any]:
    found = answer.get(key)
    if not isinstance(found, list):
        raise HostError(link.host.name, f"its agent says no {key}", "roambench fleet upgrade")
    return found


def _number(link: HostLink, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise HostError(link.host.name, "its agent says what is no number", "roambench fleet upgrade")
    return float(value)


def _without_names(bench: Bench, host: Host, text: str) -> str:
    """Without what tells one bench from another: names, addresses, serial numbers, keys."""
    for word in (
        bench.name,
        host.name,
        host.address,
        host.meter.serial,
        host.meter.port,
        host.meter.wifi_hop,
        bench.controller.address,
        *((reader.name, reader.address) if (reader := _reader(bench, host)) is not None else ()),
    ):
        if word:
            text = text.replace(word, "...")
    return _LONG_HEX.sub("...", text)


def _reader(bench: Bench, host: Host) -> Host | None:
    """The other host that reads its meter."""
    return None if host.reader in (host.name, CONTROLLER_READER) else bench.host(host.reader)
