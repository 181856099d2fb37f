"""A table of columns that say their units: Arrow inside, for pandas, polars, CSV and LaTeX."""

from __future__ import annotations

import html
import io
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.csv as pc

from roambench.contract.counts import count
from roambench.report.latex import latex_text

if TYPE_CHECKING:
    import pandas
    import polars

_ALWAYS: Final = ("unit", "description")  # of every field's metadata
_SHOWN: Final = 20  # rows in a notebook


class Columns:
    """Columns of equal length. All that takes Arrow takes it as it is (`arrow`, or the object itself).

    A field's metadata have its `unit` and `description`, of a metric which values are `better`, and where
    another column holds its standard uncertainty (k = 1), that column's name as `uncertainty`.
    """

    def __init__(self, arrow: pa.Table) -> None:
        self.arrow = arrow

    def __len__(self) -> int:
        return int(self.arrow.num_rows)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """The rows."""
        for batch in self.arrow.to_batches():
            yield from batch.to_pylist()

    def __getitem__(self, name: str) -> pa.ChunkedArray:
        """A column; KeyError where there is none of that name."""
        return self.arrow[name]

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.arrow.__arrow_c_stream__(requested_schema)

    @property
    def names(self) -> tuple[str, ...]:
        """The columns' names."""
        return tuple(self.arrow.column_names)

    @property
    def units(self) -> Mapping[str, str]:
        """Unit of each column, "" for texts, counts and shares."""
        return self._metadata("unit")

    @property
    def descriptions(self) -> Mapping[str, str]:
        """Meaning of each column."""
        return self._metadata("description")

    @property
    def better(self) -> Mapping[str, str]:
        """True if "higher" or "lower" values are better, of metrics; "" of other columns."""
        return self._metadata("better")

    def to_pandas(self) -> pandas.DataFrame:
        """The same as a pandas DataFrame; ImportError where pandas is not installed."""
        _needs("pandas")
        return self.arrow.to_pandas()

    def to_polars(self) -> polars.DataFrame:
        """The same as a polars DataFrame; ImportError where polars is not installed."""
        _needs("polars")
        import polars

        return polars.DataFrame(self.arrow)

    def to_csv(self, path: str | Path | None = None) -> str:
        """The table as CSV, with a header, written to `path` if there is one; RunError where it cannot be."""
        flat = pa.table(
            {
                name: [" ".join(map(str, cell or ())) for cell in column.to_pylist()]
                if pa.types.is_nested(column.type)
                else column
                for name, column in zip(self.names, self.arrow.columns, strict=True)
            }
        )
        buffer = io.BytesIO()
        pc.write_csv(flat, buffer)
        return _kept(buffer.getvalue().decode(), path)

    def to_latex(self, path: str | Path | None = None, *, columns: Sequence[str] | None = None) -> str:
        r"""The table, or these of its columns, for a paper: booktabs' rules, numbers as siunitx's `\num`.

        A value with a standard uncertainty is printed with twice that (k = 2), to two digits of it; the
        uncertainty's column is then left out. Written to `path` if there is one; RunError where it cannot be.
        """
        fields = {field.name: _of(field) for field in self.arrow.schema}
        beside = {about["uncertainty"] for about in fields.values() if "uncertainty" in about}
        names = [name for name in columns or self.names if columns or name not in beside]
        for name in names:
            self.arrow.schema.field(name)  # KeyError
        numeric = {name: _is_numeric(self.arrow.schema.field(name).type) for name in names}
        lines = [
            rf"\begin{{tabular}}{{{''.join('r' if numeric[name] else 'l' for name in names)}}}",
            r"\toprule",
            " & ".join(_head(name, fields[name].get("unit", "")) for name in names) + r" \\",
            r"\midrule",
        ]
        for row in self:
            cells = (_cell(row[name], row.get(fields[name].get("uncertainty", ""))) for name in names)
            lines.append(" & ".join(cells) + r" \\")
        return _kept("\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""]), path)

    def __repr__(self) -> str:
        units = (f"{name} [{unit}]" if unit else name for name, unit in self.units.items())
        return f"<{count(len(self), 'row')} of {', '.join(units)}>"

    def _repr_html_(self) -> str:
        """The first rows, for a notebook."""
        units, meaning = self.units, self.descriptions
        head = "".join(
            f'<th title="{html.escape(meaning[name])}">{html.escape(name)}<br>'
            f"<small>{html.escape(units[name])}</small></th>"
            for name in self.names
        )
        rows = "".join(
            f"<tr>{''.join(f'<td>{html.escape(_short(cell))}</td>' for cell in row.values())}</tr>"
            for row in islice(self, _SHOWN)
        )
        more = f"<p>{count(len(self), 'row')}</p>" if len(self) > _SHOWN else ""
        return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>{more}"

    def _metadata(self, key: str) -> dict[str, str]:
        return {field.name: _of(field).get(key, "") for field in self.arrow.schema}


def field(
    name: str, kind: pa.DataType, unit: str, description: str, *, uncertainty: str = "", better: str = ""
) -> pa.Field:
    """A field that says its unit and what it holds, which column has its standard uncertainty, and of a
    metric whether "higher" or "lower" values are better."""
    about = {"unit": unit, "description": description, "uncertainty": uncertainty, "better": better}
    return pa.field(
        name, kind, metadata={key: value for key, value in about.items() if value or key in _ALWAYS}
    )


def _of(field: pa.Field) -> dict[str, str]:
    return {key.decode(): value.decode() for key, value in (field.metadata or {}).items()}


def _is_numeric(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _head(name: str, unit: str) -> str:
    plain = re.sub(r"_(j|w|s|ns|m|bytes|mbit_s)$", "", name) if unit else name
    return latex_text(plain.replace("_", " ")) + (f" / {latex_text(unit)}" if unit else "")


def _cell(value: Any, u: Any) -> str:
    if value is None:
        return "--"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return rf"\num{{{value}}}"
    if not isinstance(value, float):
        return latex_text(str(value))
    if not math.isfinite(value):
        return "--"
    if isinstance(u, float) and math.isfinite(u) and u > 0.0:
        places = max(0, 1 - math.floor(math.log10(2.0 * u)))
        return rf"\num{{{value:.{places}f} \pm {2.0 * u:.{places}f}}}"
    return rf"\num{{{value:.6g}}}"


def _short(cell: Any) -> str:
    return "" if cell is None else f"{cell:.6g}" if isinstance(cell, float) else str(cell)


def _kept(text: str, path: str | Path | None) -> str:
    if path is not None:
        from roambench.report.report import write_text  # brings plotly

        write_text(Path(path), text)
    return text


def _needs(library: str) -> None:
    """ImportError that says what to do, where the library is not installed."""
    if find_spec(library) is None:
        from roambench.contract.extra_packages import pip_install

        raise ImportError(f"{library} is not installed: {pip_install(library)}")
