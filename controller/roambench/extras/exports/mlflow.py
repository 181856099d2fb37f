"""Runs in an MLflow store: a database file of one's own, or a server."""

from __future__ import annotations

import logging
import os
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from roambench.contract.errors import ConfigError, RunError
from roambench.report.pages.report import page
from roambench.report.tracked import PUBLIC_FILES, TrackedRun, missing, tracked_runs
from roambench.runs.database import naming
from roambench.runs.info import RunState

#: What MLflow takes in one request and in one value (mlflow.utils.validation).
_PARAMS: Final = 100
_METRICS: Final = 1000
_PARAM_LENGTH: Final = 6000
_TAG_LENGTH: Final = 8000
_STATUS: Final = {
    RunState.FINISHED: "FINISHED",
    RunState.FAILED: "FAILED",
    RunState.INTERRUPTED: "KILLED",
    RunState.RUNNING: "RUNNING",
}


@dataclass(frozen=True)
class MlflowRun:
    """A run as the store has it now. `left_out`: files over the limit."""

    name: str
    experiment: str
    mlflow_id: str
    left_out: tuple[str, ...]


def export_mlflow(
    runs: Sequence[Path], store: str, *, experiment: str = "", artifacts_mib: float = 0.0
) -> list[MlflowRun]:
    """Write the runs into the store, a URI or a folder; into the experiment named, else into their own.
    Those of a sweep are children of a run of its name.

    With `artifacts_mib` also the report page and the run's tables, each file up to that size. ConfigError
    for runs that are there already; RunError where the library is not installed or the store refuses.
    """
    client_of, entities, exception = _library()
    found = tracked_runs(runs)
    uri, files = store_of(store)
    with _quiet(), _refusals(exception, store):
        client = client_of(tracking_uri=uri, registry_uri=uri)
        places = {run.name: _experiment(client, experiment or run.experiment, files) for run in found}
        there = [
            f"{run.name}: is in the store already, as {known[0].info.run_id}; delete that one first"
            for run in found
            if (known := client.search_runs([places[run.name]], _this(run)))
        ]
        if there:
            raise ConfigError(there)
        parents = {
            (place, run.sweep): _parent(client, run, place)
            for run in found
            if run.sweep
            for place in [places[run.name]]
        }
        return [
            _write(
                client,
                entities,
                run,
                places[run.name],
                experiment or run.experiment,
                artifacts_mib,
                parents.get((places[run.name], run.sweep), ""),
            )
            for run in found
        ]


def store_of(store: str) -> tuple[str, str | None]:
    """MLflow's URI of what a user names, and where its files go (None: as the server says).

    A folder means the SQLite file mlflow.db in it.
    """
    if "://" in store:
        scheme, _, rest = store.partition("://")
        if scheme == "file":
            raise ConfigError(
                [f"--output: {store}: MLflow keeps runs in databases now; name the folder itself"]
            )
        if scheme != "sqlite":
            return store, None
        database = Path(rest.removeprefix("/"))
    else:
        database = Path(store) / "mlflow.db"
    with naming(database.parent):
        database.parent.mkdir(parents=True, exist_ok=True)
    database = database.resolve()
    return f"sqlite:///{database}", (database.parent / "artifacts").as_uri()


def _experiment(client: Any, name: str, files: str | None) -> str:
    known = client.get_experiment_by_name(name)
    if known is not None:
        return str(known.experiment_id)
    location = None if files is None else f"{files}/{quote(name, safe='')}"
    return str(client.create_experiment(name, artifact_location=location))


def _this(run: TrackedRun) -> str:
    """MLflow's filter for this run: its id is unique on a bench only, and its time to the second, in which
    several points of a sweep may begin."""
    tags = {"roambench.run_id": run.info.run_id, "roambench.created": run.info.created_utc}
    tags |= {"mlflow.runName": run.name} if run.sweep else {}
    return " and ".join(f"tags.`{name}` = {_quoted(value)}" for name, value in tags.items())


def _parent(client: Any, run: TrackedRun, place: str) -> str:
    """The run of MLflow's above those of the sweep: the one that is there, else a new one."""
    known = client.search_runs([place], f"tags.`roambench.sweep` = {_quoted(run.sweep)}")
    if known:
        return str(known[0].info.run_id)
    made = client.create_run(
        place, start_time=round(1e3 * run.began_s), tags={"roambench.sweep": run.sweep}, run_name=run.sweep
    )
    client.set_terminated(made.info.run_id)
    return str(made.info.run_id)


def _quoted(text: str) -> str:
    return f"'{text}'" if "'" not in text else f'"{text}"'


def _write(
    client: Any,
    entities: Any,
    run: TrackedRun,
    place: str,
    experiment: str,
    artifacts_mib: float,
    parent: str,
) -> MlflowRun:
    """One run, below `parent` if that is any; a run that could not be written whole is deleted again."""
    began_ms = round(1e3 * run.began_s)
    made = client.create_run(place, start_time=began_ms, run_name=run.name)
    key = made.info.run_id
    try:
        tags = {f"roambench.{name}": value for name, value in run.tags.items()}
        tags["mlflow.note.content"] = _note(run)
        if parent:
            tags["mlflow.parentRunId"] = parent
        texts = [entities.RunTag(name, _cut(value, _TAG_LENGTH)) for name, value in tags.items()]
        params = [entities.Param(n, _cut(_text(v), _PARAM_LENGTH)) for n, v in run.parameters.items()]
        metrics = [entities.Metric(p.tag, p.value, began_ms, p.step) for p in run.curves]
        metrics += [entities.Metric(name, value, began_ms, 0) for name, value in run.figures.items()]
        for at in range(0, len(texts), _PARAMS):
            client.log_batch(key, tags=texts[at : at + _PARAMS])
        for at in range(0, len(params), _PARAMS):
            client.log_batch(key, params=params[at : at + _PARAMS])
        for at in range(0, len(metrics), _METRICS):
            client.log_batch(key, metrics=metrics[at : at + _METRICS])
        left_out = _artifacts(client, key, run, artifacts_mib) if artifacts_mib > 0.0 else ()
        ended_s = run.ended_s
        client.set_terminated(
            key, _STATUS[run.info.state], end_time=None if ended_s is None else round(1e3 * ended_s)
        )
    except BaseException:
        client.delete_run(key)
        raise
    return MlflowRun(run.name, experiment, key, left_out)


def _artifacts(client: Any, key: str, run: TrackedRun, limit_mib: float) -> tuple[str, ...]:
    left_out = []
    with tempfile.TemporaryDirectory() as scratch:
        shown = Path(scratch) / "report.html"
        shown.write_text(page([run.evidence], [run.summary]), encoding="utf-8", errors="backslashreplace")
        files = [shown, *(run.evidence.path / name for name in PUBLIC_FILES)]
        for file in files:
            if not file.is_file():
                continue
            size_mib = file.stat().st_size / 2**20
            if size_mib <= limit_mib:
                client.log_artifact(key, str(file))
            else:
                left_out.append(f"{file.name} ({size_mib:.1f} MiB)")
    return tuple(left_out)


def _note(run: TrackedRun) -> str:
    """Return what MLflow shows as a run's description."""
    return "\n".join([run.finding, *(f"- {flag}" for flag in run.summary.flags)])


def _text(value: Any) -> str:
    return value if isinstance(value, str) else repr(value)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


@contextmanager
def _quiet() -> Iterator[None]:
    """Without MLflow's account of the tables it makes, and its libraries' warnings to each other."""
    loggers = [logging.getLogger(name) for name in ("mlflow", "alembic")]
    levels = [logger.level for logger in loggers]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for logger in loggers:
            logger.setLevel(logging.ERROR)
        try:
            yield
        finally:
            for logger, level in zip(loggers, levels, strict=True):
                logger.setLevel(level)


@contextmanager
def _refusals(exception: Any, store: str) -> Iterator[None]:
    """MLflow's own errors in a line, without the password that a URI may have."""
    try:
        yield
    except (exception, OSError) as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        where = store if "@" not in store else f"{store.partition('://')[0]}://…@{store.rpartition('@')[2]}"
        said = lines[0].replace(store, where)
        raise RunError(f"--output: {where}: {said}") from None


def _library() -> tuple[Any, Any, Any]:
    """MLflow's client, its entities and its error. It makes no call but to the store."""
    os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
    os.environ["MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT"] = "true"
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")
    os.environ.setdefault("GIT_PYTHON_REFRESH", "quiet")
    try:
        import alembic  # noqa: F401
        import sqlalchemy  # noqa: F401
        from mlflow import entities
        from mlflow.exceptions import MlflowException
        from mlflow.tracking import MlflowClient
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] in ("alembic", "sqlalchemy"):
            error.name = "mlflow"
        raise missing(error, "mlflow", "mlflow") from None
    return MlflowClient, entities, MlflowException
