"""The tables `[decentralised]`, `[mobility]` and `[contacts]`: systems without a server, who meets whom."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from roambench.written.toml_file import Section


class DecentralisedSection(Section):
    """Training and mixing of the `fleet.agents` devices of decentralised systems; other systems ignore it."""

    iterations: int = Field(
        100,
        ge=1,
        description="Half steps and exchanges; a replayed trace has its steps.",
    )
    half_step: Literal["mini_batch", "full_batch", "epochs"] = Field(
        "mini_batch",
        description="Training between exchanges: `mini_batch`, `learning.local_steps` batches (0: one); "
        "`full_batch`, one step on all images; or `epochs`, `learning.local_epochs`.",
    )
    alpha: float = Field(
        0.4,
        ge=0.0,
        description="`mobility_aware`: share of the weights by speed; above 1 slow devices get "
        "negative ones.",
    )
    evaluate_every: int = Field(
        10,
        ge=1,
        description="Iterations between scorings of all models.",
    )
    exchange_deadline_s: float = Field(
        60.0,
        gt=0.0,
        description="Device time that a device waits for neighbours' models.",
    )


class MobilitySection(Section):
    """Movement of the devices of decentralised systems (docs/decentralised.md); others have `[trace]`."""

    model: Literal["static", "random", "dam", "dcm", "reflected_walk", "trace"] = Field(
        "random",
        description="Movement: on a grid, `reflected_walk` in a box, or `trace` (docs/decentralised.md).",
    )
    mobile: int = Field(5, ge=0, description="Grid: the first this many devices move.")
    grid: int = Field(18, ge=1, description="Grid: points per side, G.")
    reach: float = Field(5.0, ge=0.0, description="Grid: longest move R_m; 0: no limit.")
    ties: Literal["random", "most_static"] = Field(
        "random",
        description="`dcm`: equally good centres (journal, or workshop).",
    )
    fast_share: float = Field(
        0.2, ge=0.0, le=1.0, description="`reflected_walk`: share p of high mobility, the first devices."
    )
    width_m: float = Field(500.0, gt=0.0, description="`reflected_walk`: width of the box.")
    height_m: float = Field(500.0, gt=0.0, description="`reflected_walk`: its height.")
    speed_max_m: float = Field(
        10.0,
        gt=0.0,
        description="`reflected_walk`: s_max in metres per iteration.",
    )
    beta: float = Field(
        4.0, gt=0.0, description="`reflected_walk`: high mobility is U(beta s_max, 2 beta s_max)."
    )
    step_s: float = Field(1.0, gt=0.0, description="Seconds of an iteration, for maps and exports.")


class ContactsSection(Section):
    """The neighbours of devices in decentralised systems."""

    radius: float = Field(
        3.0,
        ge=0.0,
        description="R_c: grid units, or metres.",
    )
    everybody: bool = Field(False, description="R_c = ∞.")
    reading: Literal["at_step", "any_moment"] = Field(
        "at_step",
        description="On a trace: near at the step's fixes, or at any moment on the way.",
    )
