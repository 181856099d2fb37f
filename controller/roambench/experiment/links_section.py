"""The table `[links]`: how fast a data plane is, and which radio it is compared with."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from roambench.written.section import Section


class LinksSection(Section):
    """How fast a device's data plane is, and which radio model its transfers are compared with."""

    link: Literal["native", "modelled"] = Field(
        "native",
        description="`native`: transfers run as fast as the port (on a local fleet: as `[local]` says). "
        "`modelled`: every transfer is paced to the throughput that MOHAWK's Eq. 2 gives for the device's "
        "distance to its AP, so that a modelled LTE device really is slow.",
    )
    port_mbit_s: float = Field(
        95.0,
        gt=0.0,
        description="What the port carries in fact, with `modelled`: faster modelled rates (Wi-Fi's 1000 "
        "Mbit/s) are clipped to it, and recorded as clipped. Measure yours, for example with iperf3.",
    )
    model: str = Field(
        "mohawk",
        min_length=1,
        description="Link model (Eq. 1) for the modelled energy: `mohawk` (the paper's parameters), a file "
        "that `roambench calibrate` wrote, or its name in `links/`, beside the experiment file or in the "
        "current folder.",
    )

    distance_statistics: Literal["served", "all_pairs"] = Field(
        "served",
        description="Distances whose mean and deviation Eq. 2 maps from: of present devices to the AP that "
        "serves them (per system), or to every AP, so that all systems share one mapping.",
    )
    overhead_bytes: int = Field(
        0,
        ge=0,
        description="Eq. 1's Δ on virtual devices: bytes that protocols add to every transfer. Devices that "
        "really transfer are charged their real bytes.",
    )
