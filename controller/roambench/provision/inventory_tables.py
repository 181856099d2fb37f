"""Tables of a bench description: one frozen model per table, each key with unit, range and default."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field
from pydantic.config import JsonDict

from roambench.spool.influx_settings import APIS
from roambench.written.toml_file import Section

NAME_PATTERN = r"^[a-z0-9]([a-z0-9.-]{0,62}[a-z0-9])?$"
_NAME: JsonDict = {"expected": "a name of small letters, digits, '-' and '.', at most 64"}
_ADDRESS: JsonDict = {"expected": "an IP address or a host name"}
_ADDRESS_PATTERN = r"^[A-Za-z0-9]([A-Za-z0-9.:_-]{0,252}[A-Za-z0-9])?$"

_PATH: JsonDict = {"expected": "a path; of ~NAME, NAME has to have a home on this machine"}


def _home_is_known(path: str) -> str:
    try:
        Path(path).expanduser()
    except RuntimeError as error:
        raise ValueError(str(error)) from None
    return path


_Path = Annotated[str, AfterValidator(_home_is_known)]


class ControllerTable(Section):
    """The machine that `roambench run` runs on, as the boards see it."""

    address: str = Field(
        pattern=_ADDRESS_PATTERN,
        json_schema_extra=_ADDRESS,
        description="What the boards dial.",
    )
    listen_host: str = Field("0.0.0.0", description="Where the controller listens.")
    control_port: int = Field(47100, ge=1, le=65535, description="TCP port of orders and records.")
    data_port: int = Field(47101, ge=1, le=65535, description="TCP port of models, the measured one.")


class InfluxTable(Section):
    """Where the boards' readings go besides the run folder. Tokens on boards may only write."""

    url: str = Field(description='For example "http://10.36.0.1:8086".')
    bucket: str = Field(min_length=1, description='A bucket, or for api "v1" a database.')
    org: str = Field("", description="Organisation, for InfluxDB 2.")
    api: str = Field(
        "v2",
        pattern="^(" + "|".join(APIS) + ")$",
        json_schema_extra={"expected": "one of " + ", ".join(f'"{api}"' for api in APIS)},
        description="Write endpoint: `v2` for InfluxDB 2, 3 and VictoriaMetrics, `v1` for InfluxDB 1.x.",
    )
    token_file: _Path = Field(
        "",
        json_schema_extra=_PATH,
        description="File on this machine with the write-only token (v1: user:password), relative to the "
        "bench description. It is installed on the hosts, readable by the agent only.",
    )


class MeterTable(Section):
    """The meter of a host."""

    driver: str = Field("smartpower2", description='A name of `roambench meter list`, or "none".')
    port: str = Field(
        "",
        description="As the driver wants it. Empty with a `serial`: the stable name that provisioning gives "
        "the meter with this USB serial number.",
    )
    serial: str = Field(
        "",
        pattern=r"^[A-Za-z0-9._:-]{0,64}$",
        json_schema_extra={"expected": "a serial number of letters, digits and ._:-"},
        description="The meter's USB serial number (`udevadm info`): its name and its calibration's.",
    )
    gain: float = Field(1.0, gt=0.0, description="Calibrated watts = gain x reading + offset_watts.")
    offset_watts: float = Field(0.0, description="In watts.")
    wifi_hop: str = Field(
        "", description="HOST[:PORT] where a gateway forwards the meter's WebSocket, for switching power."
    )
    emulated: bool = Field(
        False, description="The host is a container and its meter a program: opening the port is harmless."
    )
    reopen_allowed: bool = Field(
        False,
        description="You have tried that opening the port resets nothing: the agent opens it whenever it "
        "wants, without the latch (firmware_notes/README.md).",
    )


class HostDefaults(Section):
    """Values of every host unless its own table says otherwise."""

    ssh_user: str | None = Field(
        None,
        pattern=r"^[a-z_][a-z0-9_-]*$",
        json_schema_extra={"expected": "a user's name"},
        description="Logs in with a key, and is root or may use sudo without a password. Without it "
        "`User` of your ~/.ssh/config, else pi.",
    )
    ssh_port: int | None = Field(
        None,
        ge=1,
        le=65535,
        description="TCP port of sshd. Without it `Port` of your ~/.ssh/config, else 22.",
    )
    ssh_key: _Path = Field(
        "",
        json_schema_extra=_PATH,
        description="Private key, relative to the bench description, the only one that is offered; one with "
        "a passphrase has to be in the SSH agent. Empty: the agent's keys and `IdentityFile` are tried.",
    )
    interface: str = Field(
        "wlan0",
        pattern=r"^[A-Za-z0-9._-]{1,15}$",
        json_schema_extra={"expected": "a network interface's name"},
        description="The network interface that carries models; its bytes are counted.",
    )
    tags: list[str] = Field(default_factory=list, description="Words for `--only`.")
    meter: MeterTable = Field(default_factory=lambda: MeterTable.model_validate({}), description="The meter.")


class HostTable(HostDefaults):
    """One host, or with ranges as many as they have."""

    name: str = Field(
        pattern=NAME_PATTERN, json_schema_extra=_NAME, description="The device's name and its certificate's."
    )
    address: str = Field(
        pattern=_ADDRESS_PATTERN, json_schema_extra=_ADDRESS, description="What SSH connects to."
    )
    slot: int = Field(ge=1, description="Its place in the bench; left out, its place in the file, from 1.")


class BenchTable(Section):
    """The keys of the file besides the hosts."""

    name: str = Field(
        "", pattern=NAME_PATTERN[:-1] + "$|^$", json_schema_extra=_NAME, description="Default: the file's."
    )
    controller: ControllerTable
    influxdb: InfluxTable | None = None
    time_server: str = Field(
        "",
        pattern=_ADDRESS_PATTERN + "|^$",
        json_schema_extra=_ADDRESS,
        description="NTP server of the hosts; default: the controller.",
    )
    state_dir: _Path = Field(
        "",
        json_schema_extra=_PATH,
        description="What the bench itself records (its certificate authority, host keys, lease, wheels), "
        "relative to the file; default `.NAME` beside it.",
    )
