"""Named link models: the parameters of Eq. 1 with what is known of their uncertainty.

A model is a paper's (one set of parameters per link class, without uncertainty) or a bench's own, fitted by
`roambench calibrate` (one radio, so one set for every link class, pooled and per device, with covariances).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt
import scipy

from roambench.contract.errors import ConfigError
from roambench.contract.link_power import LTE, WIFI, LinkPower

Numbers = npt.NDArray[np.float64]
Matrix = tuple[tuple[float, float, float], tuple[float, float, float], tuple[float, float, float]]

#: The order of parameters in every covariance; the first two in mW per Mbit/s, the last in mW.
PARAMETERS: Final = ("alpha_up", "alpha_down", "beta")
UNITS: Final = ("mW per Mbit/s", "mW per Mbit/s", "mW")
#: The link class of a model that has one radio for all.
ANY: Final = "any"
_TAIL: Final = 0.975  # below the upper end of a 95 % interval
_NOTHING: Final[Matrix] = ((0.0, 0.0, 0.0), (0.0, 0.0, 0.0), (0.0, 0.0, 0.0))


@dataclass(frozen=True, slots=True)
class KnownLink:
    """Parameters of Eq. 1 and how well they are known.

    `covariance` (order of PARAMETERS) is what the fit leaves open, with `dof` degrees of freedom. `u_gain`
    is the relative standard uncertainty of the meter's gain, which moves all three parameters together.
    `meter` names that meter and its calibration ("": not known, or no meter's).
    """

    power: LinkPower
    covariance: Matrix = _NOTHING
    dof: float = math.inf
    u_gain: float = 0.0
    meter: str = ""

    @property
    def values(self) -> Numbers:
        """alpha_up, alpha_down, beta; shape (3,)."""
        power = self.power
        return np.array([power.alpha_up_mw_per_mbit_s, power.alpha_down_mw_per_mbit_s, power.beta_mw])

    @property
    def total_covariance(self) -> Numbers:
        """The fit's and the gain's part together, shape (3, 3)."""
        values = self.values
        return np.asarray(np.array(self.covariance) + self.u_gain**2 * np.outer(values, values))

    @property
    def u(self) -> Numbers:
        """Standard uncertainties, shape (3,)."""
        return np.asarray(np.sqrt(np.diag(self.total_covariance)))

    def student(self) -> float:
        """Return how much wider than the normal distribution's the 95 % intervals of the fit's part are, with
        `dof`."""
        if math.isinf(self.dof):
            return 1.0
        return float(scipy.special.stdtrit(self.dof, _TAIL) / scipy.special.ndtri(_TAIL))

    def half_widths(self) -> Numbers:
        """Half-widths of the parameters' 95 % confidence intervals, shape (3,).

        The fit's part uses Student's t, the gain's part (known from data sheets, not from the fit's scatter)
        the normal quantile; they are independent and add in quadrature.
        """
        fitted = self.student() * np.sqrt(np.diag(np.array(self.covariance)))
        normal = float(scipy.special.ndtri(_TAIL))
        return np.asarray(normal * np.hypot(fitted, self.u_gain * np.abs(self.values)))


@dataclass(frozen=True, slots=True)
class Provenance:
    """The origin of a model. `rates_mbit_s` is the range it was fitted on; (0, inf): unknown."""

    source: str
    date: str = ""
    meter: str = ""
    method: str = ""
    run: str = ""
    rates_mbit_s: tuple[float, float] = (0.0, math.inf)


@dataclass(frozen=True, slots=True)
class LinkModel:
    """A named model: `links` by link class ("lte", "wifi", or "any" for all), `devices` by device name.

    A fitted model's "any" is a prediction for a device that was not calibrated (`fit.pooled`). Such devices
    share its error in sums, which makes the interval of a sum wider than it need be, never narrower.
    `between_sd` is the scatter of the parameters from device to device (NaN for fewer than two).
    """

    name: str
    links: Mapping[str, KnownLink]
    about: Provenance
    devices: Mapping[str, KnownLink] = field(default_factory=dict)
    between_sd: tuple[float, float, float] = (math.nan, math.nan, math.nan)

    @property
    def fitted(self) -> bool:
        """True if it was fitted on a bench (and knows its uncertainty)."""
        return ANY in self.links

    def of(self, link: str, device: str = "") -> KnownLink:
        """The parameters for a link class; a device that was calibrated has its own.

        ConfigError for a class the model does not know.
        """
        known = self.devices.get(device) or self.links.get(link) or self.links.get(ANY)
        if known is None:
            classes = ", ".join(sorted(self.links))
            raise ConfigError([f"link model {self.name!r}: no parameters for {link!r}, only for {classes}"])
        return known


#: Huang et al., MobiSys 2012, as MOHAWK takes them: smartphone radios of 2012, not a Pi's.
MOHAWK: Final = LinkModel(
    "mohawk",
    {LTE.name: KnownLink(LTE), WIFI.name: KnownLink(WIFI)},
    Provenance("Huang et al., MobiSys 2012, as used by MOHAWK"),
)
#: The models that need no file.
BUILT_IN: Final[Mapping[str, LinkModel]] = {MOHAWK.name: MOHAWK}
