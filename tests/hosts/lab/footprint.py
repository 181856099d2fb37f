"""All that a host has on it: what provisioning and its undoing are held against."""

from __future__ import annotations

from hosts.lab.bench_hosts import BenchHosts

#: Written by every boot, login and package manager; by the timers of the distribution (apt-daily,
#: apt-daily-upgrade, dpkg-db-backup, logrotate, man-db), whenever they fall due; and the backups that useradd
#: makes.
_LIVING = (
    "/dev",
    "/home/*/.cache",
    "/home/*/.config",
    "/home/*/.local",
    "/home/*/.sudo_as_admin_successful",
    "/proc",
    "/run",
    "/sys",
    "/tmp",
    "/var/backups",
    "/var/log",
    "/var/tmp",
    "/var/cache",
    "/var/lib/apt/daily_lock",
    "/var/lib/apt/lists",
    "/var/lib/apt/periodic",
    "/var/lib/systemd",
    "/var/lib/chrony",
    "/var/lib/sudo",
    "/var/lib/logrotate",
    "/etc/*-",
    "/etc/.pwd.lock",
)
_SCRIPT = r"""
find / /home -xdev \( {pruned} \) -prune -o -printf '%y %m %u:%g %p %l\n'
find / /tmp /run /var/tmp -xdev \( -nouser -o -nogroup \) -printf 'nobody owns %p\n'
find /etc -xdev -type f ! -name '*-' ! -name fake-hwclock.data -exec sha256sum {{}} +
getent passwd; getent group
systemctl list-unit-files --no-legend --no-pager | sed 's/^/unit /'
dpkg-query -W -f 'package ${{db:Status-Abbrev}} ${{Package}} ${{Version}}\n'
"""

#: A line for every file (kind, mode, owner, path, target), content below /etc (but for the hour that
#: fake-hwclock keeps there, by cron at 17 minutes past and when the host goes down), user, group, unit and
#: package.
Footprint = frozenset[str]


def footprint(hosts: BenchHosts, name: str) -> Footprint:
    pruned = " -o ".join(f"-path '{path}'" for path in _LIVING)
    return frozenset(hosts.inside(name, _SCRIPT.format(pruned=pruned)).splitlines())
