"""YAML from untrusted images: built from the parser's events, because PyYAML's own composing recurses (libyaml's ends
the process on deep nesting), and merge keys multiply. Plain scalars become int or bool where YAML 1.2's core schema
says so, and are text otherwise."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, NamedTuple

import yaml

from symd.errors import Malformed

DEPTH = 64
"""Levels of nesting that are followed; what compilers write has fewer than ten."""
_INTEGER = re.compile(r"[-+]?[0-9]{1,20}|0x[0-9a-fA-F]{1,16}")
_LOADER = getattr(yaml, "CBaseLoader", yaml.BaseLoader)


def load(text: str) -> Any:
    """The first document: dicts, lists, str, int, bool, None. An alias is the anchor's own object, so that a tree stays
    as small as its text; aliases that multiply are refused. Raises Malformed."""
    builder = _Builder(len(text))
    try:
        for event in yaml.parse(text, Loader=_LOADER):
            if isinstance(event, yaml.DocumentEndEvent):
                break
            builder.take(event)
    except yaml.YAMLError as error:
        raise Malformed(f"is not readable YAML: {str(error).splitlines()[0]}") from error
    return builder.root


@dataclass(slots=True)
class _Anchored:
    """What an anchor names, and how many values that is, itself counted; None while it is open."""

    value: Any
    values: int | None


class _Open(NamedTuple):
    """A container that is open, the key that waits for its value, and how many values came ``before`` it."""

    container: list[Any] | dict[str, Any]
    waiting: list[str]
    anchored: _Anchored
    before: int


class _Builder:
    """The containers that are open, each with the key that waits for its value. What aliases stand for may have
    ``most`` values together: whoever goes through a tree goes through them again for each alias."""

    def __init__(self, most: int) -> None:
        self.root: Any = None
        self._open: list[_Open] = []
        self._anchors: dict[str, _Anchored] = {}
        self._values = 0
        self._left = most

    def take(self, event: yaml.Event) -> None:
        if isinstance(event, yaml.ScalarEvent):
            self._put(_scalar(event), event.anchor)
        elif isinstance(event, yaml.AliasEvent):
            self._put(self._meant(str(event.anchor)), None)
        elif isinstance(event, yaml.SequenceStartEvent):
            self._start([], event.anchor)
        elif isinstance(event, yaml.MappingStartEvent):
            self._start({}, event.anchor)
        elif isinstance(event, yaml.SequenceEndEvent | yaml.MappingEndEvent):
            self._end()

    def _meant(self, anchor: str) -> Any:
        """What an alias stands for."""
        anchored = self._anchors.get(anchor)
        if anchored is None or anchored.values is None:
            lack = "has no anchor" if anchored is None else "stands inside what it means"
            raise Malformed(f"is not readable YAML: the alias *{anchor} {lack}")
        self._left -= anchored.values
        self._values += anchored.values - 1
        if self._left < 0:
            raise Malformed("is not readable YAML: its aliases stand for more values than it has bytes")
        return anchored.value

    def _start(self, container: list[Any] | dict[str, Any], anchor: str | None) -> None:
        if len(self._open) == DEPTH:
            raise Malformed(f"is not readable YAML: nested deeper than {DEPTH} levels")
        before = self._values
        self._put(container, None)
        anchored = _Anchored(container, None)
        if anchor:
            self._anchors[anchor] = anchored
        self._open.append(_Open(container, [], anchored, before))

    def _end(self) -> None:
        ended = self._open.pop()
        ended.anchored.values = self._values - ended.before

    def _put(self, value: Any, anchor: str | None) -> None:
        self._values += 1
        if anchor:
            self._anchors[anchor] = _Anchored(value, 1)
        if not self._open:
            self.root = value
            return
        container, waiting, _, _ = self._open[-1]
        if isinstance(container, list):
            container.append(value)
        elif waiting:
            container[waiting.pop()] = value
        elif isinstance(value, list | dict):
            raise Malformed("is not readable YAML: a key is not a scalar")
        else:
            waiting.append(str(value))


def _scalar(event: yaml.ScalarEvent) -> str | int | bool | None:
    text: str = event.value
    if not event.implicit[0]:
        return text
    if _INTEGER.fullmatch(text):
        return int(text, 16 if text[:2] == "0x" else 10)
    return {"true": True, "false": False, "": None, "null": None, "~": None}.get(text, text)
