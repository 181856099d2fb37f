"""The bench description of a set of hosts, as their owner would write it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from hosts.lab.container import METER_DEVICE, Container
from hosts.lab.meters import Meters
from hosts.lab.network import INTERFACE, Network

_HEAD = """\
# Hosts in containers, with emulated meters.
name = "{name}"

[controller]
address = "{machine}"
listen_host = "{machine}"
control_port = {control_port}
data_port = {data_port}

[defaults]
ssh_key = "{key}"
interface = "{interface}"

[defaults.meter]
driver = "smartpower2"
port = "{meter}"
emulated = true
"""

_HOST = """
[[hosts]]
name = "{name}"
address = "{address}"
ssh_user = "{user}"
ssh_port = {port}
meter = {{ wifi_hop = "{hop}" }}
"""


def text(network: Network, hosts: Sequence[Container], meters: Meters, key: Path) -> str:
    head = _HEAD.format(
        name=f"lab{network.number}",
        machine=network.machine,
        control_port=27100,  # below the ports that outgoing connections take
        data_port=27101,
        key=key,
        interface=INTERFACE,
        meter=METER_DEVICE,
    )
    entries = [
        _HOST.format(
            name=host.name,
            address=host.address,
            user=host.user,
            port=host.port,
            hop=meters.hop(host.name),
        )
        for host in hosts
    ]
    return head + "".join(entries)
