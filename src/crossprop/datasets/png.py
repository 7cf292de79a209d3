"""A reader of plain PNG images, for data sets that come as PNG files."""

import struct
import zlib
from collections.abc import Callable

import numpy as np

SIGNATURE = b"\x89PNG\r\n\x1a\n"
CHANNELS = 3


def read_png(content: bytes, width: int, height: int) -> np.ndarray:
    """The pixels `(height, width, 3)` of an image of this size with 8 bits per colour, no palette and no interlacing.

    A ValueError if it is anything else. No more memory is taken than such an image needs.
    """
    if not content.startswith(SIGNATURE):
        raise ValueError("it is no PNG image")
    data, at, header = [], len(SIGNATURE), b""
    while at + 8 <= len(content):
        size, kind = struct.unpack_from(">I4s", content, at)
        chunk = content[at + 8 : at + 8 + size]
        header = chunk if kind == b"IHDR" else header
        data += [chunk] if kind == b"IDAT" else []
        at += 12 + size
    if header != struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0):
        raise ValueError(f"it is no PNG image of {width} x {height} pixels with 8 bits per colour")
    row = 1 + width * CHANNELS
    raw = zlib.decompressobj().decompress(b"".join(data), row * height)
    if len(raw) != row * height:
        raise ValueError(f"it has {len(raw):,} bytes of pixels, and {row * height:,} are expected")
    rows = np.frombuffer(raw, np.uint8).reshape(height, row)
    return _unfiltered(rows[:, 0], rows[:, 1:]).reshape(height, width, CHANNELS)


def _unfiltered(filters: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Rows from their differences to the pixels to the left, above, or both."""
    pixels, above = np.empty_like(rows), np.zeros_like(rows[0])
    for number, (kind, row) in enumerate(zip(filters.tolist(), rows, strict=True)):
        match kind:
            case 0:
                pixels[number] = row
            case 1:
                pixels[number] = np.cumsum(row.reshape(-1, CHANNELS), axis=0, dtype=np.uint8).ravel()
            case 2:
                pixels[number] = row + above
            case 3 | 4:
                pixels[number] = _one_by_one(row.tolist(), above.tolist(), _mean if kind == 3 else _nearest)
            case _:
                raise ValueError(f"row {number} has the filter {kind}, which PNG does not have")
        above = pixels[number]
    return pixels


def _one_by_one(row: list[int], above: list[int], predict: Callable[[int, int, int], int]) -> list[int]:
    out: list[int] = []
    for at, difference in enumerate(row):
        left, corner = (out[at - CHANNELS], above[at - CHANNELS]) if at >= CHANNELS else (0, 0)
        out.append((difference + predict(left, above[at], corner)) % 256)
    return out


def _mean(left: int, up: int, corner: int) -> int:
    del corner
    return (left + up) // 2


def _nearest(left: int, up: int, corner: int) -> int:
    """Paeth's: the neighbour nearest to left + up - corner; of equal ones the first."""
    return min((left, up, corner), key=lambda value: abs(left + up - corner - value))
