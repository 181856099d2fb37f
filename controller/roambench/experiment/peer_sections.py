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
        description="Half steps and exchanges of each device; a replayed trace has those of `[trace]`.",
    )
    half_step: Literal["mini_batch", "full_batch", "epochs"] = Field(
        "mini_batch",
        description="Local training between two exchanges: `mini_batch`, `learning.local_steps` batches (0: "
        "one) drawn again each time; `full_batch`, one step on all of a device's images; or `epochs`, "
        "`learning.local_epochs` passes. Momentum goes on from one to the next, stays on its device and is "
        "never mixed.",
    )
    alpha: float = Field(
        0.4,
        ge=0.0,
        description="System `mobility_aware`: share of the weights that goes by speed. 0: plain averages; "
        " 1: by speed alone; above 1 slow devices get negative weights (a warning says so).",
    )
    evaluate_every: int = Field(
        10,
        ge=1,
        description="Score every device's model, and the mean of all, after every n iterations and "
        "after the last one.",
    )
    exchange_deadline_s: float = Field(
        60.0,
        gt=0.0,
        description="Device time after its half step that a device waits for its neighbours' models; who is "
        "later is left out, and its weight goes to the device's own model.",
    )


class MobilitySection(Section):
    """Movement of the devices of decentralised systems (docs/decentralised.md); others have `[trace]`."""

    model: Literal["static", "random", "dam", "dcm", "reflected_walk", "trace"] = Field(
        "random",
        description="On a grid of points: `static`, `random` (uniform within reach), `dam` and `dcm` "
        "(distribution-aware, over all points or over cluster centres); in a box: `reflected_walk` "
        "(continuous, de Heredia); or `trace`: replay `[trace]`.",
    )
    mobile: int = Field(5, ge=0, description="Grid: the first this many devices move; `static`: none.")
    grid: int = Field(18, ge=1, description="Grid: points per side, G.")
    reach: float = Field(
        5.0, ge=0.0, description="Grid: the longest move R_m in grid units; 0: no limit (R_m = ∞)."
    )
    ties: Literal["random", "most_static"] = Field(
        "random",
        description="`dcm`: which of several equally good cluster centres: a random one (journal) or one "
        "with the most static devices around, covered or not (workshop).",
    )
    fast_share: float = Field(
        0.2, ge=0.0, le=1.0, description="`reflected_walk`: share p of high-mobility devices, the first ones."
    )
    width_m: float = Field(500.0, gt=0.0, description="`reflected_walk`: width of the box.")
    height_m: float = Field(500.0, gt=0.0, description="`reflected_walk`: its height.")
    speed_max_m: float = Field(
        10.0,
        gt=0.0,
        description="`reflected_walk`: s_max in metres per iteration; low mobility is U(0, s_max).",
    )
    beta: float = Field(
        4.0, gt=0.0, description="`reflected_walk`: high mobility is U(beta s_max, 2 beta s_max)."
    )
    step_s: float = Field(
        1.0, gt=0.0, description="Seconds that an iteration of the world lasts, for maps and exported traces."
    )


class ContactsSection(Section):
    """The neighbours of devices in decentralised systems."""

    radius: float = Field(
        3.0,
        ge=0.0,
        description="Communication radius: R_c in grid units on a grid, metres in a box and on a trace.",
    )
    everybody: bool = Field(
        False, description="R_c = ∞: all devices are neighbours; `radius` does not count."
    )
    reading: Literal["at_step", "any_moment"] = Field(
        "at_step",
        description="On a replayed trace: near enough where the step's fixes are, or at any moment of an "
        "even way there from the fixes before. A `reflected_walk` always counts any moment, a grid the step.",
    )
