"""Signals on a grid of 1 ms: low-passes, noise, and the power of one phase from its start on."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

DT = 0.001  # s, grid of truth


def cumulated(x: Floats) -> Floats:
    """Integral of a signal until each point of the grid, shape (len(x) + 1,)."""
    out = np.empty(len(x) + 1)
    out[0] = 0.0
    np.cumsum(x, out=out[1:])
    out *= DT
    return out


def low_pass(x: Floats, tau: float, dt: float = DT) -> Floats:
    """First-order low-pass, started in equilibrium, in chunks short against tau (no overflow)."""
    a = np.exp(-dt / tau)
    m = max(16, int(5 * tau / dt))
    n = len(x)
    pad = (-n) % m
    z = np.concatenate([x, np.full(pad, x[-1])]).reshape(-1, m)
    grow = a ** -np.arange(1, m + 1)
    part = np.cumsum(z * grow, axis=1) * (1 - a)  # y_k = a^k (y_0 + part_k)
    decay = a ** np.arange(1, m + 1)
    y0 = float(x[0])
    starts = np.empty(len(z))
    for i, last in enumerate(part[:, -1]):
        starts[i] = y0
        y0 = decay[-1] * (y0 + last)
    return (decay * (starts[:, None] + part)).ravel()[:n]


def ar1(n: int, sd: float, tau: float, rng: np.random.Generator) -> Floats:
    """A first-order autoregression that forgets within `tau` seconds, shape (n,)."""
    if sd <= 0:
        return np.zeros(n)
    step = max(1, int(tau / 20 / DT))
    m = n // step + 2
    a = float(np.exp(-step * DT / tau))
    e = rng.normal(size=m) * sd * np.sqrt((1 + a) / (1 - a))  # low_pass has gain (1 - a) per step
    e[0] = rng.normal() * sd  # starts in equilibrium at e[0]
    return np.repeat(low_pass(e, tau, step * DT), step)[:n]


def drawn(spec: Any, rng: np.random.Generator) -> float:
    """A number, or (low, high) for a uniform draw."""
    if isinstance(spec, (tuple, list)):
        return float(rng.uniform(*spec))
    return float(spec)


def load_shape(
    kind: dict[str, Any], seconds: float, power: float, rng: np.random.Generator, clock_s: float
) -> tuple[Floats, int]:
    """Net power (W) on the DT grid for one phase, from its physical start; may go on after its end (tail).

    Returns (array, lead): lead = samples drawn before the physical start (promotion).
    `kind` are the shape's parameters, `clock_s` the physical start in board time (for loads bound to the
    wall clock).
    """
    n = max(1, round(seconds / DT))
    t = np.arange(n) * DT
    p = np.full(n, float(power))
    k = dict(kind)
    if "ramp_s" in k:  # governor: three steps up
        r = drawn(k["ramp_s"], rng)
        p *= np.where(t < r / 3, 0.45, np.where(t < 2 * r / 3, 0.7, np.where(t < r, 0.85, 1.0)))
    if "warm" in k:  # leakage of a warming chip, counted as load
        p *= 1 + k["warm"] * (1 - np.exp(-t / k.get("warm_tau", 8.0)))
    if "throttle" in k:
        at = drawn(k.get("throttle_at", (0.3, 0.7)), rng) * seconds
        p *= np.where(t < at, 1.0, 1 - k["throttle"])
    if "duty_s" in k:  # on/off with the mean kept
        per = drawn(k["duty_s"], rng)
        d = k.get("duty", 0.5)
        off = clock_s if k.get("duty_clock") else rng.uniform(0, per) if k.get("duty_free") else 0.0
        on = ((t + off) % per) < d * per
        low = k.get("duty_low", 0.2)
        p *= np.where(on, (1 - low * (1 - d)) / d, low)
    if "burst_s" in k:
        b = min(drawn(k["burst_s"], rng), seconds)
        at = drawn(k["burst_at"], rng) * seconds if "burst_at" in k else rng.uniform(0, seconds - b)
        p = np.where((t >= at) & (t < at + b), p * k.get("burst_x", 3.0), p)
    if "gc_rate" in k:  # card garbage collection inside the phase
        for at in rng.uniform(0, seconds, rng.poisson(k["gc_rate"] * seconds)):
            p[(t >= at) & (t < at + 0.12)] += 1.0
    if "dead_start" in k:
        p[t < drawn(k["dead_start"], rng)] *= k.get("dead_level", 0.0)
    if "dead_end" in k:
        p[t >= seconds - drawn(k["dead_end"], rng)] *= k.get("dead_level", 0.0)
    parts = [p]
    if "tail" in k:
        form, length, level = k["tail"]
        length = drawn(length, rng)
        if form == "exp":
            m = int(7 * length / DT)
            tail = level * power * np.exp(-np.arange(m) * DT / length)
        elif form == "box":
            tail = np.full(int(length / DT), level * power)
        elif form == "drx":  # on 20 % of each 0.32 s cycle
            u = np.arange(int(length / DT)) * DT
            tail = np.where(u % 0.32 < 0.064, level * power, 0.0)
        else:
            raise ValueError(form)
        parts.append(tail)
    lead = 0
    if "promotion" in k:
        lead = int(drawn(k["promotion"][0], rng) / DT)
        parts.insert(0, np.full(lead, k["promotion"][1] * power))
    return np.concatenate(parts), lead
