"""Addresses with ports, as text: `10.36.0.1:47100`, `[fd78::1]:47100`, `server.lab:47100`."""

from __future__ import annotations

from ipaddress import ip_address


def host_port(host: str, port: int) -> str:
    """Return `host` and `port` as one text; an IPv6 address gets the brackets that it may have already."""
    bare = host.removeprefix("[").removesuffix("]")
    return f"[{bare}]:{port}" if ":" in bare else f"{bare}:{port}"


def one_spelling(address: str) -> str:
    """Return an address or name, with its port if it has one, in one spelling: `fd78::1` for `FD78:0::1`."""
    host, bracket, port = address.rpartition("]")
    try:
        found = ip_address(host.removeprefix("[") or port)
    except ValueError:
        return address.lower()
    mapped = found.ipv4_mapped if found.version == 6 else None
    return f"[{found}]{port}" if bracket else str(mapped or found)
