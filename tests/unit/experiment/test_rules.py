"""What sections of an experiment expect of each other: each mistake is told, with its key."""

from __future__ import annotations

from pathlib import Path

import pytest

from problem_lines import without_lines
from roambench.contract.errors import ConfigError
from roambench.experiment.load import load_experiment

#: What is written -> how the mistakes begin that are in it, in any order.
CASES = {
    """
[program]
name = "flowr"
""": ('program.name: expected one of flower, got "flowr", did you mean flower?',),
    """
systems = ["flower", "mohawk"]
[program]
name = "flower"
""": ('systems: expected ["flower"] alone, or systems without it',),
    """
systems = ["mohawk", "d_psgd"]
[program]
name = "flower"
[learning]
alpha = 0.1
[algorithm]
local = "fedprox"
proximal = 0.1
[simulated]
backend = "stacked"
[rounds]
score_aps = true
""": (
        'systems: expected systems with access points beside program.name = "flower"',
        "learning.alpha: expected none: flower brings data, model and training",
        "algorithm.local: expected none: flower brings its training",
        "algorithm.proximal: expected none: flower brings its training",
        'simulated.backend: expected "workers" beside program.name = "flower"',
        "rounds.score_aps: expected false: flower scores no classes",
    ),
    """
systems = ["flower"]
[program]
name = "flower"
[learning]
batch_size = 16
local_epochs = 1
[simulated]
backend = "stacked"
""": (
        "learning.batch_size: expected none: flower brings data, model and training",
        'simulated.backend: expected "workers" beside program.name = "flower"',
    ),
    """
[trace]
file = "t.parquet"
generator = "city"
parameters = { devices = 3 }
""": (
        "trace: file and generator exclude each other: expected one of them",
        "trace.parameters: belongs to a generator: expected none beside file",
    ),
    """
[trace]
generator = "edge-hopping"
parameters = { devices = 3, ap = 2 }
""": ("trace.parameters.ap: unknown key, did you mean aps?",),
    """
systems = ["mohawk", "hierfavg", "mohawk"]
""": ("systems: expected each system once, got mohawk twice",),
    """
[rounds]
metric_threshold = 0.5
""": ("rounds.metric_threshold: expected learning.task beside it, with metrics",),
    """
[learning]
task = "no_such_module:Task"
""": ("learning.task: task 'no_such_module:Task': there is no module no_such_module here",),
    """
[fleet]
aps = 5
[algorithm]
association = "trace"
""": ('algorithm.association: expected fleet.aps = 0 beside "trace": drawn APs are not those',),
    """
systems = ["mohawk", "hierfavg"]
[algorithm]
local = "fedprox"
proximal = 0.1
[algorithm.fedprox]
muu = 1.0
mu = "one"
[algorithm.oort]
x = 1
[algorithm.hierfavg]
y = 1
""": (
        "algorithm.proximal: expected none beside local, which says how devices train",
        "algorithm.fedprox.muu: unknown key; it takes mu, did you mean mu?",
        'algorithm.fedprox.mu: expected a number, got "one"',
        "algorithm.oort: expected a system or the local algorithm of this experiment: "
        "mohawk, hierfavg, fedprox",
        'algorithm.hierfavg: unknown table: "hierfavg" has no parameters',
    ),
    """
systems = ["mohawk"]
[links]
codec_up = "int9"
codec_down = "topk:0.1"
""": (
        "links.codec_up: unknown codec 'int9': expected one of bf16, deflate,",
        'links.codec_down: expected a codec that keeps every number of a model, got "topk:0.1"',
    ),
    """
systems = ["d_psgd"]
[links]
codec_up = "topk:0.1"
codec_of = "model"
[simulated]
precision = "float64"
""": (
        'links.codec_up: expected a codec that keeps every number of a model beside codec_of = "model", got',
        'links.codec_up: expected none beside simulated.precision = "float64"',
        "links.codec_up: expected none with decentralised systems, which have no access point",
    ),
    """
systems = ["flower"]
[program]
name = "flower"
[links]
codec_up = "int8"
""": ("links.codec_up: expected none beside a program, whose messages are its own",),
    """
[fleet]
agents = 2
[local]
meter_profile = "smartpowr3"
meter_profiles = { pi-03 = "none" }
meter_sites = { board = "CPU" }
""": (
        "local.meter_profile: expected one of ina219, ",
        "local.meter_profiles.pi-03: expected a device of this machine: pi-01 to pi-02",
        "local.meter_profiles.pi-03: expected one of ina219, ",
        "local.meter_sites.board: expected a device of this machine: pi-01 to pi-02",
    ),
    """
[local]
meter_profile = "smartpower3-1.7"
meter_interval_ms = 7
""": ("local.meter_interval_ms: meter profile smartpower3-1.7: interval 7 ms: expected one of 5, 10, 50,",),
    """
[fleet]
agents = 1
[local]
meters = { pi-01 = { driver = "smartpowr2", port = "/dev/x" } }
meter_readers = { pi-01 = "controller", pi-09 = "controller" }
""": (
        "local.time_scale: expected 1 beside meters: a real one runs no faster, got 4.0",
        "local.meters.pi-01.driver: expected one of hwmon, ",
        "local.meter_readers.pi-01: expected an emulated meter",
        "local.meter_readers.pi-09: expected a device of this machine: pi-01 to pi-01",
    ),
    """
[influxdb]
url = "ftp://x"
via = "controller"
store = "influxdb"
""": (
        "influxdb.url: expected an address like",
        'influxdb.store: expected "both" where the controller forwards its run folder',
    ),
}


@pytest.mark.parametrize("text", CASES)
def test_sections_that_do_not_fit_together_are_told_all_at_once(text: str, tmp_path: Path) -> None:
    path = tmp_path / "demo.toml"
    path.write_text(text)
    with pytest.raises(ConfigError) as refused:
        load_experiment(path)
    found = without_lines(refused.value.problems)
    for expected in CASES[text]:
        assert [one for one in found if one.startswith(f"demo.toml: {expected}")], (expected, found)
