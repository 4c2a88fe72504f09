"""Collected warnings, of which damaged data can give very many."""

from __future__ import annotations

from symd.model.plurals import counted

_KEPT = 100


class Warnings:
    """The first hundred warnings in full, and a count of the others."""

    def __init__(self, known: tuple[str, ...] = ()) -> None:
        self._texts = list(known)
        self._more = 0

    def __bool__(self) -> bool:
        return bool(self._texts)

    def add(self, text: str) -> None:
        if len(self._texts) < _KEPT:
            self._texts.append(text)
        else:
            self._more += 1

    def all(self) -> tuple[str, ...]:
        return (*self._texts, *([f"and {counted(self._more, 'more warning')}"] if self._more else []))
