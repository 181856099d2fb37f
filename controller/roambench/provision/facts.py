"""Facts about a host before anything is done to it: one small script, run there, reports them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from roambench.contract.errors import ConfigError
from roambench.contract.json_values import beyond_64_bits, from_json
from roambench.provision import layout
from roambench.provision.platforms import Platform, platform_of
from roambench.provision.ssh.script import Script

if TYPE_CHECKING:
    from roambench.provision.ssh.hosts import HostLink

_PROBE: Final = Path(__file__).with_name("facts_probe.py")
_PATIENCE_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class FileFacts:
    """`sha256` is empty for a folder; `mode` without the type's bits."""

    sha256: str
    mode: int
    owner: str


@dataclass(frozen=True, slots=True)
class UnitFacts:
    """A unit's state, in systemd's words: "active", "enabled"; `stale` "yes" when its file was changed
    since."""

    active: str
    enabled: str
    stale: str


@dataclass(frozen=True, slots=True)
class BoardFacts:
    """The parts of a board that can be made quiet. Empty: it has none of them."""

    governors: tuple[str, ...]
    leds: dict[str, str]  # name -> trigger
    screens: dict[str, str]  # connector -> status
    power_save: dict[str, str]  # wireless interface -> "on", "off", "": not known
    swaps: tuple[str, ...]
    bluetooth: dict[str, str]  # radio -> "1" when it is blocked


@dataclass(frozen=True, slots=True)
class PackageFacts:
    """A package of the user's, on a host or on this machine. `files`: the SHA-256 of each, by its path below
    where Python found it."""

    version: str
    files: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Facts:
    """Facts that a host reports of itself, before it is provisioned and before a run. None: not known.

    `builds` maps the hash of an agent's build to what its build.json says, None while it is not whole; so
    does `programs` for folders of programs and their about.json;
    `wheels` is one digest over all wheels that the running build has.
    """

    machine: str
    bits: int
    os_id: str
    os_version: str
    python: str
    is_root: bool
    init: str
    container: str
    model: str
    memory_bytes: int
    disk_free_bytes: int  # for builds
    packages: dict[str, str]  # Debian's
    user_groups: tuple[str, ...] | None
    groups: tuple[str, ...]
    files: dict[str, FileFacts | None]
    units: dict[str, UnitFacts]
    current: str
    previous: str
    builds: dict[str, dict[str, str] | None]
    wheelhouses: tuple[str, ...]
    certificate_pem: str
    authority_pem: str
    network_manager: bool
    vcgencmd: str
    board: BoardFacts
    serials: dict[str, str]  # serial port -> USB serial number
    machine_id: str = ""
    memory_available_bytes: int | None = None
    state_free_bytes: int | None = None  # for records
    disk_mount: str = "/"  # of builds: where their file system is mounted
    state_mount: str = "/"
    throttled: int | None = None  # as `vcgencmd get_throttled` spells it
    time_synchronised: bool | None = None
    interfaces: tuple[str, ...] = ()
    port_openers: tuple[str, ...] = ()  # programs that run and open serial ports by themselves
    no_way: str | None = None  # why it has no route to the controller, "" if it has one
    own_address: str = ""  # on that route: there other boards reach it
    claim: str = ""  # of a bench on this board (`claims.BoardClaim`), as it stands there
    boot_config: str = ""  # Raspberry Pi OS's config.txt
    wheels: str | None = None
    programs: dict[str, dict[str, str] | None] = field(default_factory=dict)  # None: not whole
    python_packages: Mapping[str, PackageFacts] = field(default_factory=dict)  # of those asked for, by name

    @property
    def platform(self) -> Platform | None:
        """The kind of host that wheels are fetched for; None where agents cannot run."""
        return platform_of(self.machine, self.python)

    def unit(self, name: str) -> UnitFacts:
        """The state of a systemd unit, empty if it is not there."""
        return self.units.get(name, UnitFacts("", "", ""))


@dataclass(frozen=True, slots=True)
class Questions:
    """The packages, files (folders, too) and units the script looks at.

    `wheels`: also at all that the running build has; `python_packages`: at the files of those, by name;
    `controller`: at the way to this address.
    """

    packages: Sequence[str]
    files: Sequence[str]
    units: Sequence[str]
    wheels: bool = False
    python_packages: Sequence[str] = ()
    controller: str = ""

    def to_json(self, root: str = "/") -> str:
        """The questions as JSON text for the script on the host."""
        asked: Mapping[str, Any] = {
            "packages": list(self.packages),
            "files": list(self.files),
            "units": list(self.units),
            "wheels": self.wheels,
            "python_packages": list(self.python_packages),
            "controller": self.controller,
            "user": layout.USER,
            "root": root,
        }
        return json.dumps(asked)


#: All that provisioning may want to know.
QUESTIONS: Final = Questions(
    packages=("chrony", "systemd-timesyncd", "iw"),
    files=(
        *layout.OWN_FILES,
        *layout.OWN_FOLDERS,
        layout.SETTINGS,
        layout.IDENTITY,
        layout.BUILDS,
        layout.WHEELS,
        f"{layout.IDENTITY}/key.pem",
        layout.TOKEN,
        layout.CLAIM,
        layout.BOARD_SCRIPT,
    ),
    units=(
        *(layout.UNIT, layout.BOARD_UNIT, "chrony.service", "chrony-wait.service"),
        *("systemd-timesyncd.service", "systemd-time-wait-sync.service"),
    ),
)


def questions_before_a_run(packages: Sequence[str], controller: str = "") -> Questions:
    """Ask all that a run depends on; `packages`: the user's, which it needs; `controller`: its address."""
    unit = (layout.UNIT,)
    return Questions((), (), unit, wheels=True, python_packages=packages, controller=controller)


def gather(link: HostLink, questions: Questions = QUESTIONS) -> Facts:
    """Ask the host; HostError where it has no Python, no sudo, or answers something else."""
    from roambench.provision.ssh.host_error import HostError  # late: facts of this machine need no SSH

    ran = link.run(
        Script('python3 - "$1"'), questions.to_json(), root=True, stdin=_PROBE, timeout_s=_PATIENCE_S
    )
    name = link.host.name
    if ran.exit_code == 127:
        raise HostError(name, "it has no python3", "flash a system that docs/build.md names")
    if ran.exit_code != 0:
        raise link.unheard(f"the facts cannot be gathered: {ran.why}", "look at it with ssh")
    try:
        found = from_json(Facts, ran.out, "facts")
    except ConfigError as error:
        raise link.unheard(error.problems[0], "this is a bug: report it") from None
    if beyond_64_bits(asdict(found)):
        raise HostError(name, "facts: a number beyond 64 bits", "look at it with ssh")
    return found
