from __future__ import annotations

import io
import tarfile
import wave
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roambench.contract.errors import ConfigError, DataError
from roambench.extras.datasets.pictures import log_mel, mel_filters, sound_of
from roambench.extras.datasets.speech_commands import WORDS
from roambench.learning.datasets.catalogue import load_dataset


def wav(samples: np.ndarray, rate: int = 16_000, channels: int = 1, width: int = 2) -> bytes:
    out = io.BytesIO()
    with wave.open(out, "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(width)
        file.setframerate(rate)
        file.writeframes(samples.astype("<i2").tobytes())
    return out.getvalue()


def tone(frequency_hz: float, samples: int = 16_000) -> np.ndarray:
    return np.rint(16384 * np.sin(2 * np.pi * frequency_hz * np.arange(samples) / 16_000))


FILES = {
    **{f"{word}/a_nohash_0.wav": wav(tone(300 + 100 * index)) for index, word in enumerate(WORDS)},
    "zero/b_nohash_0.wav": wav(tone(2000, 8_000)),
    "seven/c_nohash_1.wav": wav(tone(700)),
    "six/held.wav": wav(tone(900)),
    "validation_list.txt": b"six/held.wav\nbed/other.wav\n",
    "testing_list.txt": b"zero/b_nohash_0.wav\nseven/c_nohash_1.wav\nhappy/unused.wav\n",
    "happy/unused.wav": b"not read, so it may be anything",
    "_background_noise_/README.md": b"",
}


def write(folder: Path, files: dict[str, bytes]) -> None:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


def pack(folder: Path, files: dict[str, bytes]) -> None:
    with tarfile.open(folder / "speech_commands_v0.02.tar.gz", "w:gz") as archive:
        for name, content in reversed(files.items()):  # the lists may come first or last
            member = tarfile.TarInfo(f"./{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))


@pytest.fixture(params=["unpacked", "packed"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    (pack if request.param == "packed" else write)(tmp_path, FILES)
    return tmp_path


def test_the_official_lists_split_the_ten_words_and_leave_the_validation_part_out(folder: Path):
    data = load_dataset("speechcommands", folder)
    # In the order of names: eight, five, four, nine, one, seven, six, three, two, zero.
    assert data.train_labels.tolist() == [8, 5, 4, 9, 1, 7, 6, 3, 2, 0]
    assert data.test_labels.tolist() == [7, 0]
    assert (data.train_images.shape, data.test_images.shape) == ((10, 1, 32, 32), (2, 1, 32, 32))
    assert data.train_images.dtype == np.float32
    assert data.classes == 10
    assert float(data.train_images.mean(dtype=np.float64)) == pytest.approx(0, abs=1e-5)
    assert float(data.train_images.std(dtype=np.float64)) == pytest.approx(1, abs=1e-5)
    # Sounds and scaling by hand: the test picture of "seven" at 700 Hz is the training one of "four".
    assert data.test_images[0].tolist() == data.train_images[2].tolist()


def test_a_tone_lights_its_mel_band_in_every_frame_and_silence_none():
    # 2595 log10(1 + f/700): 60 Hz is 92.6, 7600 Hz 2787.4; 33 steps of 81.66. 1000 Hz is 1000.0: 11.1 steps.
    picture = log_mel((tone(1000) / 32768).astype(np.float32)[None])[0]
    assert picture.shape == (32, 32)
    assert picture[:, 2:30].argmax(axis=0).tolist() == [10] * 28
    silence = log_mel(np.zeros((1, 16_000), dtype=np.float32))[0]
    assert silence == pytest.approx(np.full((32, 32), np.log(1e-6)))


def test_the_power_of_a_tone_is_what_a_hann_window_gives():
    # 1000 Hz is bin 64 of 1,024. Amplitude .5, window sum 512: |X| = .5/2 * 512 = 128, its neighbours half.
    picture = log_mel((0.5 * np.sin(2 * np.pi * 1000 * np.arange(16_000) / 16_000)).astype(np.float32)[None])
    filters = mel_filters()[10]
    expected = np.log(filters[64] * 128**2 + (filters[63] + filters[65]) * 64**2 + 1e-6)
    assert picture[0, 10, 16] == pytest.approx(expected, rel=1e-5)


def test_a_click_is_seen_in_the_frames_whose_windows_hold_it():
    sound = np.zeros((1, 16_000), dtype=np.float32)
    sound[0, 500 * 7 + 250] = 1.0  # the middle of frame 7; the windows of 6 and 8 hold it off their middle
    power = log_mel(sound)[0].max(axis=0)
    assert power.argmax() == 7
    assert np.flatnonzero(power > np.log(1e-6) + 0.01).tolist() == [6, 7, 8]


def test_the_mel_bands_are_triangles_of_height_1_side_by_side():
    filters = mel_filters()
    assert filters.shape == (32, 513)
    assert filters.min() == 0.0
    assert 0.6 < filters.max() <= 1.0
    inner = filters[:, 10:450].sum(axis=0)  # 156 to 7,016 Hz: neighbours' slopes add up to 1
    assert inner == pytest.approx(np.ones(440))
    assert not filters[:, :4].any()  # nothing below 60 Hz
    assert not filters[:, 487:].any()  # nor above 7,600 Hz


def test_a_short_recording_is_followed_by_silence():
    sound = sound_of(wav(np.array([16384, -32768])), "x")
    assert sound.shape == (16_000,)
    assert sound[:3].tolist() == [0.5, -1.0, 0.0]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (wav(tone(500), rate=8_000), "1 channels of 16 bits at 8000 Hz, expected 1 of 16 bits at 16000 Hz"),
        (wav(tone(500), channels=2), "2 channels of 16 bits"),
        (wav(tone(500), width=1), "1 channels of 8 bits"),
        (wav(tone(500, 16_001)), "16001 samples, expected 16000 at most"),
        (wav(tone(500))[:-2], r"truncated: 31998 of 32000 bytes of sound"),
        (wav(tone(500, 0)), "holds no samples"),
        (
            wav(tone(500)).replace(b"fmt \x10\0\0\0\1", b"fmt \x10\0\0\0\3"),
            "expected 16-bit PCM, found float",
        ),
        (
            wav(tone(500)).replace(b"fmt \x10\0\0\0\1", b"fmt \x10\0\0\0\7"),
            "expected 16-bit PCM, found mu-law",
        ),
        (
            wav(tone(500)).replace(b"fmt \x10\0\0\0\1", b"fmt \x10\0\0\0\x55"),
            "expected 16-bit PCM, found unknown format: 85",
        ),
        (wav(tone(500))[:30], "not a wav file"),
        (b"", "not a wav file"),
        (b"RIFF\xff\xff\xff\xffWAVEjunk", "not a wav file"),
        (b"ID3", "not a wav file"),
    ],
)
def test_an_unfit_recording_is_named(folder: Path, tmp_path: Path, content: bytes, message: str):
    broken = FILES | {"five/a_nohash_0.wav": content}
    packed = (folder / "speech_commands_v0.02.tar.gz").exists()
    (pack if packed else write)(folder, broken)
    with pytest.raises(DataError, match=rf"five/a_nohash_0\.wav: {message}"):
        load_dataset("speechcommands", folder)


@given(st.binary(max_size=80), st.integers(0, 60))
def test_no_bytes_raise_anything_but_a_data_error(content: bytes, kept: int):
    for candidate in (content, wav(tone(100, 4))[:kept] + content):
        try:
            sound_of(candidate, "fuzz")
        except DataError:
            continue


def test_a_list_that_names_a_recording_that_is_not_there_is_named_with_its_line(folder: Path):
    broken = FILES | {"testing_list.txt": b"seven/c_nohash_1.wav\nzero/../../../etc/passwd\n"}
    packed = (folder / "speech_commands_v0.02.tar.gz").exists()
    (pack if packed else write)(folder, broken)
    with pytest.raises(DataError, match=r"testing_list\.txt, line 2: 'zero/\.\./\.\./.*' is not there"):
        load_dataset("speechcommands", folder)


@pytest.mark.parametrize(
    ("listed", "part"), [(b"", "test"), (b"".join(f"{n}\n".encode() for n in FILES), "training")]
)
def test_a_list_that_leaves_no_recording_for_a_part_is_named(tmp_path: Path, listed: bytes, part: str):
    write(tmp_path, FILES | {"testing_list.txt": listed})
    with pytest.raises(DataError, match=rf"testing_list\.txt: leaves no recording for the {part} part"):
        load_dataset("speechcommands", tmp_path)


def test_an_archive_without_a_list_is_named(tmp_path: Path):
    pack(tmp_path, {name: content for name, content in FILES.items() if name != "validation_list.txt"})
    with pytest.raises(DataError, match=r"v0\.02\.tar\.gz: validation_list\.txt: missing"):
        load_dataset("speechcommands", tmp_path)


def test_missing_lists_and_words_are_listed(tmp_path: Path):
    write(
        tmp_path, {name: content for name, content in FILES.items() if not name.startswith(("two/", "val"))}
    )
    with pytest.raises(ConfigError) as raised:
        load_dataset("speechcommands", tmp_path)
    where = "missing Speech Commands file (nor is speech_commands_v0.02.tar.gz there)"
    assert raised.value.problems == (
        f"{tmp_path}/validation_list.txt: {where}",
        f"{tmp_path}/two: {where}",
    )
