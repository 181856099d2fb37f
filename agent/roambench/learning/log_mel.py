"""One second of sound as a picture: 32 mel bands by 32 frames, in decibel-like logarithms."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from roambench.learning.dataset import IMAGE_SIDE

RATE_HZ: Final = 16_000
SAMPLES: Final = 16_000
_WINDOW: Final = 1024  # samples: 64 ms
_HOP: Final = SAMPLES // IMAGE_SIDE  # 500 samples: 32 frames in a second
_LOWEST_HZ: Final = 60.0
_HIGHEST_HZ: Final = 7600.0
#: Far below speech (its bands lie around 1e-2 to 1e2) and above the rounding of 16-bit silence.
_FLOOR: Final = 1e-6

Sounds = npt.NDArray[np.float32]  # (n, 16000), in -1..1


def log_mel(sounds: Sounds) -> npt.NDArray[np.float32]:
    """(n, 16000) to (n, 32, 32): natural log of the power in each mel band (rows, low first) and frame.

    Frame k is a Hann window of 1,024 samples centred on sample 500 k + 250; beyond the sound is silence.
    """
    border = (_WINDOW - _HOP) // 2
    padded = np.pad(sounds, ((0, 0), (border, border)))
    frames = np.lib.stride_tricks.sliding_window_view(padded, _WINDOW, axis=1)[:, ::_HOP][:, :IMAGE_SIDE]
    hann = np.hanning(_WINDOW + 1)[:-1].astype(np.float32)
    power = np.abs(np.fft.rfft(frames * hann, axis=2)) ** 2
    bands = np.log(power @ mel_filters().T + _FLOOR)
    return bands.transpose(0, 2, 1).astype(np.float32)


def mel_filters() -> npt.NDArray[np.float64]:
    """(32, 513): triangles between 60 and 7,600 Hz, evenly on the mel scale 2595 log10(1 + f/700)."""
    mels = np.linspace(_mel(_LOWEST_HZ), _mel(_HIGHEST_HZ), IMAGE_SIDE + 2)
    edges = 700.0 * (10.0 ** (mels / 2595.0) - 1.0)
    frequencies = np.arange(_WINDOW // 2 + 1) * RATE_HZ / _WINDOW
    low, middle, high = (edges[shift : shift + IMAGE_SIDE, None] for shift in range(3))
    rising, falling = (frequencies - low) / (middle - low), (high - frequencies) / (high - middle)
    return np.asarray(np.maximum(0.0, np.minimum(rising, falling)))


def _mel(frequency_hz: float) -> float:
    return float(2595.0 * np.log10(1.0 + frequency_hz / 700.0))
