"""The root file system under every host, made once by debootstrap and never written to again."""

from __future__ import annotations

import fcntl
import shutil
import sys
from pathlib import Path

from hosts.lab import recipe
from hosts.lab.command import do
from hosts.lab.foreign import let_run
from hosts.lab.places import cache

#: What debootstrap's second stage needs of emulation makes it slow: 20 minutes on two cores.
_PATIENCE_S = 1800.0


def root(architecture: str = "amd64") -> Path:
    """The cached root of this recipe; made now if it is missing (2 minutes), once for all who ask."""
    let_run(architecture)
    folder = cache() / f"root-{architecture}-{recipe.key(architecture)}"
    if folder.exists():
        return folder
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            draft = folder.with_suffix(".draft")
            shutil.rmtree(draft, ignore_errors=True)
            print(f"building the hosts' root file system in {folder}", file=sys.stderr, flush=True)
            _build(draft, architecture)
            draft.rename(folder)
    return folder


def _build(folder: Path, architecture: str) -> None:
    do(
        "debootstrap",
        f"--arch={architecture}",
        "--variant=minbase",
        f"--include={','.join(recipe.PACKAGES)}",
        recipe.SUITE,
        folder,
        recipe.MIRROR,
        timeout_s=_PATIENCE_S,
    )
    for name, text in recipe.files(architecture).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    for rules in (folder / "etc/sudoers.d").iterdir():
        rules.chmod(0o440)
    for step in recipe.STEPS:
        do("chroot", folder, "/bin/sh", "-ec", step, timeout_s=_PATIENCE_S)
