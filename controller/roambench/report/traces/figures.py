"""All figures of a trace: where its places and access points are, who is there when, how far from what."""

from __future__ import annotations

from roambench.mobility.trace import Trace
from roambench.report.figures.figure import Figure
from roambench.report.traces.access_points import distance_figure, occupancy_figure
from roambench.report.traces.maps import map_figure, places_figure, presence_heat_map
from roambench.report.traces.presence import availability_figure, day_figure, hours_figure


def trace_figures(trace: Trace, seed: int) -> list[Figure]:
    """All figures of a trace with access points and at least one fix; `seed` keys the ring walk and the
    uniform places of Fig. 2. Where access points stand nowhere there are no maps and no distances.
    """
    where = () if trace.made_up else (places_figure(trace, seed), map_figure(trace), presence_heat_map(trace))
    when = (availability_figure(trace), day_figure(trace), hours_figure(trace))
    how_far = () if trace.made_up else (distance_figure(trace, seed),)
    figures = (*where, *when, *how_far, occupancy_figure(trace))
    return [figure for figure in figures if figure is not None]
