"""The texts of many tables of locations, each once, with a hash that is the same everywhere."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from hashlib import blake2b

import numpy as np

from symd.index.format import Strings
from symd.model.columns import U32, U64

_ROOM = 1024


class InternedTexts:
    """Texts by number; number 0 is "", which stands for none. Not safe to use from several threads at once."""

    def __init__(self) -> None:
        self.texts: list[str] = [""]
        self._numbers: dict[str, int] = {"": 0}
        self._hashes = np.zeros(_ROOM, np.uint64)
        self._tables: dict[int, tuple[weakref.ref[Sequence[str]], U32]] = {}

    @property
    def hashes(self) -> U64:
        """The hash of each text; 0 for "" alone."""
        return self._hashes[: len(self.texts)]

    def number(self, text: str) -> int:
        """The number of one text."""
        found = self._numbers.get(text)
        if found is None:
            found = self._numbers[text] = len(self.texts)
            self.texts.append(text)
            if found == len(self._hashes):
                self._hashes = np.concatenate([self._hashes, np.zeros(found, np.uint64)])
            self._hashes[found] = _hash(text)
        return found

    def numbers(self, strings: Sequence[str], wanted: U32) -> U32:
        """The number of each of the strings that ``wanted`` counts, in which string 0 is none. What is found out about the strings of an
        index, which many tables share, is remembered as long as they are there."""
        known = self._known(strings)
        found = known[wanted]
        missing = np.unique(wanted[(found == 0) & (wanted != 0)])
        if len(missing):
            known[missing] = [self.number(strings[number]) for number in missing.tolist()]
            found = known[wanted]
        return found

    def _known(self, strings: Sequence[str]) -> U32:
        """For each of the strings its number, 0 where it is not known yet."""
        key = id(strings)
        kept = self._tables.get(key)
        if kept is not None and kept[0]() is strings:
            return kept[1]
        known = np.zeros(len(strings), np.uint32)
        if isinstance(strings, Strings):
            self._tables[key] = weakref.ref(strings, lambda _: self._tables.pop(key, None)), known
        return known


def _hash(text: str) -> int:
    digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little") or 1
