"""Speech Commands 0.02, the ten words zero to nine (Warden, 2018), as 1x32x32 log-mel pictures."""

from __future__ import annotations

import io
import wave
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from roambench.contract.errors import ConfigError, DataError
from roambench.learning.datasets.archives import Limits, read_members
from roambench.learning.datasets.data_files import default_folder, read_file
from roambench.learning.datasets.dataset import IMAGE_SIDE, Dataset
from roambench.learning.datasets.downloads import Download, fetch
from roambench.learning.shards import Images, Labels

WORDS: Final = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
ARCHIVE: Final = Download(
    "speech_commands_v0.02.tar.gz",
    "http://download.tensorflow.org/data/speech_commands_v0.02.tar.gz",
    "sha256",
    "af14739ee7dc311471de98f5f9d2c9191b18aedfe957f4a6ff791c709868ff58",
    max_bytes=2_428_923_189,
)
_VALIDATION: Final = "validation_list.txt"
_TESTING: Final = "testing_list.txt"
#: A recording is 32 kB; the lists are 400 kB. All of the archive unpacks to about 3.8 GB.
_LIMITS: Final = Limits(member_bytes=16 << 20, total_bytes=8 << 30)
_AT_ONCE: Final = 256
RATE_HZ: Final = 16_000
SAMPLES: Final = 16_000
_WINDOW: Final = 1024  # samples: 64 ms
_HOP: Final = SAMPLES // IMAGE_SIDE  # 500 samples: 32 frames in a second
_LOWEST_HZ: Final = 60.0
_HIGHEST_HZ: Final = 7600.0
#: Far below speech (its bands lie around 1e-2 to 1e2) and above the rounding of 16-bit silence.
_FLOOR: Final = 1e-6
Sounds = npt.NDArray[np.float32]  # (n, 16000), in -1..1


def missing(folder: Path | None = None) -> list[str]:
    """One line for every list and word folder that is not there, unless the archive is."""
    place = default_folder("speechcommands") if folder is None else folder
    if (place / ARCHIVE.name).is_file():
        return []
    absent = [place / name for name in (_VALIDATION, _TESTING) if not (place / name).is_file()]
    absent += [place / word for word in WORDS if not (place / word).is_dir()]
    return [f"{path}: missing Speech Commands file (nor is {ARCHIVE.name} there)" for path in absent]


def load_speech_commands(folder: Path | None = None, *, download: bool = False) -> Dataset:
    """The recordings of the ten digits' words; the test part is the official testing list.

    The training part is what is in neither list; the validation list's recordings are left out. Recordings
    come in the order of their names. Pictures (see `log_mel`) have mean 0 and deviation 1 over the training
    part. ConfigError lists missing files; DataError names a recording, or a list and its line.
    """
    place = default_folder("speechcommands") if folder is None else folder
    problems = missing(place)
    if problems and not download:
        raise ConfigError(problems)
    if problems:
        fetch(ARCHIVE, place)
    # Unpacked files go before the archive: reading 2.4 GB of it takes a minute every time.
    loose = all((place / name).exists() for name in (_VALIDATION, _TESTING, *WORDS))
    files = _loose(place) if loose else _packed(place / ARCHIVE.name)
    where = f"{place}/" if loose else f"{place / ARCHIVE.name}: "
    lists: dict[str, list[str]] = {}
    pictures: dict[str, Images] = {}
    waiting: dict[str, Sounds] = {}
    for name, content in files:
        if name in (_VALIDATION, _TESTING):
            lists[name] = content.decode("utf-8", "replace").splitlines()
        else:
            waiting[name] = sound_of(content, f"{where}{name}")
            if len(waiting) == _AT_ONCE:
                pictures |= _drawn(waiting)
                waiting.clear()
    pictures |= _drawn(waiting)
    return _split(pictures, lists, where)


def sound_of(content: bytes, name: str) -> Sounds:
    """One wav file's samples, float32 (16000,) in -1..1, silence behind a shorter one. DataError if unfit."""
    try:
        with wave.open(io.BytesIO(content)) as file:
            form = (file.getnchannels(), file.getsampwidth(), file.getframerate())
            if form != (1, 2, RATE_HZ):
                raise DataError(
                    f"{name}: {form[0]} channels of {8 * form[1]} bits at {form[2]} Hz, "
                    f"expected 1 of 16 bits at {RATE_HZ} Hz"
                )
            promised = file.getnframes()
            if promised > SAMPLES:
                raise DataError(f"{name}: {promised} samples, expected {SAMPLES} at most")
            data = file.readframes(promised)
    except DataError:
        raise
    # Besides wave.Error and EOFError: a chunk whose size leads out of the file makes wave raise RuntimeError.
    except Exception as error:
        raise DataError(f"{name}: not a wav file ({str(error) or 'it ends early'})") from None
    if len(data) != 2 * promised or not promised:
        raise DataError(f"{name}: truncated: {len(data)} of {2 * promised} bytes of sound")
    sound = np.zeros(SAMPLES, dtype=np.float32)
    sound[:promised] = np.frombuffer(data, dtype="<i2") / np.float32(32768.0)
    return sound


def _drawn(waiting: dict[str, Sounds]) -> dict[str, Images]:
    if not waiting:
        return {}
    return dict(zip(waiting, log_mel(np.stack(list(waiting.values()))), strict=True))


def _split(pictures: dict[str, Images], lists: dict[str, list[str]], where: str) -> Dataset:
    for name in (_VALIDATION, _TESTING):
        if name not in lists:
            raise DataError(f"{where}{name}: missing")
        for line, path in enumerate(lists[name], start=1):
            if path.split("/")[0] in WORDS and path not in pictures:
                raise DataError(f"{where}{name}, line {line}: {path[:80]!r} is not there")
    tested, held_back = set(lists[_TESTING]), set(lists[_VALIDATION])
    test = sorted(tested & pictures.keys())
    train = sorted(pictures.keys() - tested - held_back)
    for part, names in (("training", train), ("test", test)):
        if not names:
            raise DataError(f"{where}{_TESTING}: leaves no recording for the {part} part")
    train_images, test_images = (np.stack([pictures[name] for name in names]) for names in (train, test))
    mean, deviation = np.mean(train_images, dtype=np.float64), np.std(train_images, dtype=np.float64)
    scale = deviation if deviation > 1e-9 else 1.0
    return Dataset(
        ((train_images - mean) / scale).astype(np.float32)[:, None],
        _labels(train),
        ((test_images - mean) / scale).astype(np.float32)[:, None],
        _labels(test),
        classes=len(WORDS),
    )


def _labels(names: list[str]) -> Labels:
    return np.array([WORDS.index(name.split("/")[0]) for name in names], dtype=np.int64)


def _loose(place: Path) -> Iterator[tuple[str, bytes]]:
    for name in (_VALIDATION, _TESTING):
        yield name, read_file(place / name, _LIMITS.member_bytes)
    for word in WORDS:
        for path in sorted((place / word).glob("*.wav")):
            yield f"{word}/{path.name}", read_file(path, _LIMITS.member_bytes)


def _packed(archive: Path) -> Iterator[tuple[str, bytes]]:
    def wanted(name: str) -> bool:
        folder, _, file = name.partition("/")
        return name in (_VALIDATION, _TESTING) or (folder in WORDS and file.endswith(".wav"))

    return read_members(archive, str(archive), wanted, _LIMITS)


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
