"""The agent's build: wheels, shipped once; a Python environment; a first training step; the switch to it."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator

from roambench.provision import layout
from roambench.provision.facts import Facts
from roambench.provision.preflight.host_checks import LEAST_DISK_BYTES
from roambench.provision.ssh.script import Script
from roambench.provision.step import HostStep, RemoteFile, Shipment, Skip
from roambench.provision.wanted import Wanted
from roambench.provision.wheels.wheelhouse import Wheelhouse

_CHECKING_S = 300.0  # of 150 MB on an SD card
_INSTALLING_S = 1800.0  # a Pi 3B+ unpacks torch to its SD card
_KILLED_BY_SIGILL = 132
_KILLED_BY_SIGKILL = 137
_CORRUPT = 65
_UNUSABLE = 66
_GONE = 67
#: Readings that the controller has not got yet.
_SPOOL_BYTES = 64 * 2**20
#: A forward and a backward pass use the vector instructions that some boards do not have.
_SMOKE = (
    "import torch\n"
    "torch.set_num_threads(1)\n"
    "torch.manual_seed(1)\n"
    "layer = torch.nn.Sequential(torch.nn.Conv2d(1, 4, 3), torch.nn.Flatten(), torch.nn.Linear(2704, 10))\n"
    "loss = torch.nn.functional.cross_entropy(layer(torch.rand(8, 1, 28, 28)), torch.arange(8))\n"
    "loss.backward()\n"
    "torch.optim.SGD(layer.parameters(), lr=0.1).step()\n"
    "import grpc, roambench.agent.cli\n"
)
#: What agents load of other packages, each once. Systems, readers and switches are the controller's.
_LOAD = (
    "import sys\n"
    "from importlib.metadata import distribution\n"
    "groups = ['roambench.' + name for name in ('local_algorithms', 'meters', 'models')]\n"
    "for name in sys.argv[1].split():\n"
    "    for point in distribution(name).entry_points:\n"
    "        if point.group in groups:\n"
    "            try:\n"
    "                point.load()\n"
    "            except Exception as error:\n"
    "                sys.stderr.write(f'{name} {point.value}: {type(error).__name__}: {error}')\n"
    f"                sys.exit({_UNUSABLE})\n"
)


_SHIPPED = Script(f"""\
# put wheels in their place
target=$1
cd "$target.new" || exit 1
sha256sum --check --quiet --strict SHA256SUMS || {{
    sha256sum --check SHA256SUMS 2>/dev/null | sed -n 's/: FAILED.*//p' | xargs -r -d '\\n' rm -f --
    exit {_CORRUPT}
}}
sync -f . && mv "$target.new" "$target\"""")
#: Nearly half of all sources, which no agent loads: byte code of them is minutes of a Pi's work.
_UNLOADED = "/(tests|torch/(_dynamo|_inductor|onnx)|sympy|networkx)/|/torch/testing/_internal/common_[^d]"
#: Nothing where another caller has finished it. Hashes of the build and its wheelhouse, the wheels of pip and
#: of roambench, what build.json says; digests
#: and names of the user's own packages, and their wheels.
_INSTALLED = Script(f"""\
# install a build
set -e
folder={layout.BUILDS}/$1 house={layout.WHEELS}/$2 pip=$3 wheel=$4 about=$5 sums=$6 names=$7; shift 7
venv=$folder/venv
exec 9>{layout.LOCK}; flock 9
if [ -e "$folder/build.json" ]; then cd {layout.OPT}; rm -f -- "./$wheel" "$@"; exit 0; fi
rm -rf "$folder"; mkdir -p "$folder"; cd {layout.OPT}; mv "./$wheel" "$@" "$folder/"; cd "$folder"
python3 -m venv --without-pip "$venv"
"$venv/bin/python" "$house/$pip/pip" install --quiet --no-index --no-compile --no-cache-dir \\
    --disable-pip-version-check --find-links "$house" "./$wheel"
"$venv/bin/python" -m compileall -q -x {shlex.quote(_UNLOADED)} "$venv/lib" >/dev/null 2>&1 || :
if [ $# -gt 0 ]; then
    printf '%s' "$sums" | sha256sum --check --quiet --strict || exit {_CORRUPT}
    "$venv/bin/python" "$house/$pip/pip" install --quiet --no-index --no-deps --no-cache-dir \\
        --disable-pip-version-check "$@"
fi
install -d -o {layout.USER} "$folder/tmp"
cd / && TMPDIR=$folder/tmp runuser -u {layout.USER} -- "$venv/bin/python" -c {shlex.quote(_SMOKE)}
cd / && TMPDIR=$folder/tmp runuser -u {layout.USER} -- "$venv/bin/python" -c {shlex.quote(_LOAD)} "$names"
rm -rf "$folder/tmp"
printf '%s' "$about" >"$folder/build.json.new"
sync -f "$folder" && mv "$folder/build.json.new" "$folder/build.json\"""")
#: `keep BUILD`, in OPT: beside a build what it runs with; nothing where its folder is lost.
KEEP = Script(
    "keep() {\n"
    + "\n".join(
        f'    if [ -e {file} ] && [ -d "builds/$1" ]; then cp -p {file} "builds/$1/"; fi'
        for file in layout.RUN_WITH
    )
    + "\n}"
)
#: A build and its wheelhouse, and the build that stays for `fleet rollback` where none runs; older ones and
#: their wheels go. What runs is asked here: another caller may have switched since the facts were gathered.
_SWITCHED = Script(f"""\
# switch to a build
set -e
build=$1 house=$2 other=$3
{KEEP}
exec 9>{layout.LOCK}; flock 9
cd {layout.OPT}
[ -e "builds/$build/build.json" ] || exit {_GONE}
current=$(readlink current | cut -d/ -f2)
[ "$current" != "$build" ] || current=
other=${{current:-$other}}
if [ -n "$current" ]; then
    keep "$current"
    ln -sfn "builds/$current/venv" previous.new
    mv -T previous.new previous
fi
ln -sfn "builds/$build/venv" current.new
mv -T current.new current
for old in builds/*; do case ${{old#builds/}} in "$build"|"$other") ;; *) rm -rf "$old" ;; esac; done
for old in wheels/*; do case ${{old#wheels/}} in "$house") ;; *) rm -rf "$old" ;; esac; done""")


def environment(facts: Facts, wanted: Wanted) -> Iterator[HostStep | Skip]:
    """Steps that install the agent's build."""
    build = wanted.build
    if facts.builds.get(build.hash) is None:
        if build.wheelhouse.hash not in facts.wheelhouses:
            yield ship_step(build.wheelhouse)
        yield _install(facts, wanted)
    if facts.current != build.hash:
        yield HostStep(
            "build",
            f"runs {facts.current or 'none'}, not {build.hash}",
            _SWITCHED,
            (build.hash, build.wheelhouse.hash, facts.previous),
            explained={_GONE: ("another caller has removed this build", "again, once that one is done")},
            restarts=True,
        )


def needed_bytes(facts: Facts, wanted: Wanted) -> dict[str, int]:
    """Room on the disk, by what it is for. No build is shipped to a host that could then not run, or never
    have another: a build lies beside the one before it."""
    house = wanted.build.wheelhouse
    if facts.builds.get(wanted.build.hash) is not None:
        return {"readings": _SPOOL_BYTES}
    installed = int(house.unpacked_bytes * 1.3)  # byte code included
    needed = {"this build": installed + (0 if house.hash in facts.wheelhouses else house.size_bytes)}
    if not any(facts.builds.values()):
        needed["an upgrade"] = installed + house.size_bytes
    return {**needed, "a run": LEAST_DISK_BYTES}


def ship_step(house: Wheelhouse) -> HostStep:
    """The step that brings the wheels."""
    target = f"{layout.WHEELS}/{house.hash}"
    return HostStep(
        "wheels",
        f"wheelhouse {house.hash} is not there ({house.size_bytes / 1e6:.0f} MB)",
        _SHIPPED,
        (target,),
        shipment=Shipment(house.archive, target, house.shipped),
        timeout_s=_CHECKING_S,
        explained={_CORRUPT: ("the wheels arrived damaged", "again; a second time: another SD card")},
    )


def _install(facts: Facts, wanted: Wanted) -> HostStep:
    build = wanted.build
    sent = (build.wheel, *(package.path for package in build.packages))
    sums = "".join(f"{one.wheel.sha256}  {one.path.name}\n" for one in build.packages)
    names = " ".join(package.wheel.name for package in build.packages)
    about = {
        "build": build.hash,
        "code": build.code,
        "wheelhouse": build.wheelhouse.hash,
        "version": build.version,
        "packages": "\n".join(package.pin for package in build.packages),
    }
    half = "only half of" if build.hash in facts.builds else "no"
    beside = "".join(f" with {one.wheel.name} {one.wheel.version}" for one in build.packages)
    return HostStep(
        "environment",
        f"{half} build {build.hash} (roambench {build.version}){beside}",
        _INSTALLED,
        (
            *(build.hash, build.wheelhouse.hash, build.wheelhouse.pip, build.wheel.name),
            *(json.dumps(about), sums, names),
            *(f"./{package.path.name}" for package in build.packages),
        ),
        files=tuple(RemoteFile(f"{layout.OPT}/{path.name}", path.read_bytes()) for path in sent),
        timeout_s=_INSTALLING_S,
        explained={
            _KILLED_BY_SIGILL: (
                "torch ends with an illegal instruction (SIGILL) on this board",
                "pin another torch for its processor (packaging/lock.in, then make lock), then again",
            ),
            _CORRUPT: ("a package arrived damaged", "again; a second time: another SD card"),
            _UNUSABLE: (
                "an entry point of a package cannot be loaded on this board",
                "mend the package, then again; it has the build before still",
            ),
            _KILLED_BY_SIGKILL: (
                "out of memory while installing or training a first step",
                "free memory on it",
            ),
        },
    )
