"""A program that answers messages on the board: an environment for what it imports, and its files."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Final

from roambench.provision import layout
from roambench.provision.facts import Facts
from roambench.provision.ssh.script import Script
from roambench.provision.step import HostStep, RemoteFile, Skip
from roambench.provision.subjects.environment import ship_step
from roambench.provision.wanted import Wanted
from roambench.provision.wheels.agent_build import AgentBuild
from roambench.provision.wheels.program_kit import described

SUBJECT: Final = "program"
_INSTALLING_S: Final = 1800.0
_CHECKING_S: Final = 300.0  # a Pi loads torch for half a minute
_UNUSABLE: Final = 66
#: Names of the environment and of its wheels, the wheel of pip, what about.json says. What it lacks it finds
#: in the agent's build that runs: torch is there once.
_INSTALLED: Final = Script(f"""\
# install what a program imports
set -e
folder={layout.PROGRAMS}/$1 house={layout.WHEELS}/$2 pip={layout.WHEELS}/$3 about=$4
exec 9>{layout.LOCK}; flock 9
rm -rf "$folder"; mkdir -p "$folder"
python3 -m venv --without-pip "$folder/venv"
"$folder/venv/bin/python" "$pip/pip" install --quiet --no-index --no-deps --no-compile --no-cache-dir \\
    --disable-pip-version-check "$house"/*.whl
cd "$folder"/venv/lib/python3*
"$folder/venv/bin/python" -m compileall -q . >/dev/null 2>&1 || :
printf '%s\\n' "{layout.CURRENT}/lib/${{PWD##*/}}/site-packages" >site-packages/beside.pth
cd {layout.OPT}; rm -rf "$house"
printf '%s' "$about" >"$folder/about.json.new"
sync -f "$folder" && mv "$folder/about.json.new" "$folder/about.json\"""")
#: The kit's digest, its environment, what about.json says, and the check. Other kits and environments go.
_BROUGHT: Final = Script(f"""\
# put a program in its place
set -e
folder={layout.PROGRAMS}/$1 environment=$2 about=$3 check=$4
exec 9>{layout.LOCK}; flock 9
rm -rf "$folder"; mkdir -p "$folder/files"
tar -xf "$folder.tar" --no-same-owner -C "$folder/files"; rm -f "$folder.tar"
ln -s "../$environment/venv" "$folder/venv"
"$folder/venv/bin/python" -m compileall -q "$folder/files" >/dev/null 2>&1 || :
install -d -o {layout.USER} "$folder/tmp"
(cd "$folder/tmp" && TMPDIR=$folder/tmp HOME=$folder/tmp runuser -u {layout.USER} -- \\
    "$folder/venv/bin/python" -P -c "$check" "$folder/files" >/dev/null) || exit {_UNUSABLE}
rm -rf "$folder/tmp"
printf '%s' "$about" >"$folder/about.json.new"
sync -f "$folder" && mv "$folder/about.json.new" "$folder/about.json"
cd {layout.PROGRAMS}; for old in *; do case $old in "$1"|"$environment") ;; *) rm -rf "$old" ;; esac; done""")
#: Before a check: what is tried here is a stranger's, too.
_HIDDEN: Final = f"from roambench.agent.orders.program_host import confine\nconfine([{layout.ETC!r}])\n"
_REMOVED: Final = Script(f"rm -rf {layout.PROGRAMS}")


def program(facts: Facts, wanted: Wanted) -> Iterator[HostStep | Skip]:
    """Steps that bring the bench's program, and take away one that it has no more."""
    build = wanted.build
    if build.kit is None:
        if facts.programs:
            yield HostStep(SUBJECT, "the bench has no program any more", _REMOVED)
        return
    kit, house, environment = build.kit.kit, build.kit.wheels, environment_of(build)
    if facts.programs.get(environment) is None:
        yield ship_step(house)
        yield HostStep(
            SUBJECT,
            f"no {environment}: {', '.join(kit.spec.alone)} and what {kit.spec.name} imports"
            + "".join(f"; boards get {one}" for one in build.kit.other_versions(build.wheelhouse)),
            _INSTALLED,
            (environment, house.hash, f"{build.wheelhouse.hash}/{build.wheelhouse.pip}", "{}"),
            timeout_s=_INSTALLING_S,
        )
    if (facts.programs.get(kit.digest) or {}).get("environment") != environment:
        about = {"name": kit.spec.name, "version": kit.spec.version, "environment": environment}
        others = ", ".join(described(one) for one in facts.programs.values() if one and "name" in one)
        yield HostStep(
            SUBJECT,
            f"has {others or 'none'}, not {kit.spec.name} {kit.spec.version} ({kit.digest})",
            _BROUGHT,
            (kit.digest, environment, json.dumps(about), _HIDDEN + kit.spec.check),
            files=(RemoteFile(f"{layout.PROGRAMS}/{kit.digest}.tar", kit.files),),
            timeout_s=_CHECKING_S,
            explained={_UNUSABLE: (f"{kit.spec.name} cannot be loaded on this board", "mend it, then again")},
        )


def environment_of(build: AgentBuild) -> str:
    """The name of the environment that a build's program has on a board: another one with other wheels of
    the agent, which it uses, too."""
    assert build.kit is not None
    both = f"{build.wheelhouse.hash} {build.kit.wheels.hash}"
    return f"env-{hashlib.sha256(both.encode()).hexdigest()[:16]}"


def needed_bytes(facts: Facts, build: AgentBuild) -> dict[str, int]:
    """Room on the disk for what a program imports."""
    if build.kit is None or facts.programs.get(environment_of(build)) is not None:
        return {}
    house = build.kit.wheels
    return {build.kit.kit.spec.name: int(house.unpacked_bytes * 1.3) + house.size_bytes}
