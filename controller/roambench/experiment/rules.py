"""Mistakes that a single key's range cannot show: names that do not exist, keys that exclude each other."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from roambench.agent.orders.programs import PROGRAMS
from roambench.contract.errors import ConfigError
from roambench.contract.link_codecs import IDENTITY
from roambench.emulation.drivers import reader
from roambench.emulation.profiles import Transport, profile
from roambench.experiment import catalogue
from roambench.experiment.algorithm_section import is_own_table
from roambench.experiment.battery_section import BatterySection
from roambench.experiment.key_values import value_at, value_used
from roambench.experiment.learning_section import LearningSection
from roambench.experiment.link_model_file import load_link_model
from roambench.experiment.parameters import generator_mistakes, parameter_mistakes
from roambench.experiment.peer_rules import peer_mistakes
from roambench.experiment.sections import DEFAULT_GENERATOR
from roambench.learning.codecs.catalogue import codec_of
from roambench.learning.tasks import load_task
from roambench.spool.influx_settings import token_env_mistake, url_mistake
from roambench.systems.catalogue import own_parameters
from roambench.systems.peers import is_peer_system
from roambench.written.expected import field_at
from roambench.written.mistakes import Mistake, did_you_mean, shown

#: Which table of the catalogue knows the name that stands in a key.
NAMED: dict[tuple[str, ...], tuple[str, ...]] = {
    ("systems",): ("algorithms", "decentralised"),
    ("trace", "generator"): ("generators",),
    ("learning", "dataset"): ("datasets",),
    ("learning", "model"): ("models",),
    ("learning", "partition"): ("partitions",),
    ("algorithm", "local"): ("local",),
}


def broken_rules(values: Mapping[str, Any]) -> list[Mistake]:
    """The mistakes in `values` (as read, not yet validated; a wrong type is not this function's business)."""
    return [
        *unknown_names(values),
        *_trace(values),
        *_systems(values),
        *_program(values),
        *_task(values),
        *_association(values),
        *_own_parameters(values),
        *_optimiser(values),
        *_paths(values),
        *_meter_stall(values),
        *_links(values),
        *_codecs(values),
        *_influxdb(values),
        *_meters(values),
        *_real_meters(values),
        *_meter_readers(values),
        *_ray(values),
        *_battery(values),
        *_precision(values),
        *peer_mistakes(values),
    ]


def unknown_names(values: Mapping[str, Any]) -> Iterator[Mistake]:
    """Names in `values` that the catalogue does not know."""
    for path, kinds in NAMED.items():
        given = value_at(values, path)
        for name in given if isinstance(given, list) else [given]:
            if not isinstance(name, str) or not name:
                continue
            if path == ("systems",) and name == value_at(values, ("program", "name")):
                continue
            known = [known for kind in kinds for known in catalogue.table(kind).names()]
            if name not in known:
                hint = did_you_mean(name, known)
                yield Mistake(path, f'expected one of {", ".join(known)}, got "{name}"{hint}')


def _trace(values: Mapping[str, Any]) -> Iterator[Mistake]:
    file, generator = value_at(values, ("trace", "file")), value_at(values, ("trace", "generator"))
    parameters = value_at(values, ("trace", "parameters"))
    if file and generator:
        yield Mistake(("trace",), "file and generator exclude each other: expected one of them")
    if file and parameters:
        yield Mistake(("trace", "parameters"), "belongs to a generator: expected none beside file")
    elif isinstance(parameters, Mapping) and parameters:
        name = generator or DEFAULT_GENERATOR
        if name in catalogue.table("generators").names():
            row = catalogue.table("generators").load(name)
            yield from generator_mistakes(row, parameters, ("trace", "parameters"))


def _systems(values: Mapping[str, Any]) -> Iterator[Mistake]:
    systems = value_at(values, ("systems",))
    if isinstance(systems, list):
        twice = sorted({name for name in systems if isinstance(name, str) and systems.count(name) > 1})
        if twice:
            yield Mistake(("systems",), f"expected each system once, got {', '.join(twice)} twice")


def _program(values: Mapping[str, Any]) -> Iterator[Mistake]:
    """A program is the one system of its experiment, or it trains what systems of ours coordinate."""
    name = value_at(values, ("program", "name"))
    if not isinstance(name, str) or not name:
        return
    if name not in PROGRAMS.names():
        hint = did_you_mean(name, PROGRAMS.names())
        yield Mistake(
            ("program", "name"), f'expected one of {", ".join(PROGRAMS.names())}, got "{name}"{hint}'
        )
    systems = value_used(values, ("systems",))
    if systems != [name] and name in systems:
        yield Mistake(("systems",), f'expected ["{name}"] alone, or systems without it')
    elif any(isinstance(system, str) and is_peer_system(system) for system in systems):
        yield Mistake(("systems",), f'expected systems with access points beside program.name = "{name}"')
    learning = value_at(values, ("learning",))
    for key, value in learning.items() if isinstance(learning, Mapping) else ():
        field = field_at(LearningSection, (key,))  # a repeated run has all keys, with their defaults
        if field is None or value == field.get_default():
            continue
        yield Mistake(("learning", key), f"expected none: {name} brings data, model and training")
    for key in ("local", "proximal"):
        if value_at(values, ("algorithm", key)):
            yield Mistake(("algorithm", key), f"expected none: {name} brings its training")
    if value_used(values, ("simulated", "backend")) != "workers":
        yield Mistake(("simulated", "backend"), f'expected "workers" beside program.name = "{name}"')
    if value_used(values, ("rounds", "score_aps")):
        yield Mistake(("rounds", "score_aps"), f"expected false: {name} scores no classes")


def _task(values: Mapping[str, Any]) -> Iterator[Mistake]:
    """A task of the user's own is imported: what is missing of it shows before anything runs."""
    name = value_at(values, ("learning", "task"))
    if not isinstance(name, str) or not name:
        if value_at(values, ("rounds", "metric_threshold")) is not None:
            yield Mistake(("rounds", "metric_threshold"), "expected learning.task beside it, with metrics")
        return
    if name.startswith("flower:"):
        expected = 'expected [program] with name = "flower" and folder = APP_DIR, whose pyproject.toml names'
        yield Mistake(("learning", "task"), f"{expected} the ClientApp (docs/flower.md)")
        return
    try:
        task = load_task(name)
    except ConfigError as error:
        yield from (Mistake(("learning", "task"), problem) for problem in error.problems)
        return
    brought = ["dataset", "model", *(["partition"] if hasattr(task, "partition") else [])]
    for key in brought:
        if value_at(values, ("learning", key)) is not None:
            yield Mistake(("learning", key), f"expected none beside task, which brings its own {key}")
    if hasattr(task, "evaluate") and value_used(values, ("learning", "score_precision")) != "float32":
        yield Mistake(("learning", "score_precision"), "expected none beside a task that scores by itself")
    if hasattr(task, "batches"):
        if value_at(values, ("learning", "augmentation")) not in (None, "none"):
            yield Mistake(
                ("learning", "augmentation"), "expected none beside a task that makes its own batches"
            )
        if value_at(values, ("simulated", "backend")) == "stacked":
            expected = 'expected "workers" or "ray" beside a task that makes its own batches'
            yield Mistake(("simulated", "backend"), expected)
    if not hasattr(task, "metrics") and value_at(values, ("rounds", "metric_threshold")) is not None:
        yield Mistake(("rounds", "metric_threshold"), "expected a task with metrics")


def _association(values: Mapping[str, Any]) -> Iterator[Mistake]:
    if value_at(values, ("algorithm", "association")) == "trace" and value_at(values, ("fleet", "aps")):
        yield Mistake(
            ("algorithm", "association"),
            'expected fleet.aps = 0 beside "trace": drawn APs are not those that the trace recorded',
        )


def _own_parameters(values: Mapping[str, Any]) -> Iterator[Mistake]:
    """Yield mistakes of systems and local algorithms: tables of what takes part, and in them what its row
    knows."""
    algorithm = values.get("algorithm")
    if not isinstance(algorithm, Mapping):
        return
    local, systems = algorithm.get("local", ""), value_used(values, ("systems",))
    if local and algorithm.get("proximal"):
        yield Mistake(("algorithm", "proximal"), "expected none beside local, which says how devices train")
    systems = systems if isinstance(systems, list | tuple) else ()
    written = algorithm.get("parameters")
    tables: dict[tuple[str, ...], Any] = {
        ("algorithm", "parameters", name): table
        for name, table in (written.items() if isinstance(written, Mapping) else ())
    }
    tables.update(
        {("algorithm", name): table for name, table in algorithm.items() if is_own_table(name, table)}
    )
    for path, table in tables.items():
        name = path[-1]
        if name not in systems and name != local:
            known = ", ".join([*map(str, systems), *([local] if local else [])])
            yield Mistake(path, f"expected a system or the local algorithm of this experiment: {known}")
        elif isinstance(table, Mapping):
            try:
                if name == local:
                    yield from _number_mistakes(catalogue.table("local").load(name).numbers, table, path)
                else:
                    yield from _system_mistakes(name, table, path)
            except ConfigError as error:
                yield from (Mistake(path, problem) for problem in error.problems)


def _number_mistakes(
    known: Mapping[str, float], table: Mapping[str, Any], path: tuple[str, ...]
) -> Iterator[Mistake]:
    for key, value in table.items():
        if key not in known:
            names = ", ".join(known) or "no numbers"
            yield Mistake((*path, key), f"unknown key; it takes {names}{did_you_mean(key, list(known))}")
        elif isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            yield Mistake((*path, key), f"expected a number, got {shown(value)}")


def _system_mistakes(name: str, table: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[Mistake]:
    own = None if is_peer_system(name) else own_parameters(name)
    if own is None:
        yield Mistake(path, f'unknown table: "{name}" has no parameters')
        return
    yield from parameter_mistakes(own, table, path)


def _optimiser(values: Mapping[str, Any]) -> Iterator[Mistake]:
    adam = value_at(values, ("learning", "optimiser")) == "adam"
    if adam and value_at(values, ("simulated", "backend")) == "stacked":
        yield Mistake(("learning", "optimiser"), 'expected "sgd" beside simulated.backend = "stacked"')


def _paths(values: Mapping[str, Any]) -> Iterator[Mistake]:
    file = value_at(values, ("trace", "file"))
    if isinstance(file, str) and file and not Path(file).is_file():
        yield Mistake(("trace", "file"), f"expected a trace file, {file} does not exist")
    folder = value_at(values, ("learning", "data_path"))
    if isinstance(folder, str) and folder and not Path(folder).is_dir():
        yield Mistake(("learning", "data_path"), f"expected a folder, {folder} does not exist")
    folder = value_at(values, ("program", "folder"))
    if isinstance(folder, str) and folder and not Path(folder).is_dir():
        yield Mistake(("program", "folder"), f"expected a folder, {folder} does not exist")


def _links(values: Mapping[str, Any]) -> Iterator[Mistake]:
    name = value_at(values, ("links", "model"))
    if isinstance(name, str) and name:
        try:
            load_link_model(name)
        except ConfigError as error:
            for problem in error.problems:
                yield Mistake(("links", "model"), problem)


def _codecs(values: Mapping[str, Any]) -> Iterator[Mistake]:
    """Codecs that there are, of what they can code, in runs whose models pass an access point."""
    coded = {}
    for key in ("codec_up", "codec_down"):
        text = value_used(values, ("links", key))
        if isinstance(text, str) and text != IDENTITY:
            try:
                coded[key] = codec_of(text)
            except ConfigError as error:
                yield from (Mistake(("links", key), problem) for problem in error.problems)
    for key, codec in coded.items():
        whole = key == "codec_down" or value_used(values, ("links", "codec_of")) == "model"
        if codec.feeds_back and whole:
            beside = "" if key == "codec_down" else ' beside codec_of = "model"'
            expected = f"expected a codec that keeps every number of a model{beside}"
            yield Mistake(("links", key), f"{expected}, got {shown(value_used(values, ('links', key)))}")
        if value_used(values, ("simulated", "precision")) == "float64":
            yield Mistake(("links", key), 'expected none beside simulated.precision = "float64"')
        if value_at(values, ("program", "name")):
            yield Mistake(("links", key), "expected none beside a program, whose messages are its own")
        systems = value_used(values, ("systems",))
        if isinstance(systems, list | tuple) and any(map(is_peer_system, systems)):
            yield Mistake(
                ("links", key), "expected none with decentralised systems, which have no access point"
            )


def _meters(values: Mapping[str, Any]) -> Iterator[Mistake]:
    """The emulated meters: firmwares that there are, that agents can read, at an interval they offer."""
    name, interval_ms = (value_used(values, ("local", key)) for key in ("meter_profile", "meter_interval_ms"))
    own = value_used(values, ("local", "meter_profiles"))
    yield from _firmware(("local", "meter_profile"), name)
    if isinstance(own, Mapping):
        for device, firmware in own.items():
            yield from _device(values, "meter_profiles", device)
            yield from _firmware(("local", "meter_profiles", device), firmware)
    sites = value_at(values, ("local", "meter_sites"))
    if isinstance(sites, Mapping):
        for device in sites:
            yield from _device(values, "meter_sites", device)
    if isinstance(interval_ms, int) and interval_ms > 0 and isinstance(name, str):
        try:
            row = profile(name)
        except ConfigError:
            return
        try:
            row.period(interval_ms)
        except ConfigError as error:
            yield from (Mistake(("local", "meter_interval_ms"), problem) for problem in error.problems)


def _firmware(key: tuple[str, ...], name: object) -> Iterator[Mistake]:
    """Mistakes of a firmware's name: there is none of it, or no agent can read it."""
    if not isinstance(name, str):
        return
    known = catalogue.table("profiles").names()
    try:
        row = profile(name)
    except ConfigError as error:
        if name in known:  # another package's, which cannot be used
            yield from (Mistake(key, problem) for problem in error.problems)
            return
        hint = did_you_mean(name, known)
        yield Mistake(key, f'expected one of {", ".join(known)}, got "{name}"{hint}')
        return
    transport = next((way for way in (Transport.SERIAL, Transport.SYSFS) if way in row.lines), None)
    if transport is None:
        yield Mistake(key, f'expected a firmware with serial readings, "{name}" has none')
        return
    try:
        reader(name, transport, "/dev/pts/0")
    except ConfigError as error:
        yield from (Mistake(key, problem) for problem in error.problems)


def _real_meters(values: Mapping[str, Any]) -> Iterator[Mistake]:
    """Meters that agents of this machine read: of devices that there are, by drivers that there are."""
    meters = value_at(values, ("local", "meters"))
    if not isinstance(meters, Mapping) or not meters:
        return
    scale = value_used(values, ("local", "time_scale"))
    if scale != 1:
        yield Mistake(
            ("local", "time_scale"), f"expected 1 beside meters: a real one runs no faster, got {scale}"
        )
    known = catalogue.table("meters").names()
    for name, meter in meters.items():
        yield from _device(values, "meters", name)
        driver = meter.get("driver") if isinstance(meter, Mapping) else None
        if isinstance(driver, str) and driver not in known:
            hint = did_you_mean(driver, known)
            yield Mistake(
                ("local", "meters", name, "driver"),
                f'expected one of {", ".join(known)}, got "{driver}"{hint}',
            )


def _meter_readers(values: Mapping[str, Any]) -> Iterator[Mistake]:
    """Meters that the controller reads: emulated ones, of devices that there are."""
    readers = value_at(values, ("local", "meter_readers"))
    meters = value_at(values, ("local", "meters"))
    for name in readers if isinstance(readers, Mapping) else ():
        yield from _device(values, "meter_readers", name)
        if isinstance(meters, Mapping) and name in meters:
            expected = "expected an emulated meter; a real one's port says reader=controller"
            yield Mistake(("local", "meter_readers", name), expected)


def _device(values: Mapping[str, Any], table: str, name: str) -> Iterator[Mistake]:
    """A mistake where no device of this machine has the name, which is a key of the table."""
    agents = value_used(values, ("fleet", "agents"))
    number = name.removeprefix("pi-")
    there = number.isascii() and number.isdigit() and name == f"pi-{int(number):02d}" and int(number) > 0
    if not there or (type(agents) is int and 0 < agents < int(number)):
        last = f" to pi-{agents:02d}" if type(agents) is int and agents > 0 else ", pi-02, ..."
        yield Mistake(("local", table, name), f"expected a device of this machine: pi-01{last}")


def _influxdb(values: Mapping[str, Any]) -> Iterator[Mistake]:
    url = value_at(values, ("influxdb", "url"))
    mistake = url_mistake(url) if isinstance(url, str) and url else None
    if mistake:
        yield Mistake(("influxdb", "url"), mistake)
    name = value_at(values, ("influxdb", "token_env"))
    mistake = token_env_mistake(name) if isinstance(name, str) else None
    if mistake:
        yield Mistake(("influxdb", "token_env"), mistake)
    via, store = value_at(values, ("influxdb", "via")), value_at(values, ("influxdb", "store"))
    if (via, store) == ("controller", "influxdb"):
        yield Mistake(("influxdb", "store"), 'expected "both" where the controller forwards its run folder')
    if store == "influxdb" and not url:
        yield Mistake(("influxdb", "url"), "expected an address: the records would be nowhere")


def _precision(values: Mapping[str, Any]) -> Iterator[Mistake]:
    """Mistakes of precision: less than float32 is the stacked backend's alone; TF32 is a GPU's."""
    precision, backend = (value_used(values, ("simulated", key)) for key in ("precision", "backend"))
    if precision not in ("tf32", "bfloat16"):
        return
    if backend != "stacked":
        yield Mistake(
            ("simulated", "precision"), f'"{precision}" expects backend = "stacked", got "{backend}"'
        )
    if precision == "tf32" and value_at(values, ("simulated", "device")) == "cpu":
        yield Mistake(("simulated", "precision"), 'expected a GPU for "tf32", device is "cpu"')


def _ray(values: Mapping[str, Any]) -> Iterator[Mistake]:
    address = value_at(values, ("simulated", "ray_address"))
    if not isinstance(address, str) or not address:
        return
    if not re.fullmatch(r"auto|[^\s/:]+:\d{1,5}", address):
        yield Mistake(("simulated", "ray_address"), f'expected "auto" or "host:port", got "{address}"')
    elif value_at(values, ("simulated", "backend")) != "ray":
        yield Mistake(("simulated", "ray_address"), 'expects backend = "ray": no other uses it')


def _battery(values: Mapping[str, Any]) -> Iterator[Mistake]:
    """Keys of batteries that belong together, and what knows of none."""
    table = value_at(values, ("battery",))
    if not isinstance(table, Mapping) or not table:
        return
    used = {key: value_used(values, ("battery", key)) for key in BatterySection.model_fields}
    defaults = {key: field.default for key, field in BatterySection.model_fields.items()}
    if used == defaults:
        return
    if used["capacity_wh"] == 0:
        yield Mistake(("battery", "capacity_wh"), "expected a number > 0 beside the table's other keys")
        return
    numbers = (used["start"], used["cut_off"], used["back_at"])
    if all(isinstance(number, int | float) for number in numbers):
        for key in ("start", "back_at"):
            if used[key] <= used["cut_off"]:
                yield Mistake(
                    ("battery", key), f"expected more than cut_off = {used['cut_off']}, got {used[key]}"
                )
    if used["charging"] != "never" and used["charge_w"] == 0:
        yield Mistake(
            ("battery", "charge_w"), f'expected a number > 0 beside charging = "{used["charging"]}"'
        )
    if used["charging"] == "never" and used["charge_w"]:
        yield Mistake(("battery", "charging"), "expected when it is charged beside charge_w, got none")
    if used["charging"] == "hours" and used["charge_from_h"] == used["charge_until_h"]:
        yield Mistake(
            ("battery", "charge_until_h"),
            f"expected another hour than charge_from_h, got {used['charge_until_h']}",
        )
    if value_at(values, ("rounds", "lookahead")) is True:
        yield Mistake(
            ("rounds", "lookahead"), "expected false beside [battery]: the oracle foresees no device off"
        )
    systems, program = value_at(values, ("systems",)), value_at(values, ("program", "name"))
    for name in systems if isinstance(systems, list) else ():
        if isinstance(name, str) and (is_peer_system(name) or name == program):
            yield Mistake(("battery",), f"expected systems with access points, got {name}")


def _meter_stall(values: Mapping[str, Any]) -> Iterator[Mistake]:
    if value_at(values, ("local", "meter_stall_at_s")) and not value_at(values, ("local", "meter_stall_s")):
        yield Mistake(("local", "meter_stall_at_s"), "expected meter_stall_s > 0 beside it")
