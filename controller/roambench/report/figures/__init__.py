"""Figures of a report: traces and layouts for plotly, in plain JSON types."""
