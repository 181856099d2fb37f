"""The spelling of a meter's port: an address, then options, as in `/dev/ttyUSB0?channel=1&serial=SP3-07`."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Final

from roambench.contract.errors import ConfigError

#: Options that every driver takes: the meter's serial number (it names its calibration), the host that reads
#: the meter when that is not the board itself, and what the meter sees when that is not the whole board.
COMMON_OPTIONS: Final = ("serial", "reader", "site")

#: What a site may be called in experiments and bench descriptions.
SITE_PATTERN: Final = r"^([A-Za-z0-9][A-Za-z0-9 _.+-]{0,39})?$"


@dataclass(frozen=True, slots=True)
class Port:
    """A parsed port: `text` as it was written, the `address` before "?", the `options` after it."""

    driver: str
    text: str
    address: str
    options: Mapping[str, str]

    def number(self, option: str, default: float) -> float:
        """A positive number; ConfigError for anything else."""
        text = self.options.get(option)
        if text is None:
            return default
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not 0.0 < value < math.inf:
            raise self.mistake(f"{option}: expected a number > 0, got {text!r}")
        return value

    def choice(self, option: str, choices: Collection[str], default: str) -> str:
        """One of `choices`; ConfigError lists them."""
        value = self.options.get(option, default)
        if value not in choices:
            raise self.mistake(f"{option}: expected one of {', '.join(choices)}, got {value!r}")
        return value

    def host_port(self, default_port: int) -> tuple[str, int]:
        """The address as host and TCP or UDP port; an IPv6 address stands in brackets."""
        return host_port(self.address, default_port, self.mistake)

    def mistake(self, what: str) -> ConfigError:
        """An error that names driver and port, to be raised."""
        return ConfigError([f"meter {self.driver}, port {self.text!r}: {what}"])


def parse_port(driver: str, text: str, options: Collection[str] = ()) -> Port:
    """Split `text`; ConfigError for an empty address, and for unknown, empty or repeated options."""
    address, question, rest = text.partition("?")
    port = Port(driver, text, address, {})
    if not address or not text.isprintable():
        raise port.mistake("expected an address")
    known = (*options, *COMMON_OPTIONS)
    given: dict[str, str] = {}
    for item in rest.split("&") if question else ():
        name, equals, value = item.partition("=")
        if name not in known or not equals or not value:
            raise port.mistake(f"expected OPTION=VALUE with one of {', '.join(known)}, got {item!r}")
        if name in given:
            raise port.mistake(f"{name} is given twice")
        given[name] = value
    return Port(driver, text, address, given)


def option_in(text: str, name: str) -> str:
    """The value of an option of the port `text`; "" where it has none of that name."""
    options = (item.partition("=") for item in text.partition("?")[2].split("&"))
    return next((value for key, _, value in options if key == name), "")


def with_option(text: str, name: str, value: str) -> str:
    """The port `text` with one more option; as it is where it has that one, or `value` is empty."""
    if not value or any(item.startswith(f"{name}=") for item in text.partition("?")[2].split("&")):
        return text
    return f"{text}{'&' if '?' in text else '?'}{name}={value}"


def host_port(text: str, default_port: int, mistake: Callable[[str], ConfigError]) -> tuple[str, int]:
    """`host`, `host:port` or `[ipv6]:port`."""
    if text.startswith("["):
        host, bracket, rest = text[1:].partition("]")
        colon, _, digits = rest.partition(":") if rest else ("", "", "")
        good = bool(bracket) and not colon and (not rest or bool(digits))
    else:
        host, _, digits = text.partition(":")
        good = ":" not in digits and (":" not in text or bool(digits))
    number = int(digits) if digits.isascii() and digits.isdigit() and len(digits) <= 5 else 0
    if digits and not 0 < number < 65536:
        good = False
    if not good or not host or any(c.isspace() or c in "/@" for c in host):
        raise mistake(f"expected HOST or HOST:PORT, got {text!r}")
    return host, number or default_port
