"""Writes the folders beside it: `pip install datasets==4.* pillow scikit-learn`, then `python write.py`.

Run by hand, in an environment of its own: roambench reads what `datasets` writes and does not need it. Digits
are UCI's, as scikit-learn ships them; sounds and texts are made here.
"""

import io
import wave
from pathlib import Path

import numpy as np
from datasets import Audio, ClassLabel, Dataset, DatasetDict, Features, Image, Value
from PIL import Image as Picture
from sklearn.datasets import load_digits

HERE = Path(__file__).parent


def png(pixels):
    """A digit as a PNG of 8x8 grey pixels."""
    kept = io.BytesIO()
    Picture.fromarray((pixels * 255 / 16).astype(np.uint8)).save(kept, "png")
    return {"bytes": kept.getvalue(), "path": None}


def wav(hertz, seconds=0.05):
    """A tone."""
    kept = io.BytesIO()
    with wave.open(kept, "wb") as file:
        file.setparams((1, 2, 16_000, 0, "NONE", ""))
        tone = np.sin(2 * np.pi * hertz * np.arange(round(16_000 * seconds)) / 16_000)
        file.writeframes((20_000 * tone).astype("<i2").tobytes())
    return {"bytes": kept.getvalue(), "path": None}


def save(name, feature, rows, names):
    """`rows`: (input, class); every fifth is a test row."""
    # What encodes sounds needs torchcodec; a column of bytes that is then called one does not.
    stored = (
        {"bytes": Value("binary"), "path": Value("string")} if isinstance(feature[1], Audio) else feature[1]
    )
    features = Features({"id": Value("int64"), feature[0]: stored, "label": ClassLabel(names=names)})
    parts = {"train": [row for i, row in enumerate(rows) if i % 5], "test": rows[::5]}
    DatasetDict(
        {
            part: Dataset.from_dict(
                {
                    "id": list(range(len(some))),
                    feature[0]: [given for given, _ in some],
                    "label": [label for _, label in some],
                },
                features=features,
            ).cast_column(*feature)
            for part, some in parts.items()
        }
    ).save_to_disk(HERE / name)


digits = load_digits()
save(
    "images",
    ("img", Image()),
    [(png(digits.images[i]), int(digits.target[i])) for i in range(100)],
    [str(n) for n in range(10)],
)
save("sounds", ("audio", Audio()), [(wav(300 + 900 * (i % 2)), i % 2) for i in range(15)], ["low", "high"])
save(
    "texts",
    ("text", Value("string")),
    [(("müde", "fresh")[i % 2], i % 2) for i in range(15)],
    ["sad", "glad"],
)
