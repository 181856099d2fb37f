"""Words of the contract as messages of the wire, and back."""

from __future__ import annotations

from roambench.contract.local_training import LocalTraining
from roambench.wire.v1 import control_pb2 as wire


def training_message(training: LocalTraining) -> wire.LocalTraining:
    """A local training as a message of the wire; `training_of` is the inverse."""
    return wire.LocalTraining(
        epochs=training.epochs,
        seed=training.seed,
        steps=training.steps,
        objective=training.objective,
        start_rule=training.start_rule,
    )


def training_of(message: wire.LocalTraining) -> LocalTraining:
    """The local training of a message; whoever trains says what cannot be right about it."""
    return LocalTraining(message.epochs, message.seed, message.steps, message.objective, message.start_rule)
