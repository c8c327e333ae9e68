"""Data for the examples of Model-References, in the formats that they read, made of random numbers.

Pictures and texts have a rule that a model learns within a few steps, so that a falling loss says
that training works.
"""

from __future__ import annotations

import json
import struct
from pathlib import Path

import h5py
import numpy as np
from PIL import Image

WORDS = 200
_SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
# Training samples of BERT, tokens in each, and masked ones among them.
_SAMPLES, _LENGTH, _MASKED = 64, 32, 5


def mnist(folder: Path) -> None:
    """The four files of MNIST: 1280 and 1000 images with a bar at a height for each digit."""
    random = np.random.default_rng(0)
    folder.mkdir(parents=True)
    for kind, count in (("train", 1280), ("t10k", 1000)):
        digits = random.integers(0, 10, count, dtype=np.uint8)
        images = random.integers(0, 40, (count, 28, 28), dtype=np.uint8)
        for image, digit in zip(images, digits, strict=True):
            image[2 + 2 * digit : 5 + 2 * digit, 4:24] += 200
        for name, array in (("images-idx3", images), ("labels-idx1", digits)):
            # The magic number's last byte is the number of dimensions.
            head = struct.pack(f">I{array.ndim}I", 0x800 + array.ndim, *array.shape)
            (folder / f"{kind}-{name}-ubyte").write_bytes(head + array.tobytes())


def photographs(folder: Path) -> None:
    """ImageFolders train (35 images) and val (19) of a red and a green class, and of three classes
    with one blue image each, because an example looks at the five most likely classes."""
    random = np.random.default_rng(0)
    for part, count in (("train", 16), ("val", 8)):
        for kind, images in enumerate((count, count, 1, 1, 1)):
            target = folder / part / f"class{kind}"
            target.mkdir(parents=True)
            for i in range(images):
                pixels = random.integers(0, 60, (40, 40, 3), dtype=np.uint8)
                pixels[..., min(kind, 2)] *= 4
                Image.fromarray(pixels).resize((320, 280)).save(target / f"{i}.jpg")


def bert_files(folder: Path) -> None:
    """bert_config.json and vocab.txt of a small BERT."""
    words = [*_SPECIAL, *(f"w{i}" for i in range(WORDS - len(_SPECIAL)))]
    (folder / "vocab.txt").write_text("\n".join(words) + "\n", encoding="utf-8")
    config = {
        "attention_probs_dropout_prob": 0.1,
        "hidden_act": "gelu",
        "hidden_dropout_prob": 0.1,
        "hidden_size": 64,
        "initializer_range": 0.02,
        "intermediate_size": 128,
        "max_position_embeddings": 512,
        "num_attention_heads": 4,
        "num_hidden_layers": 2,
        "type_vocab_size": 2,
        "vocab_size": WORDS,
    }
    (folder / "bert_config.json").write_text(json.dumps(config), encoding="utf-8")


def pretraining(folder: Path) -> None:
    """HDF5 files for BERT's pretraining: `plain` with a sequence for each sample, `packed` with
    three, and the file beside `packed` that says how many."""
    random = np.random.default_rng(0)
    ids = random.integers(len(_SPECIAL), WORDS, (_SAMPLES, _LENGTH))
    places = np.stack(
        [
            np.sort(random.choice(np.arange(1, _LENGTH), _MASKED, replace=False))
            for _ in range(_SAMPLES)
        ]
    )
    lengths = (12, 10, 10)
    sequence = np.repeat(np.arange(1, 4), lengths)
    positions = np.concatenate([np.arange(n) for n in lengths])
    starts = np.array([0, 12, 22])
    common = {
        "input_ids": ids,
        "segment_ids": np.zeros_like(ids),
        "masked_lm_positions": places,
        "masked_lm_ids": np.take_along_axis(ids, places, 1),
    }
    plain = {
        "input_mask": np.ones_like(ids),
        "next_sentence_labels": random.integers(0, 2, _SAMPLES),
    }
    packed = {
        "input_mask": np.tile(sequence, (_SAMPLES, 1)),
        "positions": np.tile(positions, (_SAMPLES, 1)),
        "next_sentence_positions": np.tile(starts, (_SAMPLES, 1)),
        "next_sentence_labels": random.integers(0, 2, (_SAMPLES, 3)),
        "next_sentence_weights": np.ones((_SAMPLES, 3)),
    }
    for name, more in (("plain", plain), ("packed", packed)):
        (folder / name).mkdir()
        # The example reads one file ahead and never begins to train if there is only one.
        for number in range(2):
            with h5py.File(folder / name / f"training_{number}.hdf5", "w") as file:
                for key, array in {**common, **more}.items():
                    file[key] = array.astype(np.int32)
    (folder / "packed_metadata.json").write_text('{"avg_seq_per_sample": 3.0}', encoding="utf-8")


def questions(path: Path) -> None:
    """Eight questions in SQuAD's format, whose answers are the sixth and seventh word."""
    random = np.random.default_rng(0)

    def text(count: int) -> str:
        return " ".join(f"w{i}" for i in random.integers(0, WORDS - len(_SPECIAL), count))

    paragraphs = []
    for number in range(8):
        context = text(40)
        answer = " ".join(context.split()[5:7])
        answers = [{"text": answer, "answer_start": context.index(answer)}]
        asked = [{"id": f"q{number}", "question": text(6), "answers": answers}]
        paragraphs.append({"context": context, "qas": asked})
    data = {"version": "1.1", "data": [{"title": "words", "paragraphs": paragraphs}]}
    path.write_text(json.dumps(data), encoding="utf-8")
