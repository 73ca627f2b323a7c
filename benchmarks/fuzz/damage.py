"""Bytes that are not as they were: as disks, transfers, editors and attackers change them.

Every change is a function of the bytes and a generator, so that a case is made again from its seed and number. Memory:
a few copies of the file.
"""

import re
from collections.abc import Callable

from numpy.random import Generator

NUMBER = re.compile(rb"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")
NUMBERS = (b"-1", b"0", b"1", b"1e999", b"-0.0", b"NaN", b"Infinity", b"2.5", b"1e18", b"9" * 19, b"9" * 5000)
WORDS = (
    *(b"null", b"true", b"[]", b"{}", b'""', b"~", b"\0", b"\xff\xfe", b"\xed\xa0\x80", b"\xe2\x80\xa8", b"../", b"\r"),
    *(b"[" * 5000, b"{" * 5000, b"- " * 5000, b"? " * 2000, b'{"a":' * 3000, b"&a [*a]", b"1: 2\n", b"? [1, 2]\n: 3\n"),
    *(b"!!python/object/apply:os.system [true]", b"0x" + b"f" * 5000, b"\xef\xbb\xbf", b"(((((((((", b'"', b"'", b","),
)
EXTREMES = (b"\0" * 4, b"\xff" * 4, b"\xff\xff\xff\x7f", b"\0\0\0\x80", b"\xff" * 8, b"\0" * 7 + b"\x80", b"\x01\0\0\0")
LONGEST = 400  # bytes of a piece that is moved or lost

Change = Callable[[bytes, Generator], bytes]


def damage(stored: bytes, random: Generator) -> bytes:
    """Return other bytes than these: one to three changes, one after another."""
    while True:
        changed = stored
        for _ in range(int(random.choice((1, 1, 1, 2, 3)))):
            changed = CHANGES[int(random.integers(len(CHANGES)))](changed, random)
        if changed != stored:
            return changed


def place(stored: bytes, random: Generator) -> int:
    """Return a place in the bytes; the beginning more often than the rest, since headers stand there."""
    most = len(stored) if random.random() < 0.6 else min(len(stored), 512)
    return int(random.integers(most + 1))


def piece(stored: bytes, random: Generator) -> tuple[int, int]:
    """Return where a piece begins and ends."""
    start = place(stored, random)
    return start, min(start + int(random.integers(1, LONGEST)), len(stored))


def flip_bit(stored: bytes, random: Generator) -> bytes:
    """Turn one bit around."""
    return set_byte(stored, random, lambda before: before ^ 1 << int(random.integers(8)))


def set_byte(stored: bytes, random: Generator, change: Callable[[int], int] | None = None) -> bytes:
    """Put another byte in the place of one."""
    where = place(stored, random)
    if where == len(stored):
        return stored + bytes([int(random.integers(256))])
    after = int(random.integers(256)) if change is None else change(stored[where])
    return stored[:where] + bytes([after]) + stored[where + 1 :]


def cut_short(stored: bytes, random: Generator) -> bytes:
    """Leave out the end."""
    return stored[: place(stored, random)]


def append(stored: bytes, random: Generator) -> bytes:
    """Add bytes at the end: noise, zeros, or the beginning again."""
    more = (random.bytes(50), b"\0" * 600, stored[:LONGEST], b"\n")
    return stored + more[int(random.integers(len(more)))]


def lose(stored: bytes, random: Generator) -> bytes:
    """Leave out a piece."""
    start, end = piece(stored, random)
    return stored[:start] + stored[end:]


def repeat(stored: bytes, random: Generator) -> bytes:
    """Write a piece twice."""
    start, end = piece(stored, random)
    return stored[:end] + stored[start:]


def overwrite(stored: bytes, random: Generator) -> bytes:
    """Put noise, or zeros, in the place of a piece."""
    start, end = piece(stored, random)
    return stored[:start] + (random.bytes(end - start) if random.random() < 0.5 else bytes(end - start)) + stored[end:]


def exchange(stored: bytes, random: Generator) -> bytes:
    """Let two pieces change places."""
    (a, b), (c, d) = sorted((piece(stored, random), piece(stored, random)))
    return stored if b > c else stored[:a] + stored[c:d] + stored[b:c] + stored[a:b] + stored[d:]


def set_number(stored: bytes, random: Generator) -> bytes:
    """Write an extreme number in the place of one that is text."""
    numbers = list(NUMBER.finditer(stored, 0, min(len(stored), 100_000)))
    if not numbers:
        return set_extreme(stored, random)
    where = numbers[int(random.integers(len(numbers)))]
    return stored[: where.start()] + NUMBERS[int(random.integers(len(NUMBERS)))] + stored[where.end() :]


def set_extreme(stored: bytes, random: Generator) -> bytes:
    """Write an extreme number in the place of four or eight bytes."""
    where, number = place(stored, random), EXTREMES[int(random.integers(len(EXTREMES)))]
    return stored[:where] + number + stored[where + len(number) :]


def put_in(stored: bytes, random: Generator) -> bytes:
    """Write a word that means something to a reader."""
    where = place(stored, random)
    return stored[:where] + WORDS[int(random.integers(len(WORDS)))] + stored[where:]


def move_lines(stored: bytes, random: Generator) -> bytes:
    """Lose a line, write one twice, or let two change places."""
    lines = stored.splitlines(keepends=True)
    if len(lines) < 2:
        return lose(stored, random)
    one, other = (int(random.integers(len(lines))) for _ in range(2))
    kind = int(random.integers(3))
    if kind == 0:
        del lines[one]
    elif kind == 1:
        lines.insert(other, lines[one])
    else:
        lines[one], lines[other] = lines[other], lines[one]
    return b"".join(lines)


CHANGES: tuple[Change, ...] = (
    *(flip_bit, set_byte, cut_short, append, lose, repeat, overwrite, exchange),
    *(set_number, set_extreme, put_in, move_lines),
)
