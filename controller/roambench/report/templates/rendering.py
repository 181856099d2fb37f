"""Texts made of the templates in this folder: every value is escaped, and one that is missing is an error."""

from __future__ import annotations

from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from plotly.offline import get_plotlyjs

_LOADER: Final = PackageLoader("roambench.report.templates", "")
_TEMPLATES: Final = Environment(
    loader=_LOADER,
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)
#: `tojson` writes what cannot end the script element that it stands in.
_TEMPLATES.policies["json.dumps_kwargs"] = {
    "separators": (",", ":"),
    "ensure_ascii": False,
    "allow_nan": False,
}
_TEMPLATES.globals.update(
    file=lambda name: _LOADER.get_source(_TEMPLATES, name)[0],  # as it is, no template
    plotly_js=get_plotlyjs,
)


def rendered(template: str, **values: Any) -> str:
    """The text of a template with these values; jinja2.UndefinedError where one is missing."""
    return _TEMPLATES.get_template(template).render(values)
