"""The root file systems under the hosts, one per flavour, made once and never written to again."""

from __future__ import annotations

import fcntl
import shutil
import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from hosts.lab import recipe
from hosts.lab.command import do
from hosts.lab.foreign import NATIVE, let_run
from hosts.lab.places import cache

#: What debootstrap's second stage needs of emulation makes it slow: 20 minutes on two cores.
_PATIENCE_S = 1800.0
_AUTHORITIES = Path("/etc/ssl/certs/ca-certificates.crt")


def root(architecture: str = NATIVE, flavour: str = "debian") -> Path:
    """The cached root of this flavour; made now if it is missing (2 minutes), once for all who ask."""
    let_run(architecture)
    folder = cache() / f"root-{architecture}-{flavour}-{recipe.key(flavour, architecture)}"
    if folder.exists():
        return folder
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            draft = folder.with_suffix(".draft")
            shutil.rmtree(draft, ignore_errors=True)
            base = recipe.FLAVOURS[flavour].base
            below = root(architecture, base) if base else None
            print(f"building the hosts' root file system in {folder}", file=sys.stderr, flush=True)
            _build(draft, architecture, flavour, below)
            draft.rename(folder)
    return folder


def roots(architecture: str, flavours: Iterable[str]) -> dict[str, Path]:
    """The roots of several flavours, made side by side."""
    wanted = sorted(set(flavours))
    with ThreadPoolExecutor(len(wanted)) as pool:
        return dict(zip(wanted, pool.map(lambda flavour: root(architecture, flavour), wanted), strict=True))


def _build(folder: Path, architecture: str, flavour: str, below: Path | None) -> None:
    chosen = recipe.FLAVOURS[flavour]
    if below is None:
        include = f"--include={','.join(chosen.packages)}"
        where: tuple[str, ...] = (recipe.mirror(),)
        if chosen.archive:  # Debian's debootstrap has neither its keys nor newer suites' names
            where = (chosen.archive, "gutsy")
            include += " --no-check-gpg"
        bootstrap = ("debootstrap", f"--arch={architecture}", *include.split(), chosen.suite, folder, *where)
        do(*bootstrap, timeout_s=_PATIENCE_S)
    else:
        do("cp", "-a", below, folder, timeout_s=_PATIENCE_S)
        _install(folder, chosen)
    for name, text in recipe.files(flavour, architecture).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    for rules in (folder / "etc/sudoers.d").iterdir():
        rules.chmod(0o440)
    for step in recipe.steps(flavour):
        _inside(folder, step)


def _install(folder: Path, chosen: recipe.Flavour) -> None:
    """By the root's own apt; a mirror with HTTPS is believed by this machine's authorities."""
    trusted = folder / "ca.crt"
    apt = "apt-get -y -qq"
    if _AUTHORITIES.exists():
        shutil.copy(_AUTHORITIES, trusted)
        apt += " -o Acquire::https::CAInfo=/ca.crt"
    sparing = "--no-install-recommends" if chosen.sparing else ""
    _inside(folder, f"{apt} update && {apt} install {sparing} {' '.join(chosen.packages)}")
    trusted.unlink(missing_ok=True)


def _inside(folder: Path, step: str) -> None:
    quiet = ("env", "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C.UTF-8")
    do("chroot", folder, *quiet, "/bin/sh", "-ec", step, timeout_s=_PATIENCE_S)
