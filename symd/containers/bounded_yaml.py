"""YAML from untrusted images: built from the parser's events, because PyYAML's own composing recurses (libyaml's ends the
process on deep nesting), and merge keys multiply. Plain scalars become int or bool where YAML 1.2's core schema says so,
and are text otherwise."""

from __future__ import annotations

import re
from typing import Any

import yaml

from symd.errors import Malformed

DEPTH = 64
"""Levels of nesting that are followed; what compilers write has fewer than ten."""
_INTEGER = re.compile(r"[-+]?[0-9]{1,20}|0x[0-9a-fA-F]{1,16}")
_LOADER = getattr(yaml, "CBaseLoader", yaml.BaseLoader)


def load(text: str) -> Any:
    """The first document: dicts, lists, str, int, bool, None. An alias is the anchor's own object, so that a tree stays as
    small as its text. Raises Malformed."""
    builder = _Builder()
    try:
        for event in yaml.parse(text, Loader=_LOADER):
            if isinstance(event, yaml.DocumentEndEvent):
                break
            builder.take(event)
    except yaml.YAMLError as error:
        raise Malformed(f"is not readable YAML: {str(error).splitlines()[0]}") from error
    return builder.root


class _Builder:
    """The containers that are open, each with the key that waits for its value."""

    def __init__(self) -> None:
        self.root: Any = None
        self._open: list[tuple[list[Any] | dict[str, Any], list[str]]] = []
        self._anchors: dict[str, Any] = {}

    def take(self, event: yaml.Event) -> None:
        if isinstance(event, yaml.ScalarEvent):
            self._put(_scalar(event), event.anchor)
        elif isinstance(event, yaml.AliasEvent):
            if event.anchor not in self._anchors:
                raise Malformed(f"is not readable YAML: the alias *{event.anchor} has no anchor")
            self._put(self._anchors[event.anchor], None)
        elif isinstance(event, yaml.SequenceStartEvent):
            self._start([], event.anchor)
        elif isinstance(event, yaml.MappingStartEvent):
            self._start({}, event.anchor)
        elif isinstance(event, yaml.SequenceEndEvent | yaml.MappingEndEvent):
            self._open.pop()

    def _start(self, container: list[Any] | dict[str, Any], anchor: str | None) -> None:
        if len(self._open) == DEPTH:
            raise Malformed(f"is not readable YAML: nested deeper than {DEPTH} levels")
        self._put(container, anchor)
        self._open.append((container, []))

    def _put(self, value: Any, anchor: str | None) -> None:
        if anchor:
            self._anchors[anchor] = value
        if not self._open:
            self.root = value
            return
        container, waiting = self._open[-1]
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
