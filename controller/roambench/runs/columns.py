"""Units and descriptions of every column of a run's tables, for the files' metadata and docs/run-files.md."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pyarrow as pa

from roambench.contract.metric import Metric
from roambench.contract.phases import Outcome

#: Column -> (unit, what it holds). The unit is "" for texts, counts and shares.
Columns = Mapping[str, tuple[str, str]]

_DEVICE: Final = ("", "name of the device")
_BOOT: Final = ("", "boot of the board in whose clock the stamps are")
_OUTCOMES: Final = ", ".join(Outcome)
_ORDER: Final = ("", 'train or upload order that was served, "" in the background')
_TRAINING: Final = ("", 'train order whose outcome decides whether the joules were wasted, "" for none')

READINGS: Final[Columns] = {
    "device": _DEVICE,
    "ns": ("ns", "when the line was read, in device time"),
    "volts": ("V", "voltage"),
    "amps": ("A", "current"),
    "watts": ("W", "power as the meter said it, not calibrated"),
    "watt_hours": ("Wh", "the meter's own energy counter; NaN where it has none"),
    "flags": ("", "doubts as bits (`contract.records.ReadingFlag`); 0: none"),
    "meter_ms": ("ms", "the meter's own clock; -1 where it has none"),
}
PHASES: Final[Columns] = {
    "device": _DEVICE,
    "boot_id": _BOOT,
    "phase": ("", "idle, absent, download, train, evaluate, upload, exchange, rest, wait or lost"),
    "step": ("", "step in which the phase was; -1 before the first"),
    "start_ns": ("ns", "begin, in device time"),
    "end_ns": ("ns", "end, in device time; not part of the phase"),
    "order_id": _ORDER,
    "train_order_id": _TRAINING,
    "transferred_bytes": ("B", "bytes that the phase moved over the data link"),
    "first_byte_ns": ("ns", "when its bytes began to move; 0: not stamped"),
    "last_byte_ns": ("ns", "when its last byte moved; 0: not stamped"),
    "stalls_ns": ("ns", "begin and end of every time between these in which no byte moved"),
}
LEDGER: Final[Columns] = {
    "device": _DEVICE,
    "step": ("", "step of the training served; in the background the step itself, -1 before the first"),
    "phase": PHASES["phase"],
    "outcome": ("", f"of the training served: {_OUTCOMES}; null in the background"),
    "train_order_id": _TRAINING,
    "duration_s": ("s", "length of the phase"),
    "covered_s": ("s", "how much of it the meter saw; gaps count no energy"),
    "gross_j": ("J", "energy, the board's idle power in it"),
    "net_j": ("J", "energy above what the board would have drawn idling"),
    "u_gross_j": ("J", "standard uncertainty (k = 1) of gross_j; not to be added by hand: rows share errors"),
    "u_net_j": ("J", "standard uncertainty (k = 1) of net_j; not to be added by hand: rows share errors"),
    "naive_j": ("J", "trapezoid over the phase, for comparison; biased for short phases"),
    "u_own_j": ("J", "the row's own part of both: sampling and noise"),
    "u_gain": ("", "relative u of the meter's gain, shared by all rows of the board"),
    "u_offset_w": (
        "W",
        "u of the meter's offset while it read, shared by the board's rows; cancels in net",
    ),
    "u_idle_j": ("J", "u from the board's idle power, shared by its rows (net)"),
    "u_idle_gross_j": ("J", "u from the board's idle power, shared by its rows (gross)"),
    "u_level_j": (
        "J",
        "u of the phase's power where phases touch, shared by all rows of the phase; where there is a "
        "sharing, of the border of these phases, with a sign",
    ),
    "u_reference": (
        "",
        "the part of u_gain that is the reference's, shared by all meters calibrated against it",
    ),
    "reference": ("", 'what the meter was calibrated against; "" for none'),
    "sharing": ("", 'the phases that have lines in common with this one, and this one; "" for none'),
}
#: Columns that folders which earlier versions exported lack.
LATER: Final = frozenset({"sharing"})
STEPS: Final[Columns] = {
    "step": ("", "number of the step, from 0"),
    "present": ("", "devices that were there"),
    "aggregated": ("", "models that edge aggregations took"),
    "outstanding": ("", "trained models not yet aggregated, after the step"),
    "participating_aps": ("", "access points that aggregated since the last cloud aggregation"),
    "cloud": ("", "whether the cloud aggregated"),
    "accuracy": ("", "share of the test set (0..1), of the global model; null: not scored"),
    "loss": ("", "mean loss on the test set; null: not scored"),
    "wall_s": ("s", "how long the step took here"),
}
HOST: Final[Columns] = {
    "device": _DEVICE,
    "monotonic_ns": ("ns", "when it was seen, in device time"),
    "cpu_share": ("", "of all cores since the sample before (0..1)"),
    "agent_cpu_s": ("s", "processor time that the agent's processes have used so far"),
    "memory_used_bytes": ("B", "memory in use"),
    "temperature_c": ("°C", "of the chip"),
    "cpu_mhz": ("MHz", "clock of the processor"),
    "sent_bytes": ("B", "sent by all interfaces but the loopback, since boot"),
    "received_bytes": ("B", "received by all interfaces but the loopback, since boot"),
    "throttle_bits": ("", "as `vcgencmd get_throttled` spells them; -1: not known"),
}
EXCHANGES: Final[Columns] = {
    "step": ("", "step in which it was"),
    "sender": ("", "device that sent its half-step model"),
    "receiver": ("", "device that it was for"),
    "transferred_bytes": ("B", "as far as it came"),
    "status": ("", "how it ended"),
    "reason": ("", 'why it did not come whole; ""'),
}
MODELLED_LEDGER: Final[Columns] = {
    "device": _DEVICE,
    "step": ("", "step of the training served"),
    "at_step": ("", "step in which it was"),
    "phase": ("", "download, decode, train, evaluate, encode, upload, exchange or rest"),
    "outcome": ("", f"of the training served: {_OUTCOMES}; null for none"),
    "order_id": _ORDER,
    "train_order_id": _TRAINING,
    "duration_s": ("s", "length of the phase"),
    "modelled_gross_j": ("J", "modelled energy, idle power in it"),
    "modelled_idle_j": ("J", "what idling would have drawn meanwhile"),
    "modelled_net_j": ("J", "modelled energy above idling: Eq. 1 for transfers"),
    "modelled_u_j": ("J", "standard uncertainty (k = 1) of the model; rows share it"),
    "transferred_bytes": ("B", "payload that moved"),
    "mbit_s": ("Mbit/s", "throughput that the energy was modelled with"),
    "link": ("", 'wifi, lte or a link of the model; "" for trainings and rests'),
    "distance_m": ("m", "from the device to its access point"),
}
DEVICES: Final[Columns] = {
    "device": _DEVICE,
    "present_steps": ("", "steps in which it was there"),
    "mean_distance_m": ("m", "to its access point, over these; null: never there"),
    "trainings": ("", "that were ordered"),
    "aggregated": ("", "trainings that were"),
    "wasted": ("", "trainings that were"),
    "failed": ("", "trainings that did"),
    "train_s": ("s", "time in trainings"),
    "downloaded_bytes": ("B", "payload that came"),
    "uploaded_bytes": ("B", "payload that was sent"),
    "modelled_gross_j": ("J", "modelled energy, idle power in it"),
    "modelled_net_j": ("J", "modelled energy above idling"),
    "modelled_communication_j": ("J", "the part of it that transfers drew"),
    "modelled_wasted_gross_j": ("J", "gross energy whose training was wasted"),
    "modelled_failed_gross_j": ("J", "gross energy whose training failed"),
}

_UNITS: Final = (("_mbit_s", "Mbit/s"), ("_ns", "ns"), ("_bytes", "B"), ("_s", "s"), ("_m", "m"))


def described(schema: pa.Schema, columns: Columns) -> pa.Schema:
    """The schema with `unit` and `description` in every field's metadata; KeyError for one not described."""
    return pa.schema([_described(field, *columns[field.name]) for field in schema], schema.metadata)


def of_metric(metric: Metric) -> pa.Field:
    """The column of a task's own metric, whose metadata say as `better` which values are."""
    field = pa.field(metric.name, pa.float64())
    text = f"a metric of the task, on the test set: {metric.better} is better; null: not scored"
    return field.with_metadata({"unit": "", "description": text, "better": metric.better})


def of_records(schema: pa.Schema) -> pa.Schema:
    """The same for records of the event log, whose names end in their units; their classes describe them."""
    units = {field.name: next((u for end, u in _UNITS if field.name.endswith(end)), "") for field in schema}
    return pa.schema([_described(field, units[field.name], "") for field in schema])


def _described(field: pa.Field, unit: str, text: str) -> pa.Field:
    return field.with_metadata({"unit": unit, "description": text})
