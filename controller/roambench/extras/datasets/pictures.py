"""Files of images and sounds as pictures of 32x32."""

from __future__ import annotations

import io
import wave
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from importlib.util import find_spec
from typing import Final, TypeVar

import numpy as np
import numpy.typing as npt

from roambench.contract.errors import ConfigError, DataError
from roambench.contract.extra_packages import pip_install
from roambench.learning.datasets.dataset import IMAGE_SIDE
from roambench.learning.datasets.pixels import normalised, statistics
from roambench.learning.shards import Images

_FORMATS: Final = ("PNG", "JPEG", "GIF", "BMP", "WEBP")
#: Pillow's modes: greys, of 16 bits among them, and those that it makes colours of 8 bits of.
_GREYS: Final = ("1", "L", "LA", "I;16")
_COLOURS: Final = ("P", "PA", "RGB", "RGBA", "RGBX", "CMYK", "YCbCr")
_MOST_PIXELS: Final = 2**26
_MOST_NAMED: Final = 20
_AT_ONCE: Final = 256
RATE_HZ: Final = 16_000
_LOWEST_HZ: Final = 60.0
#: Far below speech (its bands lie around 1e-2 to 1e2) and above the rounding of 16-bit silence.
_FLOOR: Final = 1e-6
Bytes = npt.NDArray[np.uint8]
Sounds = npt.NDArray[np.float32]  # (n, samples in a second), in -1..1
#: (what to name in a message, content) of files; a file that cannot be read has the error in its place.
Files = Iterable[tuple[str, bytes | DataError]]
_Made = TypeVar("_Made")
#: What `wave` says of a file that is no PCM -> the format.
_WAV_FORMATS: Final = {
    "unknown format: 3": "float",
    "unknown format: 6": "A-law",
    "unknown format: 7": "mu-law",
    "unknown format: 65534": "WAVE_FORMAT_EXTENSIBLE",
}


def expect_packages(dataset: str, **wanted: str) -> None:
    """Raises ConfigError with the command that installs them, if modules of `wanted` (module=requirement) are
    absent."""
    if absent := [name for name in wanted if find_spec(name) is None]:
        way = pip_install(*wanted.values())
        raise ConfigError([f"data set {dataset}: {', '.join(absent)} is not installed: {way}"])


def few(problems: Sequence[str]) -> list[str]:
    """The first of the problems, and how many more there are."""
    rest = len(problems) - _MOST_NAMED
    return [*problems[:_MOST_NAMED], *([f"and {rest:,} more"] if rest > 0 else [])]


def _read(files: Files, reader: Callable[[bytes, str], _Made], problems: list[str]) -> Iterator[_Made]:
    """Yield each file as `reader` reads it; what is wrong with the others comes to `problems`."""
    for where, content in files:
        try:
            if isinstance(content, DataError):
                raise content
            made = reader(content, where)
        except DataError as error:
            problems.append(str(error))
        else:
            yield made


def pictures_of_images(train: Files, test: Files, *, others: Sequence[str] = ()) -> tuple[Images, Images]:
    """(n, channels, 32, 32) of each part, normalised by the training part: grey where all files of both are,
    else in colours; larger ones reduced to 32x32, smaller ones on black. `others`: formats that are read
    besides PNG, JPEG, GIF, BMP and WebP. DataError names files that are no images."""
    problems, reader = list[str](), partial(_planes, formats=(*_FORMATS, *others))
    parts = [list(_read(part, reader, problems)) for part in (train, test)]
    if problems:
        raise DataError("\n".join(few(problems)))
    channels = max(len(planes) for part in parts for planes in part)
    shape = (channels, IMAGE_SIDE, IMAGE_SIDE)
    stacked = [np.stack([np.broadcast_to(planes, shape) for planes in part]) for part in parts]
    means, deviations = statistics(stacked[0])
    return normalised(stacked[0], means, deviations), normalised(stacked[1], means, deviations)


def _planes(content: bytes, where: str, formats: tuple[str, ...]) -> Bytes:
    from PIL import Image

    try:
        with Image.open(io.BytesIO(content), formats=formats) as image:
            if image.width * image.height > _MOST_PIXELS:
                raise DataError(f"{where}: {image.width}x{image.height} pixels are too many")
            if image.mode not in (*_GREYS, *_COLOURS):
                raise DataError(
                    f"{where}: {image.format} of mode {image.mode}, expected colours of 8 bits or greys of 8 "
                    "or 16"
                )
            whole = image.convert("L" if image.mode in _GREYS else "RGB")
            if image.mode == "I;16":  # Pillow cuts it off at 255
                whole = Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
            if max(whole.size) > IMAGE_SIDE:
                whole = whole.resize((IMAGE_SIDE, IMAGE_SIDE), Image.Resampling.BILINEAR)
            pixels = np.asarray(whole, np.uint8)
    except DataError:
        raise
    except Exception as error:  # a decoder of foreign bytes may raise anything
        raise DataError(
            f"{where}: not an image of {', '.join(formats)} ({str(error).partition(' <')[0]})"
        ) from None
    planes = pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1)
    black = np.zeros((len(planes), IMAGE_SIDE, IMAGE_SIDE), np.uint8)
    top, left = (IMAGE_SIDE - planes.shape[1]) // 2, (IMAGE_SIDE - planes.shape[2]) // 2
    black[:, top : top + planes.shape[1], left : left + planes.shape[2]] = planes
    return black


def pictures_of_sounds(files: Files, rate_hz: int = RATE_HZ, *, cut: bool = False) -> npt.NDArray[np.float32]:
    """`log_mel` of wav files (see `sound_of`), (n, 32, 32) in their order. DataError names unfit ones."""
    drawn, waiting = [np.empty((0, IMAGE_SIDE, IMAGE_SIDE), np.float32)], list[Sounds]()
    problems = list[str]()
    for sound in _read(files, partial(sound_of, rate_hz=rate_hz, cut=cut), problems):
        waiting.append(sound)
        if len(waiting) == _AT_ONCE:
            drawn.append(log_mel(np.stack(waiting), rate_hz))
            waiting.clear()
    if problems:
        raise DataError("\n".join(few(problems)))
    if waiting:
        drawn.append(log_mel(np.stack(waiting), rate_hz))
    return np.concatenate(drawn)


def standardised(train: npt.NDArray[np.float32], test: npt.NDArray[np.float32]) -> tuple[Images, Images]:
    """(n, 1, 32, 32) of each part, whose training part has mean 0 and deviation 1."""
    mean, deviation = np.mean(train, dtype=np.float64), np.std(train, dtype=np.float64)
    scale = deviation if deviation > 1e-9 else 1.0
    first, second = (((part - mean) / scale).astype(np.float32)[:, None] for part in (train, test))
    return first, second


def sound_of(content: bytes, name: str, rate_hz: int = RATE_HZ, *, cut: bool = False) -> Sounds:
    """The samples of one wav file of 16 bits and one channel, float32 (rate_hz,) in -1..1, silence behind a
    shorter one; a longer one is unfit or, with `cut`, its first second. DataError if unfit."""
    try:
        with wave.open(io.BytesIO(content)) as file:
            form = (file.getnchannels(), file.getsampwidth(), file.getframerate())
            if form != (1, 2, rate_hz):
                raise DataError(
                    f"{name}: {form[0]} channels of {8 * form[1]} bits at {form[2]} Hz, "
                    f"expected 1 of 16 bits at {rate_hz} Hz"
                )
            promised = min(file.getnframes(), rate_hz) if cut else file.getnframes()
            if promised > rate_hz:
                raise DataError(f"{name}: {promised} samples, expected {rate_hz} at most")
            data = file.readframes(promised)
    except DataError:
        raise
    # Besides wave.Error and EOFError: a chunk whose size leads out of the file makes wave raise RuntimeError.
    except Exception as error:
        words = str(error) or "it ends early"
        if words.startswith("unknown "):
            found = _WAV_FORMATS.get(words, words)
            raise DataError(f"{name}: expected 16-bit PCM, found {found}") from None
        raise DataError(f"{name}: not a wav file ({words})") from None
    if not promised:
        raise DataError(f"{name}: holds no samples")
    if len(data) != 2 * promised:
        raise DataError(f"{name}: truncated: {len(data)} of {2 * promised} bytes of sound")
    sound = np.zeros(rate_hz, dtype=np.float32)
    sound[:promised] = np.frombuffer(data, dtype="<i2") / np.float32(32768.0)
    return sound


def log_mel(sounds: Sounds, rate_hz: int = RATE_HZ) -> npt.NDArray[np.float32]:
    """(n, rate_hz) to (n, 32, 32): natural log of the power in each mel band (rows, low first) and frame.

    Frame k is a Hann window of 64 ms centred on (k + 1/2) / 32 s; beyond the sound is silence.
    """
    hop = rate_hz // IMAGE_SIDE
    window = _window(rate_hz)
    border = (window - hop) // 2
    padded = np.pad(sounds, ((0, 0), (border, border)))
    frames = np.lib.stride_tricks.sliding_window_view(padded, window, axis=1)[:, ::hop][:, :IMAGE_SIDE]
    hann = np.hanning(window + 1)[:-1].astype(np.float32)
    power = np.abs(np.fft.rfft(frames * hann, axis=2)) ** 2
    bands = np.log(power @ mel_filters(rate_hz).T + _FLOOR)
    return bands.transpose(0, 2, 1).astype(np.float32)


def mel_filters(rate_hz: int = RATE_HZ) -> npt.NDArray[np.float64]:
    """(32, frequencies of a frame): triangles between 60 Hz and 0.475 of the rate (7,600 Hz of 16 kHz), even
    on the mel scale 2595 log10(1 + f/700)."""
    mels = np.linspace(_mel(_LOWEST_HZ), _mel(rate_hz * 19 / 40), IMAGE_SIDE + 2)
    edges = 700.0 * (10.0 ** (mels / 2595.0) - 1.0)
    window = _window(rate_hz)
    frequencies = np.arange(window // 2 + 1) * rate_hz / window
    low, middle, high = (edges[shift : shift + IMAGE_SIDE, None] for shift in range(3))
    rising, falling = (frequencies - low) / (middle - low), (high - frequencies) / (high - middle)
    return np.asarray(np.maximum(0.0, np.minimum(rising, falling)))


def _window(rate_hz: int) -> int:
    return rate_hz * 8 // 125  # samples in 64 ms


def _mel(frequency_hz: float) -> float:
    return float(2595.0 * np.log10(1.0 + frequency_hz / 700.0))
