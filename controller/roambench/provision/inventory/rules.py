"""Rules between the keys of a bench description, each of which is right by itself."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from roambench.contract.addresses import one_spelling
from roambench.contract.errors import ConfigError
from roambench.identity.controller_name import CONTROLLER_NAME
from roambench.meters.catalogue import METERS, driver_row, wired_names
from roambench.meters.chips import UNAVERAGED
from roambench.meters.ports import host_port
from roambench.provision.bench import CONTROLLER_READER, HWMON, NO_METER, Host
from roambench.provision.chip_match import chip_match
from roambench.provision.inventory.tables import ControllerTable, InfluxTable
from roambench.provision.power.described import outlet_of
from roambench.spool.influx_settings import host_beyond, url_mistake
from roambench.written.mistakes import did_you_mean

#: Of a host name, by DNS.
_MOST_LABEL = 63
_LOOPBACK = ("127.", "localhost", "[::1]")


def broken_rules(controller: ControllerTable, influxdb: InfluxTable | None) -> list[str]:
    """Mistakes of the tables [controller] and [influxdb]."""
    problems = [] if influxdb is None else _influx_mistakes(influxdb)
    if controller.control_port == controller.data_port:
        problems.append(
            f"controller.data_port: expected another than control_port, got {controller.data_port}"
        )
    problems += [f"controller.address: {mistake}" for mistake in _address_mistakes(controller.address)]
    return problems


def _influx_mistakes(influxdb: InfluxTable) -> list[str]:
    """A host has another loopback than the controller."""
    mistake = url_mistake(influxdb.url)
    if mistake is not None:
        return [f"influxdb.url: {mistake}"]
    if not host_beyond(influxdb.url):
        return ["influxdb.url: expected an address that the hosts can reach, not their own loopback"]
    return []


def host_mistakes(
    hosts: Sequence[Host], *, vague: Sequence[Host] = (), whole: bool = True
) -> list[tuple[Host, str]]:
    """Mistakes of single hosts, and what two hosts may not share (by the last of them); every line names its
    hosts.

    `vague`: those of them whose meters may lack what the file wanted them to have. Unless `whole` the file
    has more hosts than these.
    """
    unsure = set(map(id, vague))
    problems = [
        (host, line)
        for host in hosts
        for line in dict.fromkeys(
            (
                *_name_mistakes(host),
                *(f"hosts: {host.name}: address: {one}" for one in _address_mistakes(host.address)),
                *_meter_mistakes(host, known=id(host) not in unsure),
                *(_reader_mistakes(host, hosts) if whole else ()),
                *_card_mistakes(host),
            )
        )
    ]
    for what, values in (
        ("name", [(host.name, host) for host in hosts]),
        ("slot", [(str(host.slot), host) for host in hosts]),
        ("address", [(f"{one_spelling(host.address)} port {host.ssh_port or 22}", host) for host in hosts]),
        ("meter.serial", [(host.meter.serial, host) for host in hosts if host.meter.serial]),
        ("meter.port", [(port, host) for host in hosts if (port := _shared(host))]),
        # Or switching one board off switches another one off.
        ("meter.wifi_hop", [(one_spelling(hop), host) for host in hosts if (hop := host.meter.wifi_hop)]),
        ("power", [(outlet, host) for host in hosts if (outlet := outlet_of(host))]),
    ):
        owners: dict[str, list[Host]] = defaultdict(list)
        for value, host in values:
            owners[value].append(host)
        for value, sharing in owners.items():
            if len(sharing) > 1:
                names = ", ".join(f"{host.name} (slot {host.slot})" for host in sharing)
                shared = f"hosts: {what}: expected one host with {value!r}, got {len(sharing)}: {names}"
                problems.append((sharing[-1], shared))
    return problems


def _shared(host: Host) -> str:
    """The port of which there is one: an address, or a file or sensor of the machine that reads it, with
    that; "" for none."""
    meter = host.meter
    address = meter.port.partition("?")[0]
    if meter.is_read_here:
        return f"{meter.port} of the {meter.host}"
    if not address:
        return ""
    if meter.driver == HWMON:
        return f"{meter.port} of {host.reader}"
    if meter.driver == "replay" or address.startswith(("/", *_LOOPBACK)):
        return f"{address} of {host.reader}"
    return meter.port


def _name_mistakes(host: Host) -> Iterator[str]:
    """A name of the machine that boards dial is no board's."""
    if host.name in (CONTROLLER_READER, CONTROLLER_NAME):
        yield f"hosts: {host.name}: name: expected another than the controller's own"


def _address_mistakes(address: str) -> Iterator[str]:
    """An address that no machine can be reached by, though it is well written."""
    try:
        found = ip_address(address)
    except ValueError:
        if any(len(label) > _MOST_LABEL for label in address.split(".")):
            yield f"expected at most {_MOST_LABEL} letters between two dots, got {address!r}"
        return
    if isinstance(found, IPv6Address) and found.is_link_local and not found.scope_id:
        yield f"expected an interface with an address of one link, as {address}%eth0, got {address!r}"


def _reader_mistakes(host: Host, hosts: Sequence[Host]) -> Iterator[str]:
    """A meter hangs on a host of the bench."""
    reader, names = host.meter.host, [other.name for other in hosts if other is not host]
    if reader and not host.meter.is_read_here and reader not in names:
        wanted = f"{CONTROLLER_READER!r} or another host of the bench"
        near = "" if reader == host.name else did_you_mean(reader, names)
        yield f"hosts: {host.name}: meter.host: expected {wanted}, got {reader!r}{near}"


def _meter_mistakes(host: Host, *, known: bool) -> Iterator[str]:
    meter, where = host.meter, f"hosts: {host.name}: meter"
    if meter.wifi_hop:
        try:
            host_port(meter.wifi_hop, 81, lambda what: ConfigError([what]))
        except ConfigError as error:
            yield f"{where}.wifi_hop: {error}"
    if meter.driver == NO_METER:
        if meter.port:
            yield f"{where}.port: expected none with the driver {NO_METER!r}, got {meter.port!r}"
        return
    names = METERS.names()
    if meter.driver not in names:
        wanted = f"{NO_METER!r} or a name of `roambench meter list`"
        near = did_you_mean(meter.driver, names)
        yield f"{where}.driver: expected {wanted}, got {meter.driver!r}{near}"
        return
    if not known:
        return
    if any(item.startswith("reader=") for item in meter.port.partition("?")[2].split("&")):
        yield f"{where}.port: expected none with reader=, as meter.host says who reads it, got {meter.port!r}"
    for key in ("i2c", "update_ms") if meter.host else ():
        if value := getattr(meter, key):
            yield f"{where}.{key}: expected none with a meter.host (its kernel is not set), got {value!r}"
    if meter.driver != HWMON:
        for key in ("i2c", "shunt_uohm", "update_ms"):
            if value := getattr(meter, key):
                yield f"{where}.{key}: expected none with the driver {meter.driver!r}, got {value!r}"
    elif (meter.shunt_uohm or meter.update_ms) and not chip_match(meter):
        yield f"{where}.port: expected one that begins with a chip's name or address, got {meter.port!r}"
    if meter.update_ms and meter.chip in UNAVERAGED:
        yield f"{where}.update_ms: expected none, as an {meter.chip} averages nothing, got {meter.update_ms}"
    if not meter.port:
        yield f"{where}: expected a port, or a serial, or the driver {NO_METER!r}"
    elif meter.driver in wired_names():
        try:
            driver_row(meter.driver).port(meter.port)
        except ConfigError as error:
            yield from (f"{where}.port: {problem}" for problem in error.problems)


def _card_mistakes(host: Host) -> Iterator[str]:
    """Yield mistakes of the table that most benches do not have: between its keys, and with the host's
    own."""
    card, where = host.card, f"hosts: {host.name}: card"
    if card.ssid and not card.country:
        yield f"{where}.country: is missing, expected the country's two letters with an ssid"
    if card.ssid and host.interface.startswith("e"):
        yield f"{where}.ssid: expected none with the interface {host.interface!r}, a cable, got {card.ssid!r}"
    if not card.subnet:
        for key in ("gateway", "dns"):
            if value := getattr(card, key):
                yield f"{where}.{key}: expected none without a subnet, got {value!r}"
        return
    network = ip_network(card.subnet)
    if not _is_inside(host.address, network):
        wanted = f"expected an address of card.subnet {network}"
        yield f"hosts: {host.name}: address: {wanted}, got {host.address!r}"
    if card.gateway and not (_is_inside(card.gateway, network) or _is_of_the_link(card.gateway, network)):
        yield f"{where}.gateway: expected an address of card.subnet {network}, got {card.gateway!r}"


def _is_inside(text: str, network: IPv4Network | IPv6Network) -> bool:
    """Return whether it is an address that a machine of the network may have."""
    try:
        address = ip_address(text)
    except ValueError:
        return False
    if network.prefixlen >= network.max_prefixlen - 1:
        return address in network
    # The last address is the broadcast's in IPv4 alone; the first is a router's anycast in IPv6.
    last = network.broadcast_address if network.version == 4 else None
    return address in network and address not in (network.network_address, last)


def _is_of_the_link(text: str, network: IPv4Network | IPv6Network) -> bool:
    """Return whether it is a router as its announcements name it, in IPv6."""
    return network.version == 6 and ip_address(text).version == 6 and ip_address(text).is_link_local
