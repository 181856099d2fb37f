"""What a fleet asks of its devices so that one controller keeps up with their records."""

import pytest

from hand_agent import LAYOUT, SPEC
from roambench.contract.device_time import DeviceClock
from roambench.fleet.grpc_fleet import FleetSettings, GrpcFleet
from roambench.identity.authority import CONTROLLER_NAME, Authority


@pytest.mark.asyncio
@pytest.mark.parametrize(("devices", "period_s"), [(36, 0.5), (100, 0.5), (900, 4.5)])
async def test_many_devices_drain_less_often(devices: int, period_s: float) -> None:
    names = tuple(f"pi-{number:03}" for number in range(devices))
    settings = FleetSettings("run", names, (SPEC,) * devices, LAYOUT, 5.0)
    identity = Authority.create().issue(CONTROLLER_NAME)
    fleet = GrpcFleet(
        settings,
        identity,
        DeviceClock(),
        lambda name, uuid, records: 0,
        lambda device, name, kind, detail: None,
        clock_observer=lambda record: None,
    )
    assert fleet._welcome(0).drain_period_s == period_s
