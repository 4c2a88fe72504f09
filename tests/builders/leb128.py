"""LEB128 numbers (DWARF 5, 7.6), also longer than they need to be."""


def uleb(value: int, padding: int = 0) -> bytes:
    """Unsigned; ``padding`` bytes more than necessary, which every reader must accept."""
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return _padded(out, padding, 0)


def sleb(value: int, padding: int = 0) -> bytes:
    """Signed; padded with its sign."""
    negative = value < 0
    out = bytearray()
    while not -0x40 <= value < 0x40:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value & 0x7F)
    return _padded(out, padding, 0x7F if negative else 0)


def _padded(out: bytearray, padding: int, filler: int) -> bytes:
    for _ in range(padding):
        out[-1] |= 0x80
        out.append(filler)
    return bytes(out)
