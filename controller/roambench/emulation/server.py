"""The emulator process: N meters behind pseudo-terminals and sockets, one event loop, one timer."""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import json
import os
import signal as signals
import socket
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Final

from roambench.contract.device_time import DeviceClock
from roambench.contract.errors import ConfigError, MeterError
from roambench.contract.json_values import from_json
from roambench.contract.last_signals import run_to_its_end
from roambench.emulation.addresses import unix_address
from roambench.emulation.electric.power import IDLE, Activity
from roambench.emulation.port import MeterPort
from roambench.emulation.spec import EmulatorSpec, fault_from_values

#: Host seconds between heartbeats in the truth files.
HEARTBEAT_S: Final = 1.0
#: How long (device time) a board's past is kept in memory for records that come late.
KEPT_NS: Final = 60_000_000_000
#: A stamp further ahead than this (device time) is a mistake of the sender.
AHEAD_NS: Final = 5_000_000_000


class EmulatorServer:
    """Run `spec` until it is stopped. Agents may die: their boards fall idle."""

    def __init__(self, spec: EmulatorSpec) -> None:
        self._spec = spec
        self._clock = DeviceClock(spec.epoch_ns, spec.time_scale, spec.ahead_ns)
        self._stopping = asyncio.Event()
        self._failure: MeterError | None = None
        self._ports: list[MeterPort] = []
        self._by_name: dict[str, MeterPort] = {}
        self._agenda: list[tuple[int, int]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._talks: set[asyncio.Task[None]] = set()
        self._lines = 0
        self._records = 0
        self._refused = 0
        self._latest_tick_ns = 0
        self._latest_record_ns = 0

    async def run(
        self, lifeline: int | None = None, announce: Callable[[dict[str, dict[str, str]]], None] | None = None
    ) -> None:
        """Open everything, `announce` the addresses, make the socket appear, serve, close.

        MeterError for a meter that fails while it runs: a firmware whose code raises, a truth file that
        cannot be written. All meters end then, since it is unknown which of the others are still right.
        `lifeline` is a pipe's file descriptor: when its other end closes, the user of the meters is gone.
        """
        loop = asyncio.get_running_loop()
        for number in (signals.SIGTERM, signals.SIGINT):
            loop.add_signal_handler(number, self._stopping.set)
        if lifeline is not None:
            loop.add_reader(lifeline, self._feel, lifeline)
        start_ns = self._clock.now_ns()
        try:
            for index, device in enumerate(self._spec.devices):
                port = MeterPort(self._spec, index, self._clock, start_ns)
                self._ports.append(port)
                await port.open()
                self._by_name[device.name] = port
                heapq.heappush(self._agenda, (port.board.due_ns, index))
            server = await self._listen()
            if announce is not None:
                announce(self.addresses)
            self._tick()
            beats = asyncio.create_task(self._beat())
            await self._stopping.wait()
            beats.cancel()
            server.close()
            if self._failure is not None:
                raise self._failure
        finally:
            await self._close()
        for talk in list(self._talks):
            talk.cancel()
        await asyncio.gather(beats, *self._talks, return_exceptions=True)

    def _feel(self, lifeline: int) -> None:
        if not os.read(lifeline, 4096):
            asyncio.get_running_loop().remove_reader(lifeline)
            self._stopping.set()

    async def _listen(self) -> asyncio.Server:
        path = Path(self._spec.socket_path)
        draft = path.with_name(path.name + ".new")
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            draft.unlink(missing_ok=True)
            with unix_address(draft) as address:
                listener.bind(address)
            server = await asyncio.start_unix_server(self._talk, sock=listener)
            draft.replace(path)  # a client that sees the socket can connect, and finds the ports there
        except OSError as error:
            listener.close()
            raise MeterError(f"emulator socket {path}: cannot be made ({error.strerror or error})") from None
        return server

    def _tick(self) -> None:
        """Let every meter that is due print, then sleep to the next."""
        now_ns = self._clock.now_ns()
        agenda = self._agenda
        while agenda and agenda[0][0] <= now_ns:
            due_ns, index = heapq.heappop(agenda)
            port = self._ports[index]
            if due_ns == port.board.due_ns:
                self._latest_tick_ns = max(self._latest_tick_ns, now_ns - due_ns)
                try:
                    self._lines += port.advance(now_ns)
                except Exception as error:  # a firmware of another package, or a full disk
                    self._fail(port, error)
                    return
                heapq.heappush(agenda, (port.board.due_ns, index))
            # Otherwise a fault has moved the meter's agenda; the newer entry counts.
        self._sleep_until(agenda[0][0])

    def _fail(self, port: MeterPort, error: Exception) -> None:
        """End with the first failure; the traceback, for the firmware's author, goes to standard error."""
        if self._failure is None:
            traceback.print_exception(error)
            frame = traceback.extract_tb(error.__traceback__)[-1]
            text = " ".join([f"{type(error).__name__}:", *str(error).split()]).removesuffix(":")
            self._failure = MeterError(
                f"emulated meter {port.board.name}, profile {port.board.firmware.profile.name}: {frame.name} "
                f"fails with {text} ({frame.filename}:{frame.lineno})"
            )
        self._stopping.set()

    def _sleep_until(self, device_ns: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        wait_s = self._clock.host_seconds((device_ns - self._clock.now_ns()) * 1e-9)
        self._timer = asyncio.get_running_loop().call_later(max(0.0, wait_s), self._tick)

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(HEARTBEAT_S)
            now_ns = self._clock.now_ns()
            for port in self._ports:
                try:
                    port.beat(now_ns)
                except OSError as error:
                    self._fail(port, error)
                    return
                port.board.prune(now_ns - KEPT_NS)

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection: an agent's work records, or a person's commands."""
        talk = asyncio.current_task()
        assert talk is not None
        self._talks.add(talk)
        mine: set[str] = set()
        try:
            while line := await reader.readline():
                answer = self._obey(line, talk, mine)
                if answer is not None:
                    writer.write(json.dumps(answer).encode() + b"\n")
                    await writer.drain()
        except (OSError, ValueError):  # the other side died, or sent a line without end
            pass
        except asyncio.CancelledError:
            return  # the emulator stops; asyncio would print the cancellation of a handler
        finally:
            self._talks.discard(talk)
            self._fall_idle(talk, mine)
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    def _fall_idle(self, owner: object, names: set[str]) -> None:
        now_ns = self._clock.now_ns()
        for name in sorted(names):
            port = self._by_name[name]
            if port.owner is owner:
                port.owner = None
                if not self._stopping.is_set():
                    port.work(IDLE, now_ns)

    def _obey(self, line: bytes, owner: object, mine: set[str]) -> dict[str, object] | None:
        command = False
        try:
            values = from_json(dict[str, object], line, "line")
            command = "ctl" in values
            if command:
                return self._command(values)
            port = self._port(values)
            ns = values.get("ns")
            now_ns = self._clock.now_ns()
            if type(ns) is not int or ns < 0 or ns > now_ns + AHEAD_NS:
                raise ValueError(f"ns must be device time up to now, got {ns!r}")
            activity = Activity.from_values(values)
        except ValueError as error:
            self._refused += 1
            # An agent does not read: answers to it would only fill its socket.
            return {"error": str(error)} if command else None
        self._records += 1
        self._latest_record_ns = max(self._latest_record_ns, now_ns - ns)
        port.owner = owner
        mine.add(port.board.name)
        try:
            port.work(activity, ns)
        except OSError as error:  # the truth cannot be written
            self._fail(port, error)
        return None

    def _command(self, values: dict[str, object]) -> dict[str, object]:
        match values["ctl"]:
            case "stop":
                self._stopping.set()
                return {"ok": True}
            case "stats":
                return {"ok": True, **self.stats()}
            case "fault":
                port = self._port(values)
                fault = fault_from_values({k: v for k, v in values.items() if k not in ("ctl", "device")})
                port.inject(fault)
                heapq.heappush(self._agenda, (port.board.due_ns, self._ports.index(port)))
                self._sleep_until(self._agenda[0][0])
                return {"ok": True}
            case "output":
                if type(on := values.get("on")) is not bool:
                    raise ValueError(f"on: expected true or false, got {on!r}")
                self._port(values).switch(on=on)
                return {"ok": True}
            case "addresses":
                return {"ok": True, "addresses": self.addresses}
            case command:
                known = "fault, output, addresses, stats or stop"
                raise ValueError(f"unknown command {command!r}: expected {known}")

    def _port(self, values: dict[str, object]) -> MeterPort:
        name = values.get("device")
        if not isinstance(name, str) or name not in self._by_name:
            raise ValueError(f"unknown device {name!r}")
        return self._by_name[name]

    def work(self, activity: Activity, ns: int) -> None:
        """From `ns` on all boards do `activity` (for who has no agents to tell it)."""
        for port in self._ports:
            port.work(activity, ns)

    def stop(self) -> None:
        """End as SIGTERM does."""
        self._stopping.set()

    @property
    def addresses(self) -> dict[str, dict[str, str]]:
        """Device -> transport -> where it can be read."""
        return {port.board.name: port.addresses for port in self._ports}

    def stats(self) -> dict[str, object]:
        """Return how much was said and heard; the latenesses are device time."""
        return {
            "chunks": self._lines,
            "records": self._records,
            "refused": self._refused,
            "lost_bytes": sum(port.lost_bytes for port in self._ports),
            "latest_tick_ms": self._latest_tick_ns / 1e6,
            "latest_record_ms": self._latest_record_ns / 1e6,
        }

    async def _close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        for port in self._ports:
            await port.close()
        with contextlib.suppress(OSError):
            Path(self._spec.socket_path).unlink(missing_ok=True)


def main(arguments: list[str]) -> int:
    """`python -m roambench.emulation [--until-eof] SPEC.json`; returns the exit status.

    With `--until-eof` the end of standard input ends it too: kill -9 of the controller leaves no orphan.
    """
    until_eof = "--until-eof" in arguments
    files = [argument for argument in arguments if argument != "--until-eof"]
    if len(files) != 1:
        print("usage: python -m roambench.emulation [--until-eof] SPEC.json", file=sys.stderr)
        return 2
    path = Path(files[0])
    try:
        spec = EmulatorSpec.from_json(path.read_bytes(), str(path))
        run_to_its_end(_serve(spec, sys.stdin.fileno() if until_eof else None))
    except OSError as error:  # a MeterError is one
        print(error, file=sys.stderr)
        return 1
    except ConfigError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return 0


async def _serve(spec: EmulatorSpec, lifeline: int | None) -> None:
    server = EmulatorServer(spec)
    await server.run(lifeline, lambda found: print(json.dumps({"addresses": found}), flush=True))
    print(json.dumps(server.stats()), file=sys.stderr)
