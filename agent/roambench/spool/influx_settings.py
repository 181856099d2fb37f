"""An InfluxDB and the way to it: what agents are given, and what a run folder may keep."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from roambench.contract.errors import ConfigError

APIS: Final = ("v2", "v1")
#: Variables that are meant for a token of an InfluxDB, and for writing.
_TOKEN_ENV: Final = re.compile("INFLUX(DB)?_TOKEN|ROAMBENCH_INFLUX_[A-Z0-9_]+")


@dataclass(frozen=True, slots=True)
class InfluxSettings:
    """`bucket` is a bucket, or for `api` "v1" a database, with "/policy" behind it if need be.

    "v2" is the write endpoint of InfluxDB 2 and 3 and of VictoriaMetrics; "v1" that of InfluxDB 1.x. The
    token (for "v1": user:password) may only write, and is never in here: it is read from `token_file`, or
    else from the environment variable `token_env`; without either none is sent.
    """

    url: str
    bucket: str
    org: str = ""
    api: str = "v2"
    token_file: str = ""
    token_env: str = "INFLUX_TOKEN"
    gzip: bool = True
    timeout_s: float = 20.0
    retry_most_s: float = 60.0  # the longest pause between two attempts, unless the server asks for more

    def token(self) -> str:
        """The token as it is now; ConfigError names the file that cannot be read, or a variable that may not
        be."""
        if not self.token_file:
            if mistake := token_env_mistake(self.token_env):
                raise ConfigError([f"influxdb.token_env: {mistake}"])
            return os.environ.get(self.token_env, "").strip() if self.token_env else ""
        return token_in(Path(self.token_file), "token file ")


def token_in(path: Path, named: str = "") -> str:
    """The token in a file of one line, which may begin with a byte order mark; "" for an empty one.

    ConfigError, beginning with `named` and the path, for a file that is none.
    """
    try:
        token = path.read_text(encoding="utf-8-sig").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not ASCII"
        raise ConfigError([f"{named}{path}: cannot be read ({reason})"]) from None
    if not token.isascii():
        raise ConfigError([f"{named}{path}: cannot be read (not ASCII)"])
    if not token.isprintable():
        raise ConfigError([f"{named}{path}: expected one line"])
    return token


def token_env_mistake(name: str) -> str | None:
    """The mistake in the name of a token's variable, or None.

    Who writes the name writes the address, too: another variable's secret would go wherever they like.
    """
    if not name or _TOKEN_ENV.fullmatch(name):
        return None
    return (
        f'expected "INFLUX_TOKEN", "INFLUXDB_TOKEN" or a name that begins with "ROAMBENCH_INFLUX_": the '
        f"variable's content is sent to the InfluxDB, got {json.dumps(name)}"
    )


def readable_at(url: str) -> str:
    """The host to which what is sent there can be read on the way: plain HTTP to another machine; else ""."""
    parts = urlsplit(url)
    return host_beyond(url) if parts.scheme == "http" else ""


def host_beyond(url: str) -> str:
    """The host of the address, "" for this machine."""
    host = urlsplit(url).hostname or ""
    try:
        here = ip_address(host).is_loopback
    except ValueError:
        here = host == "localhost"
    return "" if here else host


def url_mistake(url: str) -> str | None:
    """The mistake in an InfluxDB's address, or None."""
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018
    except ValueError as error:
        hint = (
            '; an IPv6 address stands in brackets, as "http://[2001:db8::1]:8086"'
            if url.count(":") > 2
            else ""
        )
        return f"not an address: {error}{hint}"
    if parts.username is not None or parts.password is not None:
        # First: no other sentence may repeat it.
        return "expected an address without a password: the token belongs into a file or the environment"
    if parts.scheme not in ("http", "https") or not parts.hostname:
        return f'expected an address like "http://influx.example:8086", got {url!r}'
    if parts.query or parts.fragment:
        return "expected an address without a query"
    return None
