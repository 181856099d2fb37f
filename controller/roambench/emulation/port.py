"""One emulated meter in a running emulator: its board, its truth file, and the ways to read it."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from pathlib import Path

from roambench.contract.addresses import host_port
from roambench.contract.device_time import DeviceClock
from roambench.contract.errors import MeterError
from roambench.emulation.board import LEAD_NS, EmulatedBoard
from roambench.emulation.electric.power import Activity
from roambench.emulation.network.telnet import TelnetPort
from roambench.emulation.network.web import YtrikozShell, web_console
from roambench.emulation.network.websocket import WebsocketPort
from roambench.emulation.profiles import Transport
from roambench.emulation.spec import PORT_FAULTS, EmulatorSpec, Fault, FaultKind, udp_address
from roambench.emulation.sysfs import SysfsFolder
from roambench.emulation.terminal import TalkingTerminal, Terminal
from roambench.emulation.truth import PrintLog, TruthLog


class MeterPort:
    """Device `index` of `spec`. `open` before anything else; what is printed before that is lost."""

    def __init__(self, spec: EmulatorSpec, index: int, clock: DeviceClock, start_ns: int) -> None:
        device = spec.devices[index]
        self._device = device
        self._clock = clock
        self.board = EmulatedBoard(spec, index, start_ns)
        self.truth = TruthLog(Path(spec.truth_dir) / f"{device.name}.csv")
        self.truth.power(start_ns - LEAD_NS, self.board.signal.watts_at(start_ns - LEAD_NS))
        self._to_come: dict[int, float] = {}
        self.write_truth()
        self._notes = PrintLog(Path(spec.truth_dir) / f"{device.name}.printed") if spec.notes else None
        self.owner: object | None = None  # the connection that spoke for this board last
        self._terminal: Terminal | None = None
        self._telnet: TelnetPort | None = None
        self._websocket: WebsocketPort | None = None
        self._datagrams: DatagramPort | None = None
        self._sysfs: SysfsFolder | None = None
        self._boots = self.board.firmware.boots
        self._timers: list[asyncio.TimerHandle] = []
        self._unplugged = 0
        self._lost_bytes = 0  # of terminals that are no more

    async def open(self) -> None:
        """Serve every way that the device asks for; MeterError names the one that cannot be."""
        device, firmware = self._device, self.board.firmware
        if device.link_path:
            self._terminal = self._plugged()
        if device.telnet_port is not None:
            shell = YtrikozShell(firmware) if firmware.profile.traits == "smartpower2-ytrikoz" else None
            self._telnet = TelnetPort(self._clock.now_ns, self._has_network, shell)
            await self._telnet.open(device.telnet_port)
        if device.websocket_port is not None:
            console = web_console(firmware)
            self._websocket = WebsocketPort(console, self._clock.now_ns, self._has_network, self.write_truth)
            await self._websocket.open(device.websocket_port)
        address = udp_address(device.udp_to)
        if address is not None:
            self._datagrams = DatagramPort(*address)
        if device.sysfs_dir:
            self._sysfs = SysfsFolder(Path(device.sysfs_dir))
        for fault in device.faults:
            if fault.kind in PORT_FAULTS:
                self.inject(fault)

    @property
    def addresses(self) -> dict[str, str]:
        """Transport -> where it is."""
        found = {}
        if self._device.link_path:
            found[Transport.SERIAL.value] = self._device.link_path
        if self._telnet is not None:
            found[Transport.TELNET.value] = f"127.0.0.1:{self._telnet.port}"
        if self._websocket is not None:
            found[Transport.WEBSOCKET.value] = f"ws://127.0.0.1:{self._websocket.port}"
        if self._datagrams is not None:
            found[Transport.UDP.value] = self._datagrams.address
        if self._device.sysfs_dir:
            found[Transport.SYSFS.value] = self._device.sysfs_dir
        return found

    @property
    def lost_bytes(self) -> int:
        """Bytes that were not fetched in time."""
        ports = (self._terminal, self._telnet, self._datagrams)
        return self._lost_bytes + sum(port.lost_bytes for port in ports if port is not None)

    def work(self, activity: Activity, ns: int) -> None:
        """Let the board behind the meter do `activity` from `ns` (device time) on."""
        self.board.work(activity, ns)
        self.write_truth()

    def write_truth(self) -> None:
        """Write changes of the true power to the file; what is to come may yet come otherwise."""
        now_ns = self._clock.now_ns()
        self._to_come |= self.board.outlet.take_changes()
        for ns in sorted(ns for ns in self._to_come if ns <= now_ns):
            self.truth.power(ns, self._to_come.pop(ns))
        for ns, watts in self.board.draw.take_idle_changes():
            self.truth.idle(ns, watts)

    def beat(self, now_ns: int) -> None:
        """The true power up to `now_ns` is in the file, and the file says so."""
        self.board.draw_until(now_ns)
        self.write_truth()
        self.truth.alive(now_ns)

    def advance(self, now_ns: int) -> int:
        """Let the meter say what it has to say up to `now_ns`; how many pieces it was."""
        printed = self.board.advance(now_ns)
        if self.board.firmware.boots != self._boots:
            self._boots = self.board.firmware.boots
            for port in (self._telnet, self._websocket):
                if port is not None:
                    port.hang_up()
        for _, transport, data in printed:
            match transport:
                case Transport.SERIAL:
                    begun_ns = self._clock.now_ns()
                    taken = self._terminal.write(data) if self._terminal is not None else 0
                    if self._notes is not None:
                        self._notes.add(begun_ns, taken, data)
                case Transport.TELNET if self._telnet is not None:
                    self._telnet.write(data)
                case Transport.WEBSOCKET if self._websocket is not None:
                    self._websocket.write(data)
                case Transport.UDP if self._datagrams is not None:
                    self._datagrams.write(data)
                case Transport.SYSFS if self._sysfs is not None:
                    self._sysfs.write(data)
        self.write_truth()
        return len(printed)

    def switch(self, *, on: bool) -> None:
        """Switch the meter's output, and with it the board."""
        now_ns = self._clock.now_ns()
        self.board.draw_until(now_ns)
        self.board.firmware.switch(now_ns, on=on)
        self.write_truth()

    def inject(self, fault: Fault) -> None:
        """Let `fault` happen; ValueError if this meter has nothing that it could happen to."""
        match fault.kind:
            case FaultKind.UNPLUG:
                if not (self._device.link_path or self._device.sysfs_dir):
                    raise ValueError(f"{self.board.name} has no serial port and no folder to unplug")
                self._later(fault.at_s, self._unplug, fault.duration_s)
            case FaultKind.SECOND_CLIENT:
                if self._telnet is None:
                    raise ValueError(f"{self.board.name} has no telnet port for a second client")
                self._later(fault.at_s, self._telnet.take_away, self._clock.host_seconds(fault.duration_s))
            case _:
                self.board.inject(fault, self._clock.now_ns())

    async def close(self) -> None:
        """Readers see everything vanish; the truth ends here."""
        for timer in self._timers:
            timer.cancel()
        now_ns = self._clock.now_ns()
        self.board.draw_until(now_ns)
        self.write_truth()
        self.truth.close(now_ns)
        if self._notes is not None:
            self._notes.close()
        if self._terminal is not None:
            self._terminal.close()
        if self._telnet is not None:
            self._telnet.close()
        for port in (self._datagrams, self._sysfs):
            if port is not None:
                port.close()
        if self._websocket is not None:
            await self._websocket.close()

    def _later(self, device_s: float, act: Callable[[float], None], argument: float) -> None:
        loop = asyncio.get_running_loop()
        self._timers.append(loop.call_later(self._clock.host_seconds(device_s), act, argument))

    def _unplug(self, duration_s: float) -> None:
        self._unplugged += 1
        if self._terminal is not None:
            self._lost_bytes += self._terminal.lost_bytes
            self._terminal.close()
            self._terminal = None
        if self._sysfs is not None:
            self._sysfs.close()
            self._sysfs = None
        self._later(duration_s, self._plug_in, 0.0)

    def _plug_in(self, _: float) -> None:
        self._unplugged -= 1
        if self._unplugged:
            return
        if self._device.link_path:
            self._terminal = self._plugged()
        if self._device.sysfs_dir:
            self._sysfs = SysfsFolder(Path(self._device.sysfs_dir))

    def _plugged(self) -> Terminal:
        path, dialog = Path(self._device.link_path), self.board.firmware.profile.dialog
        return Terminal(path) if dialog is None else TalkingTerminal(path, dialog())

    def _has_network(self) -> bool:
        return not self.board.firmware.booting


class DatagramPort:
    """A Smart Power 3's datagrams: one line each to (host, port), with or without a listener.

    What the network does not take is counted.
    """

    def __init__(self, host: str, port: int) -> None:
        self.address = host_port(host, port)
        try:
            family, kind, protocol, _, target = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
            self._socket = socket.socket(family, kind | socket.SOCK_NONBLOCK, protocol)
            self._target = target
        except OSError as error:
            raise MeterError(f"UDP address {self.address}: cannot be sent to ({error.strerror})") from None
        self.lost_bytes = 0

    def write(self, data: bytes) -> None:
        """Send one datagram; what the network refuses is counted as lost."""
        try:
            self._socket.sendto(data, self._target)
        except OSError:  # no listener, or the buffer is full
            self.lost_bytes += len(data)

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()
