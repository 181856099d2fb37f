"""The files in docs/grafana fit together: what one names, another one has."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import yaml

from roambench.experiment.sections import InfluxdbSection
from roambench.spool.influx_schema import FIELDS, PHASE_TAGGED, TAGS

FOLDER = Path(__file__).parents[3] / "docs" / "grafana"
DASHBOARD = json.loads((FOLDER / "dashboards" / "roambench.json").read_text(encoding="utf-8"))
COMPOSE = yaml.safe_load((FOLDER / "compose.yaml").read_text(encoding="utf-8"))
SOURCES = yaml.safe_load((FOLDER / "provisioning/datasources/influxdb.yaml").read_text(encoding="utf-8"))
PROVIDERS = yaml.safe_load((FOLDER / "provisioning/dashboards/roambench.yaml").read_text(encoding="utf-8"))
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]


def mounts(service: str) -> dict[str, str]:
    """Path in the container -> path or volume on the host."""
    entries = [entry.split(":") for entry in COMPOSE["services"][service]["volumes"]]
    return {parts[1]: parts[0] for parts in entries}


def every(value: object, key: str) -> Iterator[Any]:
    """Each value of `key`, wherever it is in the document."""
    if isinstance(value, dict):
        for name, inner in value.items():
            if name == key:
                yield inner
            yield from every(inner, key)
    elif isinstance(value, list):
        for inner in value:
            yield from every(inner, key)


def queries() -> list[str]:
    return [
        *(target["query"] for panel in PANELS for target in panel["targets"]),
        *(one["query"] for one in DASHBOARD["annotations"]["list"]),
        *(one["query"] for one in DASHBOARD["templating"]["list"]),
    ]


def test_what_compose_mounts_is_there():
    for service in COMPOSE["services"]:
        for inside, outside in mounts(service).items():
            if outside.startswith("."):
                assert (FOLDER / outside).exists(), f"{service}: {inside}"
            else:
                assert outside in COMPOSE["volumes"], f"{service}: {inside}"


def test_images_are_pinned_to_a_release():
    images = {name: service["image"] for name, service in COMPOSE["services"].items()}
    assert images["influxdb"].startswith("influxdb:2.7.")
    for image in images.values():
        assert re.fullmatch(r"[a-z/]+:\d+\.\d+\.\d+", image)


def test_servers_listen_on_this_machine_alone_unless_told_otherwise():
    ports = [port for service in COMPOSE["services"].values() for port in service["ports"]]
    assert len(ports) == 2
    assert all(re.fullmatch(r"\$\{[A-Z]+_ADDRESS:-127\.0\.0\.1\}:\d+:\d+", port) for port in ports)


def test_every_secret_comes_from_the_file_that_git_does_not_see():
    text = (FOLDER / "compose.yaml").read_text(encoding="utf-8")
    asked = set(re.findall(r"\$\{([A-Z_]+)", text))
    example = (FOLDER / "env.example").read_text(encoding="utf-8")
    offered = dict(line.split("=", 1) for line in example.splitlines() if "=" in line)
    assert asked == set(offered)
    assert set(offered.values()) == {""}
    assert ".env" in (FOLDER / ".gitignore").read_text(encoding="utf-8").split()
    for service in COMPOSE["services"].values():
        for name, value in service["environment"].items():
            if re.search("PASSWORD|TOKEN", name):
                assert value.startswith("${"), name


def test_grafana_finds_the_database_that_the_set_up_makes():
    (source,) = SOURCES["datasources"]
    grafana, influx = (COMPOSE["services"][name]["environment"] for name in ("grafana", "influxdb"))
    assert grafana["INFLUX_URL"] == "http://influxdb:8086"
    assert source["url"] == "$INFLUX_URL"
    assert source["secureJsonData"] == {"httpHeaderValue1": "Token $INFLUX_READ_TOKEN"}
    assert source["jsonData"]["httpHeaderName1"] == "Authorization"
    assert "INFLUX_READ_TOKEN" in grafana
    script = FOLDER / "influxdb" / "create_dbrp.sh"
    assert f"--db {source['jsonData']['dbName']} " in script.read_text(encoding="utf-8")
    assert influx["DOCKER_INFLUXDB_INIT_BUCKET"] == source["jsonData"]["dbName"]
    # ... and the boards the bucket that they are told by default.
    assert source["jsonData"]["dbName"] == InfluxdbSection.model_validate({}).bucket
    assert mounts("influxdb")[f"/docker-entrypoint-initdb.d/{script.name}"] == "./influxdb/create_dbrp.sh"
    subprocess.run(["sh", "-n", script], check=True)
    assert script.stat().st_mode & 0o111


def test_grafana_finds_the_dashboard():
    (provider,) = PROVIDERS["providers"]
    assert mounts("grafana")[provider["options"]["path"]] == "./dashboards"
    assert mounts("grafana")["/etc/grafana/provisioning/dashboards"] == "./provisioning/dashboards"
    assert mounts("grafana")["/etc/grafana/provisioning/datasources"] == "./provisioning/datasources"


def test_everything_on_the_dashboard_asks_the_provisioned_source():
    (source,) = SOURCES["datasources"]
    found = list(every(DASHBOARD, "datasource"))
    assert len(found) > 30
    assert all(one == {"type": source["type"], "uid": source["uid"]} for one in found)


def test_panels_have_names_of_their_own_and_do_not_cover_each_other():
    assert len({panel["title"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])
    boxes = [(panel["title"], panel["gridPos"]) for panel in DASHBOARD["panels"]]
    for (one, a), (two, b) in combinations(boxes, 2):
        apart = (
            a["x"] + a["w"] <= b["x"]
            or b["x"] + b["w"] <= a["x"]
            or a["y"] + a["h"] <= b["y"]
            or b["y"] + b["h"] <= a["y"]
        )
        assert apart, f"{one} covers {two}"
    assert all(box["x"] + box["w"] <= 24 for _, box in boxes)


@pytest.mark.parametrize("query", queries())
def test_queries_name_only_what_the_schema_has(query: str):
    (measurement,) = re.findall(r'FROM "(\w+)"', query)
    aliases = set(re.findall(r'AS "(\w+)"', query))
    named = set(re.findall(r'"(\w+)"', query)) - {measurement} - aliases
    assert named <= {*FIELDS[measurement], *TAGS, *(["phase"] if measurement in PHASE_TAGGED else [])}


@pytest.mark.parametrize("query", [query for query in queries() if not query.startswith("SHOW")])
def test_queries_are_bound_to_the_chosen_run_boards_and_time(query: str):
    innermost = query.rsplit("WHERE", 1)[1] if query.count("(SELECT") == 0 else query.split("(", 2)[2]
    for bound in ("\"run\" = '$run'", '"device" =~ /^$device$/', "$timeFilter"):
        assert bound in innermost


def test_annotations_say_the_same_to_old_and_new_grafana():
    """Grafana reads the query from the annotation itself or from its target, depending on its version."""
    for one in DASHBOARD["annotations"]["list"]:
        for key in ("query", "textColumn", "tagsColumn", "timeEndColumn"):
            assert one["target"][key] == one[key]
        columns = set(re.findall(r'"(\w+)"', one["query"].split(" FROM ")[0]))
        wanted = {one[key] for key in ("textColumn", "tagsColumn", "timeEndColumn")} - {""}
        assert wanted <= columns
