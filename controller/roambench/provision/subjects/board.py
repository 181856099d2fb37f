"""The board itself: nothing on it may draw power by chance while joules are counted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from roambench.provision import layout
from roambench.provision.facts import BoardFacts, Facts
from roambench.provision.ssh.script import Script
from roambench.provision.step import HostStep, RemoteFile, Skip, differing
from roambench.provision.wanted import Wanted

_FILE = Path(__file__).with_name("board.sh")
_UNIT = f"""\
[Unit]
Description=roambench: a board that is quiet for measuring
After=NetworkManager.service dphys-swapfile.service timers.target

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/sh {layout.BOARD_SCRIPT} apply
ExecStop=/bin/sh {layout.BOARD_SCRIPT} restore

[Install]
WantedBy=multi-user.target
"""
#: 2: disabled. Whenever NetworkManager connects again it would set its own choice.
_NETWORK_CONF = "[connection]\nwifi.powersave = 2\n"
_STARTED = Script(
    f"systemctl daemon-reload && systemctl enable --quiet {layout.BOARD_UNIT} && "
    f"systemctl restart {layout.BOARD_UNIT}"
)
_STARTED_ON_WIFI = Script(f"nmcli general reload conf 2>/dev/null; {_STARTED}")


def board(facts: Facts, wanted: Wanted) -> Iterator[HostStep | Skip]:
    """All of it until the next boot, when the unit does it again; stopping the unit puts everything back."""
    subjects = _subjects(facts.board)
    if facts.container:
        why = "a container has its machine's hardware, which is not ours"
        yield from (Skip(name, why) for name, _, _ in subjects)
        return
    yield from (Skip(name, f"no {what} here") for name, what, state in subjects if state is None)
    loud = [f"{name}: {state}" for name, _, state in subjects if state]
    files = [
        RemoteFile(layout.BOARD_SCRIPT, _FILE.read_bytes(), 0o755),
        RemoteFile(layout.BOARD_UNIT_FILE, _UNIT.encode()),
    ]
    network = facts.network_manager and bool(facts.board.power_save)
    if network:
        files.append(RemoteFile(layout.NETWORK_CONF, _NETWORK_CONF.encode()))
    differ, reason = differing(facts, files)
    unit = facts.unit(layout.BOARD_UNIT)
    if not differ and unit.active != "active":
        reason = f"{layout.BOARD_UNIT} is {unit.active or 'not there'}"
    if reason or loud:
        yield HostStep(
            "board",
            "; ".join(filter(None, (reason, *loud))),
            _STARTED_ON_WIFI if network else _STARTED,
            files=differ,
        )


def _subjects(found: BoardFacts) -> list[tuple[str, str, str | None]]:
    """Name, what it needs, and what is loud: "" for nothing, None where the board has none of it."""
    governors = sorted(set(found.governors) - {"performance"})
    lit = [f"{name} shows {trigger}" for name, trigger in found.leds.items() if trigger != "none"]
    screens = [name for name, status in found.screens.items() if status != "disconnected"]
    saving = [name for name, state in found.power_save.items() if state == "on"]
    radios = [name for name, soft in found.bluetooth.items() if soft != "1"]
    return [
        ("CPU governor", "frequency scaling", ", ".join(governors) if found.governors else None),
        ("LEDs", "LED", ", ".join(lit) if found.leds else None),
        ("HDMI", "HDMI port", ", ".join(f"{name} is on" for name in screens) if found.screens else None),
        (
            "Wi-Fi power save",
            "wireless interface",
            ", ".join(f"{name} saves" for name in saving) if found.power_save else None,
        ),
        (
            "Bluetooth",
            "Bluetooth",
            ", ".join(f"{name} is on" for name in radios) if found.bluetooth else None,
        ),
        ("swap", "swap on a disk", ", ".join(f"{name} is used" for name in found.swaps) or None),
    ]
