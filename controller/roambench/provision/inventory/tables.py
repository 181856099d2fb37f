"""Tables of a bench description: one frozen model per table, each key with unit, range and default."""

from __future__ import annotations

from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Annotated, Any
from zoneinfo import available_timezones

from pydantic import AfterValidator, BeforeValidator, Field
from pydantic.config import JsonDict

from roambench.meters.chips import CHIPS
from roambench.meters.ports import SITE_PATTERN
from roambench.spool.influx_settings import APIS
from roambench.written.toml_file import Section

NAME_PATTERN = r"^[a-z0-9]([a-z0-9.-]{0,62}[a-z0-9])?$"
_NAME: JsonDict = {"expected": "a name of small letters, digits, '-' and '.', at most 64"}
_ADDRESS: JsonDict = {"expected": "an IP address or a host name"}
#: With %INTERFACE an IPv6 address of one link.
_ADDRESS_PATTERN = r"^(::)?[A-Za-z0-9]([A-Za-z0-9.:_-]{0,252}[A-Za-z0-9])?(%[A-Za-z0-9._-]{1,15})?$"


def _without_brackets(value: object) -> object:
    """An IPv6 address as it stands before a port in URLs, too."""
    return (
        value[1:-1] if isinstance(value, str) and value[:1] + value[-1:] == "[]" and ":" in value else value
    )


_Address = Annotated[str, BeforeValidator(_without_brackets)]


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

    address: _Address = Field(
        pattern=_ADDRESS_PATTERN,
        json_schema_extra=_ADDRESS,
        description="What the boards dial.",
    )
    listen_host: _Address = Field(
        "0.0.0.0",
        pattern=_ADDRESS_PATTERN + "|^::$",
        json_schema_extra=_ADDRESS,
        description="Address that the controller listens at; `0.0.0.0`: all, IPv6 ones too.",
    )
    control_port: int = Field(21710, ge=1, le=65535, description="TCP port of orders and records.")
    data_port: int = Field(21711, ge=1, le=65535, description="TCP port of models, the measured one.")


class InfluxTable(Section):
    """The database that boards' readings go to besides the run folder. Tokens on boards may only write."""

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
    host: str = Field(
        "",
        pattern=NAME_PATTERN + "|^$",
        json_schema_extra=_NAME,
        description="Where the meter hangs, and is read: `controller`: on this machine; the name of another "
        "host: there; empty: on the board.",
    )
    site: str = Field(
        "",
        pattern=SITE_PATTERN,
        json_schema_extra={"expected": "at most 40 letters, digits, blanks and _.+-"},
        description="What it sees where that is not the whole board, as `CPU rail`: the report says so.",
    )
    i2c: str = Field(
        "",
        pattern=rf"^(({'|'.join(CHIPS)})@\d-00[0-7][0-9a-f])?$",
        json_schema_extra={"expected": "CHIP@BUS-ADDRESS, as ina226@1-0040, with one of " + ", ".join(CHIPS)},
        description="Of the driver `hwmon`: the chip that provisioning and `fleet image` make known to the "
        "kernel, where no device tree does.",
    )
    shunt_uohm: int = Field(
        0,
        ge=0,
        le=10_000_000,
        description="Of the driver `hwmon`: what the shunt has, microohms; it is set, and another value in "
        "the kernel is refused. 0: as it is.",
    )
    update_ms: int = Field(
        0, ge=0, le=10_000, description="Of the driver `hwmon`: `update_interval` to set, ms. 0: as it is."
    )


def _is_ssid(text: str) -> str:
    """Any letters, quotes and blanks; a line's end or an escape sequence is a slip of the keyboard."""
    if not (len(text.encode()) <= 32 and text.isprintable()):
        raise ValueError
    return text


def _is_network(text: str) -> str:
    return str(ip_network(text)) if text else text


def _is_address(text: str) -> str:
    return str(ip_address(text)) if text else text


def _is_timezone(text: str) -> str:
    """A machine without a time zone database knows none and accepts them all."""
    known = available_timezones()
    if known and text not in known:
        raise ValueError
    return text


_ADDRESS_OR_NONE: JsonDict = {"expected": "an IP address"}


class CardTable(Section):
    """The data that `roambench fleet image` writes on a host's SD card, besides name, user, key and time
    server."""

    ssid: Annotated[str, AfterValidator(_is_ssid)] = Field(
        "",
        json_schema_extra={"expected": "a name of at most 32 bytes without control characters"},
        description="The Wi-Fi (WPA2) that the host joins; empty: its `interface` is a cable.",
    )
    hidden: bool = Field(False, description="The access point does not tell its name.")
    country: str = Field(
        "",
        pattern="^([A-Z]{2})?$",
        json_schema_extra={"expected": "a country's two capital letters (ISO 3166), as CH"},
        description="Where the board stands: without it no Raspberry Pi switches its radio on.",
    )
    passphrase_file: _Path = Field(
        "",
        json_schema_extra=_PATH,
        description="File on this machine with the Wi-Fi's passphrase, which its owner alone may read, "
        "relative to the bench description; $ROAMBENCH_WIFI_PASSPHRASE goes before it.",
    )
    subnet: Annotated[str, AfterValidator(_is_network)] = Field(
        "",
        json_schema_extra={"expected": "a network as 192.168.50.0/24 or fd78::/64"},
        description="With it the host gives itself its `address`, of this network; empty: the router does.",
    )
    gateway: Annotated[str, AfterValidator(_is_address)] = Field(
        "", json_schema_extra=_ADDRESS_OR_NONE, description="Default route of a host with a `subnet`."
    )
    dns: Annotated[str, AfterValidator(_is_address)] = Field(
        "", json_schema_extra=_ADDRESS_OR_NONE, description="Name server of a host with a `subnet`."
    )
    timezone: Annotated[
        str, Field(pattern=r"^[A-Za-z0-9_+-]+(/[A-Za-z0-9_+-]+)*$"), AfterValidator(_is_timezone)
    ] = Field(
        "Etc/UTC",
        json_schema_extra={"expected": "a time zone as Europe/Zurich"},
        description="Of its logs' and shells' clock.",
    )


class HostDefaults(Section):
    """Values of every host, or of those with one tag, unless its own table says otherwise."""

    ssh_user: str | None = Field(
        None,
        pattern=r"^[A-Za-z_][A-Za-z0-9_.-]*$",
        json_schema_extra={"expected": "a user's name of letters, digits and _.-"},
        description="Logs in with a key, and is root or may use sudo (-K for its password). Without it "
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
    tags: list[str] = Field(default_factory=list, description="Words for `--only`, and names of groups.")
    meter: MeterTable = Field(default_factory=lambda: MeterTable.model_validate({}), description="The meter.")
    card: CardTable = Field(
        default_factory=lambda: CardTable.model_validate({}), description="For `roambench fleet image`."
    )
    power: dict[str, Any] | None = Field(
        None, description="What switches the board: `roambench list switches`; default: its meter."
    )


class HostTable(HostDefaults):
    """One host, or with ranges as many as they have."""

    name: str = Field(
        pattern=NAME_PATTERN, json_schema_extra=_NAME, description="The device's name and its certificate's."
    )
    address: _Address = Field(
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
    time_server: _Address = Field(
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
