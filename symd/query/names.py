"""Functions, kernels and source files by name: the whole name, its beginning, or a pattern with wildcards (``*``,
``?``, ``[abc]``, ``[a-c]``, ``[!abc]``); functions also by their linkage names, and as people write those.

A pattern is a regular expression whose stars never give back what they took (``fnmatch`` translates it so): matching
takes at most the characters of the name times those of the pattern, both of which are bounded.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from fnmatch import translate
from functools import cached_property
from typing import Any, overload

import numpy as np

from symd.errors import BadQuery, ObjectNotFound
from symd.index import Index
from symd.model.cancellation import check_cancelled
from symd.model.names import Match, NamedItem, NameKind, NameQuery
from symd.query.function_names import Compared, in_small_letters
from symd.query.function_spellings import compact, spellings, stands_in_no_name, taken_apart
from symd.query.source_files import ends_with, normal

MAX_PATTERN = 1000
"""Characters of a pattern."""
MAX_MATCHED = 10_000
"""Characters of a name that a pattern with wildcards is held against: no compiler writes longer ones."""


def find_names(index: Index, wanted: NameQuery, path: str | None = None) -> Sequence[NamedItem]:
    """Kernels, then functions, then files, each by code objects in the order of the module. In one object functions
    with code of their own come first, in the order of its debug data and then of its symbols; those that only stand
    inlined and files come by name: numbers of strings, by which an index has these, depend on what other objects say. A
    function that is a kernel is given as one.

    ``path`` restricts to one code object. The entries are made when they are looked at. Raises ``BadQuery`` for a
    pattern that is empty or too long, ``ObjectNotFound`` for a path that is none.
    """
    if not wanted.pattern or len(wanted.pattern) > MAX_PATTERN:
        raise BadQuery(f"a pattern has 1 to {MAX_PATTERN} characters", hint="look for * to see all names")
    if path is not None and path not in index.objects:
        raise ObjectNotFound.at(path, index.objects)
    search = _Search(index, wanted, path)
    return _Found(index, [entry for kind in NameKind for entry in search.entries(kind)])


_Entry = tuple[NameKind, int, int]
"""Kind, number of the code object, row in the kind's table."""


class _Found(Sequence[NamedItem]):
    def __init__(self, index: Index, entries: Sequence[_Entry]) -> None:
        self._index = index
        self._entries = entries

    def __len__(self) -> int:
        return len(self._entries)

    @overload
    def __getitem__(self, at: int) -> NamedItem: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[NamedItem]: ...
    def __getitem__(self, at: int | slice) -> NamedItem | Sequence[NamedItem]:
        if isinstance(at, slice):
            return _Found(self._index, self._entries[at])
        kind, number, row = self._entries[at]
        return _MAKERS[kind](self._index, number, row)


class _Search:
    def __init__(self, index: Index, wanted: NameQuery, path: str | None) -> None:
        self.index = index
        self.kinds = wanted.kinds or frozenset(NameKind)
        self.fits = _matcher(index, wanted)
        self.fits_file = _file_matcher(wanted)
        self.objects = index.reported_objects(path)

    def entries(self, kind: NameKind) -> Iterator[_Entry]:
        if kind in self.kinds:
            yield from {
                NameKind.KERNEL: self._kernels,
                NameKind.FUNCTION: self._functions,
                NameKind.FILE: self._files,
            }[kind]()

    def _kernels(self) -> Iterator[_Entry]:
        for number in self.objects:
            for row, kernel in enumerate(self.index.summary.objects[number].kernels):
                own = self._debug_names.get((number, kernel.section_index, kernel.offset), "")
                if self.fits(kernel.name, own):
                    yield NameKind.KERNEL, number, row

    @cached_property
    def _debug_names(self) -> dict[tuple[int, int, int], str]:
        """What the debug data calls kernels, by the code object, the section and the offset where they begin."""
        functions, strings = self.index.functions, self.index.strings
        rows = np.flatnonzero(_is_kernel(self.index) & (functions.name > 0))
        columns = functions.object[rows], functions.section[rows], functions.offset[rows], functions.name[rows]
        texts = strings.by_number(functions.name[rows].tolist())
        return {
            (number, self.index.sections[section - 1].section_index, offset): texts[name]
            for number, section, offset, name in zip(*(column.tolist() for column in columns), strict=True)
        }

    def _functions(self) -> Iterator[_Entry]:
        functions = self.index.functions
        own = np.isin(functions.object, self.objects)
        if NameKind.KERNEL in self.kinds:
            own &= ~_is_kernel(self.index)
        rows = np.flatnonzero(own)
        pairs = np.stack([functions.name[rows], functions.linkage_name[rows]], axis=1)
        distinct, which = np.unique(pairs, axis=0, return_inverse=True)
        strings = self.index.strings
        fit = np.array([self.fits(strings[name], strings[linkage]) for name, linkage in distinct.tolist()], np.bool_)
        for row in self._in_order(rows[fit[which]].tolist()) if len(rows) else ():
            yield NameKind.FUNCTION, int(functions.object[row]), row

    def _in_order(self, rows: list[int]) -> list[int]:
        """Functions, those of an object that only stand inlined by their names: in the index they are behind its
        others."""
        functions = self.index.functions
        alone = [row for row in rows if not functions.owner[row]]
        texts = self.index.strings.by_number([*functions.name[alone].tolist(), *functions.linkage_name[alone].tolist()])

        def place(row: int) -> tuple[int, bool, str, str]:
            code_object = int(functions.object[row])
            if functions.owner[row]:
                return code_object, False, "", ""
            return code_object, True, texts[int(functions.name[row])], texts[int(functions.linkage_name[row])]

        return sorted(rows, key=place)

    def _files(self) -> Iterator[_Entry]:
        columns = self.index.columns
        objects, names = columns.file_object.tolist(), columns.file_name.tolist()
        fit = {name: self.fits_file(self.index.strings[name]) for name in set(names)}
        texts = self.index.strings.by_number(name for name in names if fit[name])
        chosen = set(self.objects)
        found = [
            (code_object, texts[name], row)
            for row, (code_object, name) in enumerate(zip(objects, names, strict=True))
            if fit[name] and code_object in chosen
        ]
        for code_object, _, row in sorted(found):
            yield NameKind.FILE, code_object, row


def _is_kernel(index: Index) -> Any:
    """For each function whether a kernel of its name begins where it does."""
    columns, functions = index.columns, index.functions
    of_kernels = columns.kernel_section, columns.kernel_offset, columns.kernel_name
    kernels = set(zip(*(column.tolist() for column in of_kernels), strict=True))
    of_functions = functions.section, functions.offset, functions.name, functions.linkage_name
    rows = zip(*(column.tolist() for column in of_functions), strict=True)
    return np.array(
        [(s - 1, at, name) in kernels or (s - 1, at, linkage) in kernels for s, at, name, linkage in rows], np.bool_
    )


def _matcher(index: Index, wanted: NameQuery) -> Callable[[str, str], bool]:
    """A test of a function's name and linkage name."""
    fits = _text_matcher(wanted)
    means = _means(index, wanted) if wanted.match is not Match.PREFIX else _nothing
    spelled = _spelled_matcher(wanted) if wanted.match is not Match.EXACT else _nothing

    known: dict[str, bool] = {}

    def is_meant(text: str) -> bool:
        if len(text) <= MAX_PATTERN:
            return bool(fits(text) or means(text) or spelled(text))
        found = known.get(text)  # long ones take long, and many functions may have one
        if found is None:
            found = known[text] = bool(fits(text) or means(text) or spelled(text))
        return found

    def test(name: str, linkage: str) -> bool:
        check_cancelled()
        return any(is_meant(each) for each in (name, linkage) if each)

    return test


def _means(index: Index, wanted: NameQuery) -> Callable[[str], bool]:
    """A test whether a function of that name is meant; what is taken apart are names that hold a word which is asked
    for. Capital letters mean small ones where nothing else is meant, as in Fortran."""
    for pattern in filter(None, (wanted.pattern, in_small_letters(wanted.pattern))):
        asked = taken_apart(pattern)
        compared = Compared({pattern: asked}, lambda _: check_cancelled())
        strings = index.strings
        meant = {
            text for number in strings.holding(asked.anchor).tolist() if compared.meant_by(text := strings[number])
        }
        if meant:
            return meant.__contains__
    return _nothing


def _nothing(_name: str) -> bool:
    return False


def _spelled_matcher(wanted: NameQuery) -> Callable[[str], bool]:
    """A test of what a function of that name may be called. What is taken apart are names that may have what the
    pattern has between its wildcards."""
    is_glob = wanted.match is Match.GLOB
    words = re.findall(r"\w+", re.sub(r"\[[^\]]*\]", " ", wanted.pattern) if is_glob else wanted.pattern)
    own = [word for word in words if not word.isdecimal() and not stands_in_no_name(word, partly=True)]
    fits = _text_matcher(replace(wanted, pattern=compact(wanted.pattern)))

    def test(name: str) -> bool:
        if not all(word in name for word in own):
            return False
        called = spellings(name)
        called |= {each.rpartition("::")[2] for each in called if "<" not in each and "(" not in each}
        return any(map(fits, called))

    return test


def _text_matcher(wanted: NameQuery) -> Callable[[str], Any]:
    if wanted.match is Match.GLOB:
        matches = re.compile(translate(wanted.pattern)).match
        return lambda name: len(name) <= MAX_MATCHED and matches(name)
    if wanted.match is Match.PREFIX:
        return lambda text: text.startswith(wanted.pattern)
    return lambda text: text == wanted.pattern


def _file_matcher(wanted: NameQuery) -> Callable[[str], Any]:
    """A test of a path."""
    fits = _text_matcher(wanted)

    def test(path: str) -> Any:
        check_cancelled()
        if wanted.match is Match.EXACT:
            return ends_with(normal(path), normal(wanted.pattern))
        return fits(path) or fits(normal(path).rpartition("/")[2])

    return test


def _kernel(index: Index, number: int, row: int) -> NamedItem:
    kernel = index.summary.objects[number].kernels[row]
    text = index.section_numbers.get((index.objects[number], kernel.section_index))
    return NamedItem(
        NameKind.KERNEL,
        kernel.name,
        index.objects[number],
        None,
        kernel.section,
        kernel.section_index,
        kernel.offset,
        None if text is None else index.sections[text].address + kernel.offset,
        kernel.size,
        0,
        kernel.facts,
        *_declared(index, _owner_at(index, number, kernel.section_index, kernel.offset)),
    )


def _owner_at(index: Index, number: int, section: int, offset: int) -> int:
    """The owner that begins at a place in a code object, if it is a function of the debug data; 0 where none does."""
    functions = index.functions
    first, stop = np.searchsorted(functions.object, [number, number + 1])
    numbers = index.columns.section_number[np.maximum(functions.section[first:stop].astype(np.int64) - 1, 0)]
    here = (functions.section[first:stop] > 0) & (numbers == section) & (functions.offset[first:stop] == offset)
    owners = functions.owner[first:stop][here & (functions.size[first:stop] > 0)]
    return int(owners.max(initial=0))


def _declared(index: Index, owner: int) -> tuple[str | None, int]:
    """Where an owner is declared."""
    columns = index.columns
    return index.strings[int(columns.owner_start_file[owner])] or None, int(columns.owner_start_line[owner])


def _function(index: Index, number: int, row: int) -> NamedItem:
    functions, strings = index.functions, index.strings
    name, linkage, section = int(functions.name[row]), int(functions.linkage_name[row]), int(functions.section[row])
    offset = int(functions.offset[row])
    where = index.sections[section - 1] if section else None
    return NamedItem(
        NameKind.FUNCTION,
        strings[name] or strings[linkage],
        index.objects[number],
        strings[linkage] or None,
        where.section if where else None,
        where.section_index if where else None,
        offset if where else None,
        where.address + offset if where else None,
        int(functions.size[row]),
        int(functions.copies[row]),
        {},
        *_declared(index, int(functions.owner[row])),
    )


def _file(index: Index, number: int, row: int) -> NamedItem:
    return NamedItem(NameKind.FILE, index.strings[int(index.columns.file_name[row])], index.objects[number])


_MAKERS: Mapping[NameKind, Callable[[Index, int, int], NamedItem]] = {
    NameKind.KERNEL: _kernel,
    NameKind.FUNCTION: _function,
    NameKind.FILE: _file,
}
