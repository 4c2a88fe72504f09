"""What the process that is killed does: random verbs on an engine, each told before it begins and after it was done.

It is a fork of the process that watches, which has imported everything: a life costs no start-up."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from symd.config import Limits
from symd.engine.engine import Engine
from symd.engine.reading.questions import Reader
from symd.errors import AliasNotFound, ContextNotFound, ModuleNotFound, UnknownFormat
from symd.model.addresses import ByKernel, DeviceAddress, KernelOffset
from symd.model.contexts import Alias, Context, Load, Segment, Unload
from symd.store import Store

KEYS = 40
"""Aliases have one of so many keys."""
CONTEXTS = 6

Deed = tuple[Any, ...]
"""The name of a verb and what it was given, as JSON has it."""


class Worker:
    """One life. ``modules`` are files by digest; what is said goes to ``pipe``, a line each; ``reader`` reads modules, or
    this process does."""

    def __init__(
        self,
        root: Path,
        limits: Limits,
        modules: Mapping[str, bytes],
        seed: int,
        pipe: int,
        reader: Reader | None = None,
    ) -> None:
        self.dice = random.Random(seed)
        self.modules = modules
        self.pipe = pipe
        self.gone: list[str] = []
        self.engine = Engine(Store(root, limits), limits, reader=reader)
        self.engine.store.removals.listen(lambda digests: self.gone.extend(digests or ()))

    def live(self) -> None:
        """Until killed."""
        while True:
            verb = self.dice.choice(VERBS)
            deed = verb[0](self)
            self.say(begin=deed)
            self.gone.clear()
            result = verb[1](self, *deed[1:])
            there = {record.sha256 for record in self.engine.modules()}
            self.say(done=result, gone=[digest for digest in self.gone if digest not in there])

    def say(self, **what: Any) -> None:
        os.write(self.pipe, json.dumps(what).encode() + b"\n")

    def digest(self) -> str:
        return self.dice.choice(list(self.modules))

    def key(self) -> str:
        return f"{self.dice.randrange(KEYS)}"

    def number(self) -> int:
        return self.dice.randrange(CONTEXTS)

    def add(self, digest: str, label: str) -> bool:
        self.engine.add(self.modules[digest], label)
        return True

    def upload(self, digest: str, label: str) -> bool:
        data = self.modules[digest]
        with self.engine.receive(label) as arriving:
            for at in range(0, len(data), 8192):
                arriving.write(data[at : at + 8192])
            arriving.commit(digest)
        return True

    def refuse(self, text: str) -> bool:
        try:
            self.engine.add(text.encode())
        except UnknownFormat:
            return True
        raise AssertionError("it was taken")

    def remove(self, digest: str) -> bool:
        try:
            self.engine.remove(digest)
        except ModuleNotFound:
            return False
        return True

    def relabel(self, digest: str, label: str) -> bool:
        try:
            self.engine.relabel(digest, label)
        except ModuleNotFound:
            return False
        return True

    def ask(self, digest: str) -> bool:
        try:
            self.engine.module(digest)
        except ModuleNotFound:
            return False
        return True

    def alias(self, key: str, digest: str) -> bool:
        try:
            self.engine.aliases.add([Alias("build-id", key, digest)])
        except ModuleNotFound:
            return False
        return True

    def unalias(self, key: str) -> bool:
        try:
            self.engine.aliases.remove("build-id", key)
        except AliasNotFound:
            return False
        return True

    def load(self, number: int, digest: str, time: int) -> bool:
        name = self.engine.contexts.add(context(number))
        self.engine.contexts.record(name, [load(digest, time)])
        return True

    def unload(self, number: int, digest: str, time: int) -> bool:
        name = self.engine.contexts.add(context(number))
        self.engine.contexts.record(name, [Unload(digest, time)])
        return True

    def forget(self, number: int) -> bool:
        name = self.engine.contexts.add(context(number))
        try:
            self.engine.contexts.remove(name)
        except ContextNotFound:
            return False
        return True


def context(number: int) -> Context:
    return Context(process=number)


def load(digest: str, time: int) -> Load:
    segment = Segment(DeviceAddress(0x1000 * time), 16, ByKernel("k", KernelOffset(0)))
    return Load(digest, time, (segment,), key=digest)


def _label(worker: Worker) -> str:
    return f"label {worker.dice.randrange(1000)}"


VERBS: tuple[tuple[Callable[[Worker], Deed], Callable[..., bool]], ...] = (
    *[(lambda w: ("add", w.digest(), _label(w)), Worker.add)] * 4,
    *[(lambda w: ("upload", w.digest(), _label(w)), Worker.upload)] * 4,
    (lambda w: ("refuse", _label(w)), Worker.refuse),
    *[(lambda w: ("remove", w.digest()), Worker.remove)] * 2,
    (lambda w: ("relabel", w.digest(), _label(w)), Worker.relabel),
    *[(lambda w: ("ask", w.digest()), Worker.ask)] * 2,
    *[(lambda w: ("alias", w.key(), w.digest()), Worker.alias)] * 2,
    (lambda w: ("unalias", w.key()), Worker.unalias),
    *[(lambda w: ("load", w.number(), w.digest(), w.dice.randrange(100)), Worker.load)] * 2,
    (lambda w: ("unload", w.number(), w.digest(), w.dice.randrange(1, 100)), Worker.unload),
    (lambda w: ("forget", w.number()), Worker.forget),
)
"""How a deed is chosen, and how it is done; those that stand several times are done more often."""
EVICT = frozenset({"add", "upload", "ask"})
"""Deeds that may make room."""
