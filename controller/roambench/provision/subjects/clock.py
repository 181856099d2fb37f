"""The clock: chrony follows the controller. After its first minute it slews and never steps."""

from __future__ import annotations

from collections.abc import Iterator

from roambench.provision import layout
from roambench.provision.differences import differing
from roambench.provision.facts import Facts
from roambench.provision.step import RemoteFile, Skip, Step
from roambench.provision.wanted import Wanted

_CONF = """\
server {server} iburst minpoll 4 maxpoll 6
driftfile /var/lib/chrony/chrony.drift
# A board wakes up with the time it last saw: the first three updates may step, no later one.
makestep 1 3
rtcsync
"""
#: systemctl would only say where to look.
_LAST_WORDS = "journalctl -u chrony -t chronyd -n 1 -o cat --no-pager"
_DROP_IN = f"[Service]\nEnvironmentFile={layout.CHRONY_OPTIONS}\n"


def clock(facts: Facts, wanted: Wanted) -> Iterator[Step | Skip]:
    """chrony's own configuration stays as it is, beside ours."""
    if facts.container and "chrony" not in facts.packages:
        yield Skip("clock", "a container has its machine's clock")
        return
    look_only = " -x" if facts.container else ""  # nobody may set a machine's clock from a container
    files = (
        RemoteFile(layout.CHRONY_CONF, _CONF.format(server=wanted.bench.time_server).encode()),
        RemoteFile(
            layout.CHRONY_OPTIONS, f'DAEMON_OPTS="-F 1{look_only} -f {layout.CHRONY_CONF}"\n'.encode()
        ),
        RemoteFile(layout.CHRONY_DROP_IN, _DROP_IN.encode()),
    )
    differ, reason = differing(facts, files)
    unit = facts.unit("chrony.service")
    if not facts.container and unit.active != "active":
        reason = "; ".join(filter(None, (reason, f"chrony is {unit.active or 'not there'}")))
    if reason:
        yield Step(
            "clock",
            reason,
            f"systemctl daemon-reload && systemctl enable --quiet chrony && systemctl restart chrony || "
            f"{{ {_LAST_WORDS} >&2; exit 1; }}",
            files=differ,
            explained={1: ("chrony does not start", "journalctl -u chrony on it")},
        )
    if facts.container:
        yield Skip("clock at boot", "a container has its machine's clock: nothing waits for chrony")
    elif facts.unit("chrony-wait.service").enabled != "enabled":
        yield Step(
            "clock at boot", "nothing waits for the clock", "systemctl enable --quiet chrony-wait.service"
        )
