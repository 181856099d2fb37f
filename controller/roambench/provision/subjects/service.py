"""The agent as a systemd service: always restarted, watched, bounded in memory, without privileges."""

from __future__ import annotations

from collections.abc import Iterator

from roambench.provision import layout
from roambench.provision.bench import Bench, Host
from roambench.provision.facts import Facts
from roambench.provision.ssh.script import Script
from roambench.provision.step import HostStep, RemoteFile, Skip, differing
from roambench.provision.subjects.account import account_groups
from roambench.provision.subjects.meter import usb_devices
from roambench.provision.wanted import Wanted

_UNIT = """\
[Unit]
Description=roambench agent
Wants=network-online.target time-sync.target
# A board has no real-time clock: before it knows the time, no certificate is valid yet.
After=network-online.target time-sync.target {board}
# Device kinds are looked up as the unit starts: without its module, a meter that comes later is refused.
Wants={modules}
After={modules}
StartLimitIntervalSec=0

[Service]
Type=notify
NotifyAccess=main
ExecStart={current}/bin/roambench-agent run --settings {settings}
Restart=always
RestartSec=5
WatchdogSec=60
TimeoutStartSec=180
# To end by itself an agent needs 45 s where it has to wait for an InfluxDB that is slow.
TimeoutStopSec=90
KillMode=mixed
User={user}
Group={user}
SupplementaryGroups={groups}
StateDirectory=roambench
StateDirectoryMode=0750
RuntimeDirectory=roambench
RuntimeDirectoryMode=0750
UMask=0027
# The reader comes before everything else on the board; its trainer makes itself nicer than that.
Nice=-5
# A trainer that needs too much dies alone: readings go on. Raspberry Pi OS needs cgroup_enable=memory for it.
MemoryMax=75%
MemorySwapMax=0
OOMPolicy=continue
TasksMax=256
NoNewPrivileges=yes
CapabilityBoundingSet=
LockPersonality=yes
PrivateTmp=yes
ProtectClock=yes
ProtectControlGroups=yes
ProtectHome=yes
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
ProtectSystem=strict
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
SystemCallArchitectures=native
# Landlock keeps the keys from the programs that a run brings; older releases have it in no group.
SystemCallFilter=@system-service landlock_create_ruleset landlock_add_rule landlock_restrict_self
{devices}
[Install]
WantedBy=multi-user.target
"""

#: Serial ports of meters, and the firmware's mailbox.
_DEVICES = """\
DevicePolicy=closed
DeviceAllow=char-ttyUSB rw
DeviceAllow=char-ttyACM rw
DeviceAllow=char-ttyAMA rw
DeviceAllow=/dev/vcio rw
"""
#: Meters that are opened as USB devices, not as serial ports.
_USB_DEVICES = "DeviceAllow=char-usb_device rw\n"
#: Modules that make kinds of devices above: ttyUSB, ttyACM.
_MODULES = "modprobe@usbserial.service modprobe@cdc_acm.service"
_LAST_WORDS = f"journalctl -u {layout.UNIT} -n 20 -o cat --no-pager | grep roambench-agent: | tail -n 1"
_STARTED = Script(
    f"systemctl daemon-reload && systemctl enable --quiet {layout.UNIT} && "
    f"systemctl restart {layout.UNIT} && systemctl is-active --quiet {layout.UNIT} || "
    f"{{ {_LAST_WORDS} >&2; exit 1; }}"
)


def service(facts: Facts, wanted: Wanted) -> Iterator[HostStep | Skip]:
    """Steps that install, enable and start the agent's unit."""
    file = RemoteFile(layout.UNIT_FILE, agent_unit(facts, wanted.bench, wanted.host).encode())
    differ, reason = differing(facts, [file])
    if differ:
        yield HostStep("service", reason, Script("systemctl daemon-reload"), files=differ, restarts=True)


def agent_unit(facts: Facts, bench: Bench, host: Host) -> str:
    """The unit's text. An emulated meter may be any device file of a container, so all are allowed there."""
    meters = [one.meter for one in (host, *bench.read_by(host))]
    devices = _DEVICES + (_USB_DEVICES if any(map(usb_devices, meters)) else "")
    return _UNIT.format(
        board=layout.BOARD_UNIT,
        modules=_MODULES,
        current=layout.CURRENT,
        settings=layout.SETTINGS,
        user=layout.USER,
        groups=" ".join(account_groups(facts)),
        devices="" if any(one.emulated for one in meters) else devices,
    )


def running(facts: Facts, *, restart: bool) -> Iterator[HostStep]:
    """Last of all: the agent runs, with what was changed."""
    unit = facts.unit(layout.UNIT)
    reasons = []
    if unit.enabled != "enabled":
        reasons.append("it does not start at boot")
    if unit.active != "active":
        reasons.append(f"it is {unit.active or 'not there'}")
    if restart:
        reasons.append("what it runs with was changed")
    if reasons:
        yield HostStep(
            "agent",
            "; ".join(reasons),
            _STARTED,
            timeout_s=240.0,
            explained={1: ("the agent does not start", f"journalctl -u {layout.UNIT} on it")},
        )
