"""A run's state as JSON, for the run folder; models go separately, by digest."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from roambench.contract.errors import RunError
from roambench.contract.json_values import plain
from roambench.contract.orders import Vector
from roambench.rounds.peer_run import PeerState
from roambench.rounds.ports import Score
from roambench.rounds.state import MEMORY_DTYPES, RoundState, StaleModel
from roambench.systems.system import ApWork, PastTraining, Training

_FORMAT: Final = 6


def state_to_json(state: RoundState) -> str:
    """Everything but the models: those of `state.models` are to be kept under their digests. What rules keep
    is written out, as base64."""
    values: dict[str, Any] = {
        "format": _FORMAT,
        "next_step": state.next_step,
        "global_digest": state.global_digest,
        "ap_digests": list(state.ap_digests),
        "outstanding": [training for _, training in sorted(state.outstanding.items())],
        "participating": sorted(state.participating),
        "edge_work": sorted(state.edge_work.items()),
        "last_sync_step": state.last_sync_step,
        "stale": sorted(state.stale.items()),
        "past": sorted(state.past.items()),
        "previous_aps": sorted(state.previous_aps.items()),
        "unsynced": sorted(state.unsynced),
        "score": state.score,
        "ended": state.ended,
        "memories": {
            key: {name: _vector_text(vector) for name, vector in memory.items()}
            for key, memory in state.memories.items()
        },
    }
    return json.dumps(values, default=plain, separators=(",", ":"), sort_keys=True)


def state_from_json(text: str, models: Mapping[str, Vector]) -> RoundState:
    """Inverse of `state_to_json`; `models` must hold every digest that the state names (RunError if not)."""
    with _reading(text) as values:
        state = RoundState(
            next_step=values["next_step"],
            global_digest=values["global_digest"],
            ap_digests=tuple(values["ap_digests"]),
            models={},
            outstanding={item["device"]: Training(**item) for item in values["outstanding"]},
            participating=frozenset(values["participating"]),
            edge_work={
                ap: ApWork(tuple(Training(**item) for item in work["trainings"]), work["last_step"])
                for ap, work in values["edge_work"]
            },
            last_sync_step=values["last_sync_step"],
            stale={device: StaleModel(**item) for device, item in values["stale"]},
            past={device: PastTraining(**item) for device, item in values["past"]},
            previous_aps=dict(values["previous_aps"]),
            unsynced=frozenset(values["unsynced"]),
            score=None if values["score"] is None else Score(**values["score"]),
            ended=values["ended"],
            memories={
                key: {name: _vector(*written) for name, written in memory.items()}
                for key, memory in values["memories"].items()
            },
        )
    needed = state.live
    if missing := needed - models.keys():
        raise RunError(f"checkpoint lacks {len(missing)} of its models, the first is {min(missing)[:12]}")
    return replace(state, models={digest: models[digest] for digest in sorted(needed)})


def _vector_text(vector: npt.NDArray[np.floating[Any]]) -> tuple[str, str]:
    little = np.ascontiguousarray(vector, vector.dtype.newbyteorder("<"))
    return str(vector.dtype), base64.b64encode(little.tobytes()).decode()


def _vector(dtype: str, text: str) -> npt.NDArray[np.floating[Any]]:
    if dtype not in MEMORY_DTYPES:
        raise ValueError(f"a memory of {dtype}")
    content = base64.b64decode(text, validate=True)
    return np.frombuffer(content, np.dtype(dtype).newbyteorder("<")).astype(dtype)


def peers_to_json(state: PeerState, digests: Mapping[int, str]) -> str:
    """`state_to_json` for a system without a server; `digests` name the models that devices hold, where they
    are to be kept."""
    values = {
        "format": _FORMAT,
        "next_step": state.next_step,
        "models": sorted(digests.items()),
        "waiting": None if state.waiting is None else sorted(state.waiting),
        "ended": state.ended,
    }
    return json.dumps(values, separators=(",", ":"), sort_keys=True)


def peers_from_json(text: str, models: Mapping[str, Vector]) -> PeerState:
    """Inverse of `peers_to_json`; RunError as for `state_from_json`."""
    with _reading(text) as values:
        waiting = values["waiting"]
        return PeerState(
            values["next_step"],
            {device: models[digest] for device, digest in values["models"]},
            None if waiting is None else frozenset(waiting),
            values["ended"],
        )


@contextmanager
def _reading(text: str) -> Iterator[dict[str, Any]]:
    """The values of a checkpoint; RunError where they are of another format, or the body makes no state of
    them."""
    try:
        values = json.loads(text)
        if values["format"] != _FORMAT:
            raise RunError(f"checkpoint has format {values['format']!r}, this version reads {_FORMAT}")
        yield values
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise RunError(f"checkpoint is not readable: {error!r}") from None
