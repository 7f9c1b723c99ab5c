"""What Unix ``compress`` wrote (.Z), which Python's library does not unpack."""

from __future__ import annotations

from offpolicy.errors import DatasetError, Place

CLEAR = 256


def unpack(packed: bytes, name: str) -> bytes:
    """A data set's .Z file: codes of 9 to 16 bits, in groups of eight that begin at whole bytes.

    A group is cut short, and its rest skipped, when codes grow wider or the table is cleared.
    """
    if len(packed) < 3 or packed[:2] != b"\x1f\x9d":
        raise DatasetError("this is not a file of Unix compress (.Z).", name)
    widest, blocks = packed[2] & 31, bool(packed[2] & 128)
    if not 10 <= widest <= 16:
        raise DatasetError(f"codes of up to {widest} bits; 10 to 16 are read.", name)
    first = CLEAR + 1 if blocks else CLEAR
    table = [bytes([k]) for k in range(256)] + [b""] * (first - 256)
    out: list[bytes] = []
    width, group, bit, stop = 9, 24, 24, 8 * len(packed)
    before = b""
    while bit + width <= stop:
        byte = bit >> 3
        code = int.from_bytes(packed[byte : byte + 4], "little") >> (bit & 7) & ((1 << width) - 1)
        bit += width
        if blocks and code == CLEAR:
            del table[first:]
            bit = _next_group(group, bit, width)
            width, group, before = 9, bit, b""
            continue
        if code < len(table):
            entry = table[code]
        elif before and code == len(table) and len(table) < 1 << widest:
            entry = before + before[:1]
        else:
            raise DatasetError(f"damaged at byte {byte:,}.", Place(name, row=byte, unit="byte"))
        out.append(entry)
        if before and len(table) < 1 << widest:
            table.append(before + entry[:1])
            if len(table) == 1 << width and width < widest:
                bit = _next_group(group, bit, width)
                width, group = width + 1, bit
        before = entry
    return b"".join(out)


def _next_group(group: int, bit: int, width: int) -> int:
    """The bit of a data set's .Z file at which the next eight codes begin."""
    return group + -(-(bit - group) // (8 * width)) * 8 * width
