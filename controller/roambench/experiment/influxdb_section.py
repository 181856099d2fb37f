"""The table `[influxdb]`: a time-series database for the live view."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from roambench.written.section import Section


class InfluxdbSection(Section):
    """A time-series database for the live view; `docs/storage.md` tells how to set one up."""

    url: str = Field(
        "",
        description="Address of an InfluxDB (or VictoriaMetrics), like `http://influx.lan:8086`, as the "
        "writer sees it. Empty: none is used.",
    )
    bucket: str = Field(
        "bench", min_length=1, description="Bucket, or for `v1` database; `NAME/POLICY` for a policy."
    )
    org: str = Field("", description="Organization of an InfluxDB 2; others ignore it.")
    api: Literal["v2", "v1"] = Field(
        "v2", description="Write endpoint: `v2` (InfluxDB 2 and 3, VictoriaMetrics) or `v1` (InfluxDB 1.x)."
    )
    token_file: str = Field(
        "",
        description="File with a token that may write (`v1`: user:password), on the machine that writes. It "
        "is never stored or logged. Relative to the experiment file.",
    )
    token_env: str = Field(
        "INFLUX_TOKEN", description="Without a `token_file`: environment variable that holds the token."
    )
    gzip: bool = Field(True, description="Compress what is sent.")
    via: Literal["agents", "controller"] = Field(
        "agents",
        description="Who writes: every agent by itself, or the controller what the agents drained to it (for "
        "boards that cannot reach the database).",
    )
    store: Literal["both", "influxdb"] = Field(
        "both",
        description="`both`: the run folder gets every record, too. `influxdb`: records are there only, and "
        "reports must be asked with `--readings influxdb`.",
    )
