"""Compressed files: what is inside is opened within the limits, and damaged ones are named."""

from __future__ import annotations

import bz2
import gzip
import lzma
from pathlib import Path

import lz4.frame
import pytest
import zstandard

from symd.config import Limits
from symd.errors import LimitExceeded, Malformed, UnknownFormat, Unsupported
from symd.formats import budget, containers

CUBIN = (Path(__file__).parents[3] / "samples" / "cuda" / "bin" / "raycast.sm_90.lines.cubin").read_bytes()
METHODS = {
    "gzip": gzip.compress,
    "zstd": zstandard.compress,
    "xz": lzma.compress,
    "bzip2": bz2.compress,
    "lz4": lz4.frame.compress,
}
PROGRAMS = {"gzip": "gunzip", "zstd": "unzstd", "xz": "unxz", "bzip2": "bunzip2", "lz4": "unlz4"}
PACKED = gzip.compress(CUBIN)


@pytest.mark.parametrize("method", METHODS)
def test_what_is_inside_is_opened(method: str) -> None:
    opened = containers.unpack(METHODS[method](CUBIN))
    assert (opened.format, [code.path for code in opened.objects]) == (method, ["content"])
    assert opened.objects[0].data == CUBIN


def test_a_frame_of_zstd_that_does_not_say_how_large_it_is_is_opened() -> None:
    made = zstandard.ZstdCompressor(write_content_size=False, write_checksum=True).compressobj()
    assert containers.unpack(made.compress(CUBIN) + made.flush()).objects[0].data == CUBIN


@pytest.mark.parametrize("method", METHODS)
def test_a_tar_archive_inside_is_called_so(method: str) -> None:
    tar = b"kernel.cubin".ljust(257, b"\0") + b"ustar\x0000" + bytes(248)
    with pytest.raises(UnknownFormat, match=r"content: this is a tar archive \(unpack it first\)"):
        containers.unpack(METHODS[method](tar))


@pytest.mark.parametrize("method", METHODS)
def test_damaged_files_are_named(method: str) -> None:
    packed = METHODS[method](CUBIN)
    for size in (10, 40, len(packed) // 2, len(packed) - 1):
        with pytest.raises(Malformed, match=rf"{method}: was cut off: .* \(copy it again\)"):
            containers.unpack(packed[:size])
    with pytest.raises(Malformed, match=rf"{method}: is damaged: .+ \(copy it again\)"):
        containers.unpack(packed[:100] + b"\xff" * 50 + packed[150:])
    for behind in (packed, b"x", bytes(2000)):
        with pytest.raises(Malformed, match=rf"or more behind its end \(expand it with {PROGRAMS[method]} first\)"):
            containers.unpack(packed + behind)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (PACKED[:3], r"was cut off: it ends before what is inside does \(copy it again\)"),
        (PACKED[:-4] + (len(CUBIN) - 1).to_bytes(4, "little"), r"is damaged: incorrect length check \(copy"),
        (PACKED[:-4] + (len(CUBIN) + 1).to_bytes(4, "little"), r"is damaged: incorrect length check \(copy"),
        (PACKED[:-8] + bytes(4) + PACKED[-4:], r"is damaged: incorrect data check \(copy it again\)"),
    ],
)
def test_the_size_and_checksum_of_gzip_are_compared(data: bytes, said: str) -> None:
    with pytest.raises(Malformed, match=said):
        containers.unpack(data)


@pytest.mark.parametrize("method", METHODS)
def test_what_expands_too_far_is_refused(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    compress = METHODS[method]
    packed = compress(CUBIN)
    with pytest.raises(LimitExceeded) as caught:
        containers.unpack(packed, Limits(expansion=len(CUBIN) - 1))
    assert caught.value.metadata["limit"] == "expansion"
    monkeypatch.setattr(budget, "EXPANSION_RATIO", 50)
    with pytest.raises(LimitExceeded, match="50 bytes for each byte of the file"):
        containers.unpack(compress(bytes(1 << 25)))


def test_what_demands_much_memory_is_refused() -> None:
    window = zstandard.ZstdCompressionParameters(window_log=28, enable_ldm=True, write_content_size=0)
    made = zstandard.ZstdCompressor(compression_params=window).compressobj()
    dictionary = [{"id": lzma.FILTER_LZMA2, "preset": 0, "dict_size": 1 << 29}]
    for packed in (made.compress(CUBIN) + made.flush(), lzma.compress(CUBIN, filters=dictionary)):
        with pytest.raises(Unsupported, match=r"demands more memory than .* \(expand it with un(zstd|xz) first\)"):
            containers.unpack(packed)
