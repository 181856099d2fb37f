"""The unprivileged user that agents run as, its groups, and the folders it may see."""

from __future__ import annotations

from collections.abc import Iterator

from roambench.provision import layout
from roambench.provision.facts import Facts
from roambench.provision.ssh.script import Script
from roambench.provision.step import HostStep, Skip
from roambench.provision.wanted import Wanted

_FOLDERS = (
    (layout.OPT, 0o755, "root:root"),
    (layout.BUILDS, 0o755, "root:root"),
    (layout.WHEELS, 0o755, "root:root"),
    (layout.ETC, 0o750, f"root:{layout.USER}"),
    (layout.IDENTITY, 0o700, f"{layout.USER}:{layout.USER}"),
    (layout.STATE, 0o750, f"{layout.USER}:{layout.USER}"),
)
_ADDED = Script(
    f"useradd --system --user-group --home-dir {layout.STATE} --no-create-home "
    f'--shell /usr/sbin/nologin --groups "$1" {layout.USER}'
)
#: Of each its mode, user, group and path.
_FOLDERS_MADE = Script(
    'while [ $# -gt 0 ]; do install -d -m "$1" -o "$2" -g "$3" "$4" || exit; shift 4; done'
)
#: Serial ports; the firmware's mailbox, which tells of throttling.
_GROUPS = ("dialout", "video")


def account(facts: Facts, wanted: Wanted) -> Iterator[HostStep | Skip]:
    """Steps that make the agent's user and its groups."""
    groups = account_groups(facts)
    if facts.user_groups is None:
        yield HostStep(
            "user",
            f"no user {layout.USER}",
            _ADDED,
            (",".join(groups),),
            restarts=True,
        )
    elif missing := [group for group in groups if group not in facts.user_groups]:
        yield HostStep(
            "user",
            f"not in {', '.join(missing)}",
            Script(f'usermod -aG "$1" {layout.USER}'),
            (",".join(missing),),
            restarts=True,
        )


def account_groups(facts: Facts) -> list[str]:
    """The groups whose devices an agent opens; not every image has them all."""
    return [group for group in _GROUPS if group in facts.groups]


def folders(facts: Facts, wanted: Wanted) -> Iterator[HostStep | Skip]:
    """Steps that make the agent's folders with their owners and modes."""
    wrong = []
    for path, mode, owner in _FOLDERS:
        found = facts.files.get(path)
        if found is None or (found.mode, found.owner) != (mode, owner):
            wrong.append((path, mode, owner))
    if wrong:
        yield HostStep(
            "folders",
            "missing or not as they should be: " + ", ".join(path for path, _, _ in wrong),
            _FOLDERS_MADE,
            tuple(word for path, mode, owner in wrong for word in (f"{mode:04o}", *owner.split(":"), path)),
        )
