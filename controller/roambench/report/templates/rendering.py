"""Texts made of the templates in this folder: every value is escaped, and one that is missing is an error."""

from __future__ import annotations

import base64
import gzip
import json
import re
from importlib.resources import files
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined

from roambench.contract.sources import own_code

_LOADER: Final = PackageLoader("roambench.report.templates", "")
_TEMPLATES: Final = Environment(
    loader=_LOADER,
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)
#: plotly.js with what we draw, the release that plotly.py writes for (docs/decisions/0026).
_PLOTLY_JS_GZ: Final = files("roambench.report.templates").joinpath("plotly-cartesian.min.js.gz").read_bytes()
#: What made a page, which it says of itself.
GENERATOR: Final = " ".join(("roambench", own_code()["version"], own_code().get("code", ""))).strip()


def file(name: str) -> str:
    """A file of this folder as it is, no template."""
    return _LOADER.get_source(_TEMPLATES, name)[0]


def packed(value: Any) -> str:
    """A JSON value for a page's script: gzip, base64; ValueError for a NaN."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return base64.b64encode(gzip.compress(text.encode(errors="backslashreplace"), 9, mtime=0)).decode()


#: `tojson` writes what cannot end the script element that it stands in.
_TEMPLATES.policies["json.dumps_kwargs"] = {
    "separators": (",", ":"),
    "ensure_ascii": False,
    "allow_nan": False,
}
_TEMPLATES.globals.update(
    file=file,
    generator=GENERATOR,
    plotly_js=lambda: gzip.decompress(_PLOTLY_JS_GZ).decode(),
    packed_plotly_js=lambda: base64.b64encode(_PLOTLY_JS_GZ).decode(),
)
#: A text whose numbers keep their sign and their percent in one line.
_TEMPLATES.filters["joined"] = lambda text: re.sub(r"(?<=±) | (?=%)", "\u00a0", text)
#: A name as a part of an element's id.
_TEMPLATES.filters["slug"] = lambda name: re.sub(r"[^\w-]+", "-", name)


def rendered(template: str, **values: Any) -> str:
    """The text of a template with these values; jinja2.UndefinedError where one is missing."""
    return _TEMPLATES.get_template(template).render(values)
