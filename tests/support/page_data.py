"""What a page's script gets: its figures, as the page was written with them."""

from __future__ import annotations

import base64
import gzip
import json
import re
from typing import Any


def page_data(page: str) -> Any:
    """The figures and the power readings of a page, by its text."""
    found = re.search(r'id="report-data">([^<]*)</script>', page)
    assert found is not None
    return json.loads(gzip.decompress(base64.b64decode(found[1])))
