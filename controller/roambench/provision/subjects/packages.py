"""Debian packages that no card of Raspberry Pi OS lacks: such a host needs no internet."""

from __future__ import annotations

from collections.abc import Iterator

from roambench.provision import layout
from roambench.provision.facts import Facts
from roambench.provision.ssh.script import Script
from roambench.provision.step import HostStep, Skip
from roambench.provision.subjects.clock import time_client
from roambench.provision.wanted import Wanted

_PATIENCE_S = 900.0
_LISTED = "dpkg-query -W -f '${db:Status-Abbrev} ${Package}\\n' | sed -n 's/^ii  *//p' | sort"
_APT = 'apt-get install -y -qq --no-install-recommends -o DPkg::Lock::Timeout=300 "$@"'
_INSTALLED = Script(f"""\
# install packages by apt
set -e
export DEBIAN_FRONTEND=noninteractive
install -d -m 0755 {layout.ETC}
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
{_LISTED} >"$work/before"
{_APT} >"$work/log" 2>&1 || {{ apt-get update -qq >"$work/log" 2>&1 && {_APT} >"$work/log" 2>&1; }} ||
    {{ grep -m 1 '^E:' "$work/log" >&2 || tail -n 1 "$work/log" >&2; exit 100; }}
{_LISTED} >"$work/after"
comm -13 "$work/before" "$work/after" >>{layout.PACKAGES_ADDED}
comm -23 "$work/before" "$work/after" >>{layout.PACKAGES_REMOVED}
""")


def packages(facts: Facts, wanted: Wanted) -> Iterator[HostStep | Skip]:
    """Steps that install and remove packages; noted, so that unprovisioning can undo them."""
    if facts.container:
        return
    needed = [time_client(facts).name]
    if facts.board.power_save:
        needed.append("iw")
    missing = [name for name in needed if name not in facts.packages]
    if not missing:
        return
    names = " ".join(missing)
    yield HostStep(
        "packages",
        f"not installed: {', '.join(missing)} (from Debian's archive: this needs the internet)",
        _INSTALLED,
        tuple(missing),
        timeout_s=_PATIENCE_S,
        explained={
            100: (
                f"apt-get cannot install {names}",
                f"connect it to the internet once, or put {names} into the image",
            )
        },
    )
