"""Addresses with ports, as text: `10.36.0.1:47100`, `[fd78::1]:47100`, `server.lab:47100`."""

from __future__ import annotations


def host_port(host: str, port: int) -> str:
    """Return `host` and `port` as one text; an IPv6 address gets the brackets that it may have already."""
    bare = host.removeprefix("[").removesuffix("]")
    return f"[{bare}]:{port}" if ":" in bare else f"{bare}:{port}"
