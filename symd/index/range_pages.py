"""The ranges of a module as the pages that an index file has of them, made of those of its portions one after the other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from symd.index.compressed_columns import CompressedColumn, Keeper
from symd.index.format import Column, Compressor, narrow
from symd.index.locations import ModuleRanges
from symd.index.packing import PAGE_SHIFT, narrow_signed, widest
from symd.model.columns import I64

_PAGE = 1 << PAGE_SHIFT


class KeptRanges(NamedTuple):
    """The ranges of a portion. ``start`` are text positions. From each entry of ``run``, a range, to the next the frame is that of ``frame``; ``above``
    is how far a range's line is above its frame's (0: none)."""

    start: CompressedColumn
    run: CompressedColumn
    frame: CompressedColumn
    above: CompressedColumn
    column: CompressedColumn
    reason: CompressedColumn


def kept_ranges(found: ModuleRanges, keeper: Keeper) -> KeptRanges:
    base = found.frames.line.astype(np.uint32)[found.run_frame]
    above = found.line - np.repeat(base, np.diff(found.run, append=len(found.line)))
    above[found.line == 0] = 0
    return KeptRanges(
        keeper.keep_ascending(found.start),
        keeper.keep_ascending(found.run),
        keeper.keep(found.run_frame),
        keeper.keep(narrow(above)),
        keeper.keep(narrow(found.column)),
        keeper.keep(found.reason),
    )


class _Cut(NamedTuple):
    """A portion's ranges: ``run`` are those that begin a page or have another frame than the one before, ``steps`` how far that is from
    its (0 where a page begins)."""

    run: CompressedColumn
    steps: CompressedColumn
    planes: tuple[CompressedColumn, CompressedColumn, CompressedColumn]


def range_columns(
    portions: Iterable[KeptRanges], keeper: Keeper, compress: Compressor
) -> tuple[dict[str, Column], list[bytes]]:
    """The columns range_count and page_*, but for the last of these, page_data, which is in pieces: a page each."""
    found = _Ranges(portions, keeper)
    pages = [*found.packed(compress)]
    return {
        "range_count": narrow(np.array([found.count], np.uint64)),
        "page_width": np.array([dtype.itemsize for dtype in found.types[:3]], np.uint8),
        "page_frame": narrow(found.first_frames),
        "page_end": narrow(np.cumsum([len(page) for page in pages], dtype=np.uint64)),
    }, pages


class _Ranges:
    """``first_frames`` has the frame of the first range of each page, ``types`` are those of steps and of the planes: lines above the frames', columns
    and reasons."""

    def __init__(self, portions: Iterable[KeptRanges], keeper: Keeper) -> None:
        self._portions: list[_Cut] = []
        self.count, last, first_frames = 0, 0, [np.zeros(0, np.int64)]
        for each in portions:
            firsts = np.arange(-self.count % _PAGE, each.reason.entries, _PAGE)
            run, frame = _cut(each.run.values(), each.frame.values().astype(np.int64), firsts)
            steps, begins = np.diff(frame, prepend=np.int64(last)), np.searchsorted(run, firsts)
            first_frames.append(frame[begins])
            last = int(frame[-1]) if len(frame) else last
            steps[begins] = 0
            goes_on = len(run) > 0 and steps[0] == 0 and self.count % _PAGE > 0
            if goes_on:  # with the last portion's frame
                run, steps = run[1:], steps[1:]
            planes = each.above, each.column, each.reason
            self._portions.append(_Cut(keeper.keep_ascending(run), keeper.keep(narrow_signed(steps)), planes))
            self.count += each.reason.entries
        self.first_frames = np.concatenate(first_frames)
        kept = [(each.steps, *each.planes) for each in self._portions]
        self.types = [widest([one.dtype for one in column]) for column in zip(*kept, strict=True)]

    def packed(self, compress: Compressor) -> Iterator[bytes]:
        """Each page: a bit for each range with which another frame begins than the last one's, the differences of these frames, then the planes."""
        run, (steps, *planes) = np.zeros(0, np.int64), (np.zeros(0, dtype) for dtype in self.types)
        for each in self._portions:
            run = np.append(run, each.run.values() + len(planes[0]))
            steps = _longer(steps, each.steps)
            planes = [_longer(*pair) for pair in zip(planes, each.planes, strict=True)]
            whole = len(planes[0]) >> PAGE_SHIFT << PAGE_SHIFT
            if whole:
                stop = np.searchsorted(run, whole)
                yield from _packed(compress, run[:stop], steps[:stop], [plane[:whole] for plane in planes])
                run, steps, planes = run[stop:] - whole, steps[stop:], [plane[whole:] for plane in planes]
        if len(run):
            yield from _packed(compress, run, steps, planes)


def _longer(column: Column, more: CompressedColumn) -> Column:
    return np.concatenate([column, more.values()], dtype=column.dtype)


def _packed(compress: Compressor, run: I64, steps: Column, planes: Sequence[Column]) -> Iterator[bytes]:
    """Pages of ranges, the first of which begins a page."""
    count = len(planes[0])
    begins = np.zeros(count, np.bool_)
    begins[run] = True
    bits = np.packbits(begins, bitorder="little")
    stops = np.searchsorted(run, np.append(np.arange(0, count, _PAGE), count)).tolist()
    for page, (begin, stop) in enumerate(pairwise(stops)):
        first, last = page << PAGE_SHIFT, page + 1 << PAGE_SHIFT
        yield compress(bits[first >> 3 : last >> 3], steps[begin:stop], *(plane[first:last] for plane in planes))


def _cut(run: I64, frame: I64, firsts: I64) -> tuple[I64, I64]:
    """The runs, cut where pages begin."""
    at = np.searchsorted(run, firsts, side="right")
    new = run[at - 1] != firsts
    return np.insert(run, at[new], firsts[new]), np.insert(frame, at[new], frame[at[new] - 1])
