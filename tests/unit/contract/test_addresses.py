"""Hosts and ports as one text, of both families."""

from __future__ import annotations

import pytest

from roambench.contract.addresses import host_port


@pytest.mark.parametrize(
    ("host", "text"),
    [
        ("10.36.0.1", "10.36.0.1:47100"),
        ("server.lab", "server.lab:47100"),
        ("fd78::1", "[fd78::1]:47100"),
        ("[fd78::1]", "[fd78::1]:47100"),
        ("fe80::1%eth0", "[fe80::1%eth0]:47100"),
        ("::", "[::]:47100"),
        ("", ":47100"),
    ],
)
def test_a_port_follows_a_host_of_either_family(host: str, text: str) -> None:
    assert host_port(host, 47100) == text
