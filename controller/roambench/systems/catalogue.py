"""The learning systems by name. Other packages add rows through the entry-point group `roambench.systems`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import is_dataclass, replace
from traceback import extract_tb
from types import MappingProxyType
from typing import Any, Final, get_type_hints

from roambench.contract.errors import ConfigError, RoambenchError
from roambench.contract.local_training import LocalTraining
from roambench.contract.table import Table, origin
from roambench.systems.fedavg import fedavg, heurfedamp
from roambench.systems.fednova import fednova
from roambench.systems.hierfavg import hierfavg
from roambench.systems.macfl import macfl
from roambench.systems.middle import ensemble, fedmes, greedy, macfl_same_step, middle, middle_plus, oort
from roambench.systems.mohawk import mohawk
from roambench.systems.options import SystemOptions
from roambench.systems.server_optimisers import fedadam, fedavgm, feddyn, fedyogi
from roambench.systems.system import Participants, Selection, StartModel, SyncRule, System, UploadRule

#: Options -> the system. One with its own parameters takes them as a second argument, whose annotation is
#: a frozen dataclass with a default for every field.
SystemFactory = Callable[..., System]

#: name -> factory. A row is all that the command line, the configuration and the report need.
SYSTEMS: Final[Table[SystemFactory]] = Table(
    what="system",
    group="roambench.systems",
    own={
        "ensemble": ensemble,
        "fedadam": fedadam,
        "fedavg": fedavg,
        "fedavgm": fedavgm,
        "feddyn": feddyn,
        "fedmes": fedmes,
        "fednova": fednova,
        "fedyogi": fedyogi,
        "greedy": greedy,
        "heurfedamp": heurfedamp,
        "hierfavg": hierfavg,
        "macfl": macfl,
        "macfl_same_step": macfl_same_step,
        "middle": middle,
        "middle_plus": middle_plus,
        "mohawk": mohawk,
        "oort": oort,
    },
)


def own_parameters(name: str) -> type[Any] | None:
    """The dataclass of a system's own parameters, None for a system that has none. ConfigError for an unknown
    system, and for a second argument that is annotated otherwise."""
    factory = SYSTEMS.load(name)
    _, *rest = inspect.signature(factory).parameters.values() or (None,)
    if not rest:
        return None
    where = f"system {name!r}: {rest[0].name}"
    try:
        found = get_type_hints(factory).get(rest[0].name)
    except (NameError, TypeError) as error:
        raise ConfigError([f"{where}: its annotation cannot be read: {error}"]) from None
    if len(rest) > 1 or not isinstance(found, type) or not is_dataclass(found):
        raise ConfigError([f"{where}: expected one argument of a frozen dataclass behind the options"])
    return found


def make_system(
    name: str, options: SystemOptions, parameters: Mapping[str, Any] = MappingProxyType({})
) -> System:
    """The system called `name`, with its own `parameters`. ConfigError lists the names there are, or says
    why one cannot be loaded or cannot be run: every choice of it that no fleet knows."""
    loaded, own = SYSTEMS.load(name), own_parameters(name)
    if own is None and parameters:
        raise ConfigError([f"system {name!r}: expected no parameters, got {', '.join(parameters)}"])
    points = SYSTEMS.added_by(name)

    def made() -> System:
        return loaded(options) if own is None else loaded(options, own(**parameters))

    if not points:
        return made()
    where = f"system {name!r} ({origin(points[0])})"
    try:
        system = made()
    except RoambenchError:
        raise
    except Exception as error:
        frame, kind = extract_tb(error.__traceback__)[-1], type(error).__name__
        raise ConfigError(
            [f"{where}: {frame.name} fails with {kind}: {error} ({frame.filename}:{frame.lineno})"]
        ) from error
    mistakes = [f"{where}: {mistake}" for mistake in _mistakes(system)]
    if mistakes:
        raise ConfigError(mistakes)
    return replace(system, name=name)  # one that is made of another may still bear that one's


def _mistakes(system: object) -> Iterator[str]:
    """Mistakes of another package's system: choices of a wrong type, and names that devices do not know."""
    if not isinstance(system, System):
        yield f"expected a System, got {type(system).__name__}"
        return
    from roambench.learning.local_algorithms import local_algorithm
    from roambench.learning.start_models import check_start_rule

    for name, kind in (
        ("training", LocalTraining),
        ("selection", Selection),
        ("start_model", StartModel),
        ("upload", UploadRule),
        ("cloud_participants", Participants),
        ("sync", SyncRule),
    ):
        value = getattr(system, name)
        if not isinstance(value, kind):
            yield f"{name}: expected a {kind.__name__}, got {value!r}"
    functions: list[tuple[str, object]] = [
        (name, getattr(system, name)) for name in ("association", "eligible", "edge_weights", "cloud_weights")
    ]
    if isinstance(system.selection, Selection):
        functions.append(("selection.choose", system.selection.choose))
        functions.append(("selection.rate", system.selection.rate))
    functions.append(("plain_uploads", system.plain_uploads))
    for name, value in functions:
        may_lack = name in ("selection.rate", "plain_uploads")
        if not callable(value) and not (may_lack and value is None):
            yield f"{name}: expected a function{' or None' if may_lack else ''}, got {value!r}"
    numbers: list[tuple[str, object, int]] = [("k2", system.k2, 1)]
    texts: list[tuple[str, object, Callable[[str], object]]] = []
    if isinstance(system.training, LocalTraining):
        numbers += [
            ("training.epochs", system.training.epochs, 1),
            ("training.steps", system.training.steps, 0),
        ]
        texts.append(("training.objective", system.training.objective, local_algorithm))
    for name, value, least in numbers:
        if not isinstance(value, int) or value < least:
            yield f"{name}: expected a whole number of {least} or more, got {value!r}"
    if isinstance(system.start_model, StartModel):
        texts += [
            ("start_model.stayed", system.start_model.stayed, check_start_rule),
            ("start_model.moved", system.start_model.moved, check_start_rule),
        ]
    for name, text, check in texts:
        if not isinstance(text, str):
            yield f"{name}: expected a text, got {text!r}"
            continue
        try:
            check(text)
        except ConfigError as error:
            yield from (f"{name}: {problem}" for problem in error.problems)
