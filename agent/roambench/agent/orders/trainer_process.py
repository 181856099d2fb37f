"""The trainer process: answers JSON lines, trains one order at a time, touches nothing but its files.

This module imports torch; only its fork server and the trainers (or the agent fork server) load it.
"""

from __future__ import annotations

import json
import os
import socket
import time
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any

import torch

from roambench.agent.orders.worker import CodeJob, TrainJob, rss_bytes
from roambench.contract.errors import reason_of
from roambench.contract.json_values import from_values
from roambench.contract.learning_spec import LearningSpec
from roambench.contract.model_blob import decode, encode, parts
from roambench.contract.model_digest import digest_of
from roambench.contract.orders import Vector
from roambench.learning.codecs.coder import Coder
from roambench.learning.learner import Learner
from roambench.learning.malloc import keep_freed_memory
from roambench.learning.shards import Shard, read_shard
from roambench.learning.training import single_threaded

_WARM_UPS = 4  # the first loads kernels and memory; the fastest of the rest tells a step's cost
_WARM_STEPS = 6  # per warm-up: what a training costs beside its steps is spread over them

single_threaded()


def serve(link: socket.socket) -> None:
    """Answer requests until the agent closes the link."""
    single_threaded()
    keep_freed_memory()
    trainer = TrainerProcess()
    with link.makefile("rwb") as lines:
        for line in lines:
            request = json.loads(line)
            reply = {**trainer.answer(request), "id": request.get("id")}
            lines.write(json.dumps(reply).encode() + b"\n")
            lines.flush()


class TrainerProcess:
    """Holds the warm model and the device's shard between orders."""

    def __init__(self) -> None:
        self._learner: Learner | None = None
        self._shard: Shard | None = None
        self._up: Coder | None = None
        self._down: Coder | None = None

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """The reply to one request; what cannot be done is {"refused": reason}, never an exception."""
        try:
            match request.get("op"):
                case "prepare":
                    return self._prepare(LearningSpec.from_json(request["spec"].encode()))
                case "train":
                    return self._train(from_values(TrainJob, request["job"], "train job"))
                case "code":
                    return self._code(from_values(CodeJob, request["job"], "code job"))
                case "smoke":
                    return smoke()
                case operation:
                    return {"refused": f"unknown operation {operation!r}"}
        except Exception as error:  # a user's model may raise anything
            return {"refused": reason_of(error)[:500]}

    def _prepare(self, spec: LearningSpec) -> dict[str, Any]:
        self._shard = read_shard(Path(spec.shard), in_channels=spec.in_channels, classes=spec.classes)
        self._learner = Learner(spec)
        layout = self._learner.layout
        self._up, self._down = (
            Coder.of(text, layout.fingerprint, layout.shapes) for text in (spec.codecs.up, spec.codecs.down)
        )
        step_cpu_s = min(self._learner.warm_up(self._shard, _WARM_STEPS) for _ in range(_WARM_UPS))
        return {
            "layout": self._learner.layout.fingerprint,
            "rss_bytes": rss_bytes(),
            "pid": os.getpid(),
            "samples": len(self._shard.labels),
            "step_cpu_s": step_cpu_s,
        }

    def _train(self, job: TrainJob) -> dict[str, Any]:
        if self._learner is None or self._shard is None:
            return {"refused": "not prepared"}
        layout = self._learner.layout.fingerprint
        with Path(job.start_path).open("rb") as start:  # not copied: nothing writes it while this trains
            blob = mmap(start.fileno(), 0, access=ACCESS_READ)
        result = self._learner.train(
            self._shard,
            job.training,
            decode(blob, layout=layout),
            _model(job.own_path, layout),
            _model(job.global_path, layout),
            _model(job.previous_path, layout),
            velocity=_model(job.velocity_path, layout),
            keeps_velocity=bool(job.velocity_out_path),
            kept=_model(job.kept_path, layout),
        )
        if result.velocity is not None:
            Path(job.velocity_out_path).write_bytes(encode(result.velocity, layout))
        if result.kept is not None and job.kept_out_path:
            Path(job.kept_out_path).write_bytes(encode(result.kept, layout))
        trained = parts(result.vector, layout)
        with Path(job.out_path).open("wb") as out:
            out.writelines(trained)
        return {
            "samples": result.samples,
            "sgd_steps": result.sgd_steps,
            "mean_loss": result.mean_loss,
            "mean_squared_loss": result.mean_squared_loss,
            "cpu_s": result.cpu_s,
            "model_digest": digest_of(*trained),
        }

    def _code(self, job: CodeJob) -> dict[str, Any]:
        coder = self._up if job.up else self._down
        if self._learner is None or coder is None:
            return {"refused": "no codec for this direction"}
        began_s, layout, out = time.process_time(), self._learner.layout.fingerprint, Path(job.out_path)
        blob = Path(job.path).read_bytes()
        if job.up:
            model, base = decode(blob, layout=layout), _model(job.base_path, layout)
            blob, memory = coder.encode(model, job.key, base, _model(job.memory_path, layout))
            if memory is not None:
                Path(job.memory_out_path).write_bytes(encode(memory, layout))
        else:
            blob = encode(coder.decode(blob), layout)
        out.write_bytes(blob)
        return {"cpu_s": time.process_time() - began_s, "digest": digest_of(blob)}


def smoke() -> dict[str, Any]:
    """A convolution, its gradient and an SGD step: what dies of SIGILL where torch is not for the board.

    By hand: torch.optim loads a compiler, 50 MB that would stay in the trainer for good.
    """
    module = torch.nn.Sequential(
        torch.nn.Conv2d(1, 4, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(4 * 6 * 6, 2)
    )
    images = torch.linspace(0.0, 1.0, 8 * 64).reshape(8, 1, 8, 8)
    labels = torch.arange(8) % 2
    started_s = time.process_time()
    loss = torch.nn.functional.cross_entropy(module(images), labels)
    loss.backward()  # type: ignore[no-untyped-call]
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.grad is not None:
                parameter.sub_(parameter.grad, alpha=0.1)
    return {
        "torch": torch.__version__,
        "loss": float(loss.detach()),
        "cpu_s": time.process_time() - started_s,
        "rss_bytes": rss_bytes(),
    }


def _model(path: str, layout: str) -> Vector | None:
    return decode(Path(path).read_bytes(), layout=layout) if path else None
