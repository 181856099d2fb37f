"""Undoing: return hosts to the previous build, or remove everything that provisioning put there."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final

from roambench.provision import layout
from roambench.provision.facts import Facts, gather
from roambench.provision.ssh.host_error import HostError
from roambench.provision.ssh.hosts import HostLink
from roambench.provision.ssh.script import Script
from roambench.provision.subjects.clock import CHRONY, TIMESYNCD
from roambench.provision.subjects.environment import KEEP

_PATIENCE_S: Final = 300.0

#: Every line may find its thing gone already: a half-provisioned host is unprovisioned like any other.
_UNPROVISION: Final = Script(f"""\
# remove all that provisioning left
export DEBIAN_FRONTEND=noninteractive
systemctl disable --quiet --now {layout.UNIT} {layout.BOARD_UNIT} 2>/dev/null
pkill -KILL -f '^{layout.OPT}/'  # an installation whose connection was lost goes on otherwise
exec 9>{layout.LOCK}; flock -w 120 9
added=$(cat {layout.PACKAGES_ADDED} 2>/dev/null | tr '\\n' ' ')
removed=$(cat {layout.PACKAGES_REMOVED} 2>/dev/null | tr '\\n' ' ')
clock=$(ls {layout.CHRONY_DROP_IN} {layout.TIMESYNCD_CONF} 2>/dev/null)
meter=$(ls {layout.UDEV_RULES} {layout.SENSOR_RULES} 2>/dev/null)
logs=$(test -e {layout.JOURNAL_CONF} && echo yes)
rm -f {" ".join(layout.OWN_FILES)}
if grep -qsFx {shlex.quote(layout.BOOT_MARK)} {layout.BOOT_CONFIG}; then
    sed {shlex.quote(f"/^{layout.BOOT_MARK}$/,+2d")} {layout.BOOT_CONFIG} >{layout.BOOT_CONFIG}.new &&
        mv {layout.BOOT_CONFIG}.new {layout.BOOT_CONFIG}
fi
for file in {" ".join(layout.DROP_INS)}; do rmdir $(dirname $file) 2>/dev/null; done
rm -rf {" ".join(layout.OWN_FOLDERS)} {layout.RUN} {layout.LOCK}
systemctl daemon-reload
systemctl reset-failed {layout.UNIT} {layout.BOARD_UNIT} 2>/dev/null
if id {layout.USER} >/dev/null 2>&1; then
    pkill -KILL -u {layout.USER}
    userdel {layout.USER}
fi
getent group {layout.USER} >/dev/null && groupdel {layout.USER}
[ -n "$meter" ] && udevadm control --reload && udevadm trigger --subsystem-match=tty --action=change
[ -n "$logs" ] && systemctl restart systemd-journald
[ -n "$added" ] && apt-get purge -y -qq $added >/dev/null
[ -n "$removed" ] && {{ apt-get install -y -qq --no-install-recommends $removed >/dev/null 2>&1 ||
    echo "cannot be brought back without internet: $removed"; }}
if [ -n "$clock" ]; then
    systemctl disable --quiet {CHRONY.waiter} {TIMESYNCD.waiter} 2>/dev/null
    systemctl try-restart {CHRONY.unit} {TIMESYNCD.unit} 2>/dev/null
fi
exit 0
""")
#: The build that runs, the one before, and what the host's own settings have in them. Another build may know
#: other settings; those of a host that had another name then (a spare's) stay where they are.
_SWAPPED: Final = Script(
    f'current=$1 previous=$2 mine=$3\n{KEEP}\nkeep "$current"\n'
    f'if grep -qsF -- "$mine" "builds/$previous/{PurePosixPath(layout.SETTINGS).name}"; then\n'
    + "\n".join(
        f'    kept="builds/$previous/{PurePosixPath(file).name}"\n'
        f'    if [ -e "$kept" ]; then cp -p "$kept" {file}.new; mv {file}.new {file}; fi'
        for file in layout.RUN_WITH
    )
    + "\nfi"
)
_ROLLED_BACK: Final = Script(f"""\
# go back to the build before
set -e
cd {layout.OPT}
{_SWAPPED}
ln -sfn "builds/$current/venv" previous.new
ln -sfn "builds/$previous/venv" current.new
mv -T previous.new previous
mv -T current.new current
systemctl daemon-reload
systemctl restart {layout.UNIT}""")


@dataclass(frozen=True, slots=True)
class RolledBack:
    """Builds' hashes, and the version that runs now."""

    build: str
    instead_of: str
    version: str


def rollback(link: HostLink) -> RolledBack:
    """Run the build before this one, with the settings and the unit that it had; again: the newer one.

    HostError if there is only one.
    """
    facts = gather(link)
    about = facts.builds.get(facts.previous)
    if not facts.previous or about is None:
        raise HostError(link.host.name, "no build before this one", "roambench fleet provision")
    mine = f'"device": "{link.host.name}"'
    words = (facts.current, facts.previous, mine)
    link.must(_ROLLED_BACK, *words, root=True, timeout_s=_PATIENCE_S)
    now = gather(link)
    if now.current != facts.previous or now.unit(layout.UNIT).active != "active":
        raise HostError(
            link.host.name, f"build {facts.previous} does not run", f"journalctl -u {layout.UNIT} on it"
        )
    return RolledBack(now.current, facts.current, about.get("version", ""))


@dataclass(frozen=True, slots=True)
class Unprovisioned:
    """`found` says whether there was anything; `note` what could not be put back as it was."""

    found: bool
    note: str


def unprovision(link: HostLink) -> Unprovisioned:
    """Remove all that provisioning brought, the readings and models on the host included.

    The facts afterwards have to show nothing of it: HostError lists what is left.
    """
    found = bool(remains(gather(link)))
    said = link.must(_UNPROVISION, root=True, timeout_s=_PATIENCE_S).decode(errors="replace").strip()
    left = remains(gather(link))
    if left:
        raise HostError(link.host.name, f"still there: {', '.join(left)}", "look at it with ssh")
    return Unprovisioned(found, said)


def remains(facts: Facts) -> list[str]:
    """Our remains on a host by its facts, one word each."""
    found = [path for path, file in facts.files.items() if file is not None]
    found += [layout.BOOT_CONFIG] if layout.BOOT_MARK in facts.boot_config.splitlines() else []
    found += [f"user {layout.USER}"] if facts.user_groups is not None else []
    found += [f"group {layout.USER}"] if layout.USER in facts.groups else []
    for name in (layout.UNIT, layout.BOARD_UNIT):
        unit = facts.unit(name)
        if unit.enabled or unit.active not in ("inactive", ""):
            found.append(f"{name} ({unit.active}, {json.dumps(unit.enabled)})")
    return found
