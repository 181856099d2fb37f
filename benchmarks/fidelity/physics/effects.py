"""What boards do beside their work: tails, habits, warmth, drift."""

import numpy as np

from fidelity.physics.board import MARGIN_S, TRANSFERS, Scene
from fidelity.physics.power import Floats, lagged


def radio_tail(scene: Scene) -> None:
    """0.35 W for 0.2-1 s after each transfer."""
    for i, _, b in scene.of(*TRANSFERS):
        scene.add_tail(i, b, scene.draw.uniform(0.2, 1.0), 0.35, radio=True)


def awake(scene: Scene) -> None:
    """The radio leaves its power saving for 0.2 s after each transfer: 0.25 W."""
    for i, _, b in scene.of(*TRANSFERS):
        scene.add_tail(i, b, 0.2, 0.25, radio=True)


def scanning(scene: Scene) -> None:
    """Wi-Fi looks for other access points for 2-4 s every minute: 0.4 W."""
    start = np.arange(scene.draw.uniform(0.0, 60.0), scene.end, 60.0)
    scene.add("idle", start, start + scene.draw.uniform(2.0, 4.0, len(start)), 0.4)


def lte_tail(scene: Scene) -> None:
    """Connected for 0.5-1.5 s at full power, then DRX (40 ms of 320 ms) up to the inactivity timer."""
    awake, timer, watts = (scene.draw.uniform(*w) for w in ((0.5, 1.5), (4.0, 9.0), (0.6, 1.0)))
    for i, _, b in scene.of(*TRANSFERS):
        scene.add_tail(i, b, awake, watts, radio=True)
        scene.add_tail(i, b + np.arange(awake, timer, 0.32), 0.04, watts, radio=True)


def autosuspend(scene: Scene) -> None:
    """USB and radio go to sleep 2-6 s after an upload; until then 0.12 W more."""
    timer = scene.draw.uniform(2.0, 6.0)
    for i, _, b in scene.of("upload"):
        scene.add_tail(i, b, timer, 0.12, radio=True)


def clock_tail(scene: Scene) -> None:
    """The governor holds the high clock 50-300 ms after a transfer: 0.35 W."""
    for i, _, b in scene.of(*TRANSFERS):
        scene.add_tail(i, b, scene.draw.uniform(0.05, 0.3), 0.35)


def spinning(scene: Scene) -> None:
    """OpenMP threads spin on for the board's block time, at the training's power, into the upload."""
    block = scene.draw.uniform(0.1, 0.3)
    for i, _, b in scene.of("train"):
        scene.add_tail(i, b, block + scene.draw.uniform(0.0, 0.01), scene.levels["train"])


def card_tidies(scene: Scene) -> None:
    """The SD card erases blocks for 0.5-2.5 s after the training's checkpoint: 0.25-0.6 W."""
    for i, _, b in scene.of("train"):
        scene.add_tail(i, b, scene.draw.uniform(0.5, 2.5), scene.draw.uniform(0.25, 0.6))


def writeback(scene: Scene) -> None:
    """The kernel writes a download 30-35 s later, at its timer of 5 s: 0.5 W for 0.3-0.8 s."""
    timer = scene.draw.uniform(0.0, 5.0)
    for i, _, b in scene.of("download"):
        when = np.ceil((b + 30.0 - timer) / 5.0) * 5.0 + timer
        scene.add_tail(i, float(when), scene.draw.uniform(0.3, 0.8), 0.5)


def listening(scene: Scene) -> None:
    """0.15 W above idle while the board waits."""
    for _, a, b in scene.of("wait"):
        scene.add("work", a, b, 0.15)


def searching(scene: Scene) -> None:
    """An absent board scans for 0.8-1.5 s every 5 s at 0.5 W."""
    for _, a, b in scene.of("absent"):
        start = np.arange(a + scene.draw.uniform(0.0, 5.0), b, 5.0)
        scene.add("work", start, np.minimum(start + scene.draw.uniform(0.8, 1.5, len(start)), b), 0.5)


def warming(scene: Scene) -> None:
    """Idle climbs by an exponential of 200-400 s and drifts straight by up to 0.1 W."""
    t = np.arange(-MARGIN_S, scene.end + MARGIN_S + 2.0, 2.0)
    up, tau, drift = (
        scene.draw.uniform(0.05, 0.2),
        scene.draw.uniform(200.0, 400.0),
        scene.draw.uniform(-0.1, 0.1),
    )
    watts = up * (1 - np.exp(-(t + MARGIN_S) / tau)) + drift * t / scene.end
    scene.add("idle", t[:-1], t[1:], watts[:-1], watts[1:])


def warmth_of(scene: Scene, tau: float) -> tuple[Floats, Floats]:
    """Temperature over seconds as a share of endless training's, every 0.5 s."""
    t = np.arange(-MARGIN_S, scene.end + MARGIN_S + 0.5, 0.5)
    trained = np.zeros(len(t) - 1)
    for _, a, b in scene.of("train"):
        trained += np.clip(np.minimum(t[1:], b) - np.maximum(t[:-1], a), 0.0, None) / 0.5
    return t, np.concatenate([[0.0], lagged(0.5, tau, (1 - np.exp(-0.5 / tau)) * trained)])


def self_heating(scene: Scene) -> None:
    """Leakage follows the die's temperature: up to 0.15-0.4 W, tau 60-200 s."""
    t, warmth = warmth_of(scene, scene.draw.uniform(60.0, 200.0))
    watts = scene.draw.uniform(0.15, 0.4) * warmth
    scene.add("warm", t[:-1], t[1:], watts[:-1], watts[1:])


def fan(scene: Scene) -> None:
    """A fan of 0.4 W comes on in the training and goes off after the upload, by temperature."""
    t, warmth = warmth_of(scene, scene.draw.uniform(12.0, 25.0))
    busy = warmth[int(0.3 * len(t)) : int(0.8 * len(t))]
    low, high = busy.min() + np.array([0.35, 0.65]) * np.ptp(busy)
    on, state = np.zeros(len(t) - 1), False
    for k, value in enumerate(warmth[:-1]):
        state = value > (low if state else high)
        on[k] = state
    scene.add("warm", t[:-1], t[1:], 0.4 * on)


def wander(sd: float, tau: float, scene: Scene) -> None:
    """Idle noise with a memory."""
    t = np.arange(-MARGIN_S, scene.end + MARGIN_S + 0.5, 0.5)
    kicks = scene.draw.normal(0.0, sd, len(t))
    kicks[1:] *= np.sqrt(1 - np.exp(-1.0 / tau))
    watts = lagged(0.5, tau, kicks)
    scene.add("idle", t[:-1], t[1:], watts[:-1], watts[1:])


def telegraph(scene: Scene) -> None:
    """A daemon switches 0.06-0.15 W on and off, 3-30 s each on average."""
    n = int(scene.end)
    dwell = scene.draw.exponential(1.0, (n, 2)) * scene.draw.uniform(3.0, 30.0, 2)
    t = np.cumsum(dwell.ravel()) - MARGIN_S
    t = t[: np.searchsorted(t, scene.end) // 2 * 2]
    scene.add("idle", t[::2], t[1::2], scene.draw.uniform(0.06, 0.15))


def beacons(scene: Scene) -> None:
    """A dozing radio wakes every 1.024 s (DTIM 10) for 60-100 ms at 0.7 W; in transfers it is awake."""
    start = np.arange(-MARGIN_S + scene.draw.uniform(0.0, 1.024), scene.end + MARGIN_S - 0.1, 1.024)
    scene.replace(start, scene.draw.uniform(0.06, 0.1, len(start)), 0.7, *TRANSFERS)


def polling(scene: Scene) -> None:
    """A monitor takes 80 ms at 0.8 W every second of device time; beside a training it finds no free core."""
    start = np.arange(-MARGIN_S, scene.end + MARGIN_S - 1.0, 1.0) + scene.draw.uniform(0.0, 0.9)
    scene.replace(start, scene.draw.uniform(0.07, 0.09, len(start)), 0.8, "train")


def observing(scene: Scene) -> None:
    """The agent parses and syncs what came, every 0.5 s at most, beside no training: 15-30 ms at 0.7 W."""
    at = scene.arrivals
    slot = np.floor(at / 0.5)
    start = at[np.flatnonzero(np.diff(slot, prepend=-np.inf) > 0)] + 0.002
    scene.replace(start, scene.draw.uniform(0.015, 0.03, len(start)), 0.7, "train")
