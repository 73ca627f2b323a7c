"""Which characters look alike: the highest correlation of two of them in one face, whatever their size and tilt.

Each character is drawn upright and at six tilts, filling a small square, once in its own shape and once stretched to
the square, and blurred a little. Two characters are twins if in any face one of them upright correlates with the
other at some tilt by more than TWINS. Of twins the one with the lower code point stays: A drops the Greek and the
Cyrillic one, C drops c, and 0 drops O and o.

All is done on whole numbers, below 2**53 in float64, so that no processor's order of sums can change the choice.
"""

import numpy as np

from tools.glyphs.outlines import Face, Outline
from tools.glyphs.raster import count_samples, place

SQUARE, MARGIN = 16, 1  # pixels
TILTS = (0, -30, -20, -10, 10, 20, 30)  # degrees; two glyphs of the dataset differ by up to 40
TWINS = 95  # percent of correlation


def without_twins(characters: list[str], faces: dict[str, Face]) -> list[str]:
    """Return characters, in their order, leaving out each that is a twin of one before it."""
    alike = np.zeros((len(characters), len(characters)), dtype=bool)
    for face in faces.values():
        present = [number for number, character in enumerate(characters) if ord(character) in face.names]
        outlines = [face.outline(characters[number]) for number in present]
        for stretch in (False, True):
            alike[np.ix_(present, present)] |= look_alike(templates(outlines, stretch))
    kept: list[int] = []
    for number in range(len(characters)):
        if not alike[number, kept].any():
            kept.append(number)
    return [characters[number] for number in kept]


def templates(outlines: list[Outline], stretch: bool) -> np.ndarray:
    """Return each character at each tilt as centered whole numbers, (characters, tilts, pixels)."""
    longest, middle = SQUARE - 2 * MARGIN, (0.5, 0.5)
    drawn = [
        [count_samples(place(outline, tilt, longest, SQUARE, middle, stretch=stretch), SQUARE) for tilt in TILTS]
        for outline in outlines
    ]
    blurred = blur(np.array(drawn, dtype=np.int64)).reshape(len(outlines), len(TILTS), -1)
    return blurred * blurred.shape[-1] - blurred.sum(axis=-1, keepdims=True)


def blur(images: np.ndarray) -> np.ndarray:
    """Return images smoothed by (1, 2, 1) along both of their last axes."""
    padded = np.pad(images, [(0, 0)] * (images.ndim - 2) + [(1, 1), (1, 1)])
    rows = padded[..., :-2, :] + 2 * padded[..., 1:-1, :] + padded[..., 2:, :]
    return rows[..., :-2] + 2 * rows[..., 1:-1] + rows[..., 2:]


def look_alike(centered: np.ndarray) -> np.ndarray:
    """Return which characters of one face are twins, (characters, characters) bool."""
    values = centered.astype(np.float64)
    lengths = (values**2).sum(axis=-1)  # (characters, tilts)
    alike = np.zeros((len(values), len(values)), dtype=bool)
    for tilt in range(values.shape[1]):
        dots = np.maximum(values[:, 0] @ values[:, tilt].T, 0)
        alike |= dots * dots * 100**2 > TWINS**2 * lengths[:, :1] * lengths[:, tilt]
    return alike | alike.T
