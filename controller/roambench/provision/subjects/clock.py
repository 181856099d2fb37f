"""The clock: the NTP client that the host has follows the bench's time server."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from roambench.provision import layout
from roambench.provision.facts import Facts
from roambench.provision.ssh.script import Script
from roambench.provision.step import HostStep, RemoteFile, Skip, differing
from roambench.provision.wanted import Wanted


@dataclass(frozen=True, slots=True)
class TimeClient:
    """An NTP client by the name of Debian's package: its unit, the one that makes a boot wait for the time,
    where it logs, and the files (path, content with {server}) that make it follow one server and no other."""

    name: str
    unit: str
    waiter: str
    log: tuple[str, ...]
    files: tuple[tuple[str, str], ...]


#: Its own configuration stays as it is, beside ours.
CHRONY: Final = TimeClient(
    "chrony",
    "chrony.service",
    "chrony-wait.service",
    ("-u", "chrony", "-t", "chronyd"),
    (
        (
            layout.CHRONY_CONF,
            """\
server {server} iburst minpoll 4 maxpoll 6
driftfile /var/lib/chrony/chrony.drift
# A board wakes up with the time it last saw: the first three updates may step, no later one.
makestep 1 3
rtcsync
""",
        ),
        (layout.CHRONY_OPTIONS, f'DAEMON_OPTS="-F 1 -f {layout.CHRONY_CONF}"\n'),
        (layout.CHRONY_DROP_IN, f"[Service]\nEnvironmentFile={layout.CHRONY_OPTIONS}\n"),
    ),
)
#: Asks as often as chrony. It steps only what is more than 0.4 s off, which a board that has its server never
#: is after its first answer. Its waiter would wait for ever, and the agent with it.
TIMESYNCD: Final = TimeClient(
    "systemd-timesyncd",
    "systemd-timesyncd.service",
    "systemd-time-wait-sync.service",
    ("-u", "systemd-timesyncd"),
    (
        (
            layout.TIMESYNCD_CONF,
            "[Time]\nNTP={server}\nPollIntervalMinSec=16\nPollIntervalMaxSec=64\n",
        ),
        (layout.TIME_WAIT_DROP_IN, "[Service]\nTimeoutStartSec=180\n"),
    ),
)
#: Its unit, and journalctl's words for where it logs: systemctl would only say where to look.
_STARTED: Final = Script("""\
# start the service of the clock
unit=$1; shift
systemctl daemon-reload && systemctl enable --quiet "$unit" && systemctl restart "$unit" ||
    { journalctl "$@" -n 1 -o cat --no-pager >&2; exit 1; }""")


def time_client(facts: Facts) -> TimeClient:
    """chrony where that is installed; else what Debian and Raspberry Pi OS have, or get."""
    return CHRONY if CHRONY.name in facts.packages else TIMESYNCD


def clock(facts: Facts, wanted: Wanted) -> Iterator[HostStep | Skip]:
    """Steps that make the host take its time from the bench's server."""
    if facts.container:
        yield Skip("clock", "a container has its machine's clock")
        return
    client = time_client(facts)
    server = wanted.bench.time_server
    files = [RemoteFile(path, text.format(server=server).encode()) for path, text in client.files]
    differ, reason = differing(facts, files)
    unit = facts.unit(client.unit)
    if unit.active != "active":
        reason = "; ".join(filter(None, (reason, f"{client.name} is {unit.active or 'not there'}")))
    if reason:
        yield HostStep(
            "clock",
            reason,
            _STARTED,
            (client.unit, *client.log),
            files=differ,
            explained={1: (f"{client.name} does not start", f"journalctl -u {client.unit} on it")},
        )
    if facts.unit(client.waiter).enabled != "enabled":
        yield HostStep(
            "clock at boot",
            "nothing waits for the clock",
            Script('systemctl enable --quiet "$1"'),
            (client.waiter,),
        )
