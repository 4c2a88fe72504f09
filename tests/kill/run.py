"""A store whose user is killed again and again: after each kill it is opened, and all that was acknowledged must be there and
right, and nothing else be left.

What is expected is kept in plain dicts. The one deed that had begun and was not done may have happened or not, and may have
removed modules for want of room; everything else is as it was told."""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import signal
import sqlite3
import tempfile
import time
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from symd.config import Limits
from symd.engine.engine import Engine
from symd.errors import ModuleNotFound, SymdError
from symd.server.workers import Workers
from symd.store import Store
from symd.store.budgets import totals
from symd.store.folder import StorePaths, look
from symd.store.inspection import inspect
from tests.kill.work import EVICT, KEYS, Deed, Worker

SAMPLES = Path(__file__).parents[2] / "samples"
LARGEST = 60_000
"""Bytes of a module."""
COUNT = 24
LONGEST = 0.4
"""Seconds that a process lives, at most."""
LONGEST_WITH_WORKERS = 2.0
"""The same where it starts others first."""

Event = tuple[str, str, int]
"""("load" or "unload", module, time)."""


@dataclass
class Expected:
    """What was acknowledged."""

    labels: dict[str, str] = field(default_factory=dict)
    """By digest of each module that is there."""
    aliases: dict[str, str] = field(default_factory=dict)
    events: dict[int, set[Event]] = field(default_factory=dict)
    """By number of each context that is known."""

    def after(self, deed: Deed, gone: list[str]) -> Expected:
        """What is there when the deed was done and these modules went."""
        labels, aliases = dict(self.labels), dict(self.aliases)
        events = {number: set(told) for number, told in self.events.items()}
        match deed:
            case ("add" | "upload", digest, label):
                labels.setdefault(digest, label)
            case ("remove", digest):
                labels.pop(digest, None)
            case ("relabel", digest, label) if digest in labels:
                labels[digest] = label
            case ("alias", key, digest) if digest in labels:
                aliases[key] = digest
            case ("unalias", key):
                aliases.pop(key, None)
            case ("load" | "unload" as kind, number, digest, moment):
                events.setdefault(number, set()).add((kind, digest, moment))
            case ("forget", number):
                events.pop(number, None)
        for digest in gone:
            labels.pop(digest, None)
        return Expected(labels, {key: digest for key, digest in aliases.items() if digest in labels}, events)


@dataclass
class Outcome:
    """How often a process was killed, in the middle of what, and what was wrong after."""

    kills: int = 0
    interrupted: Counter[str] = field(default_factory=Counter)
    done: Counter[str] = field(default_factory=Counter)
    evicted: int = 0
    problems: list[str] = field(default_factory=list)


def modules() -> dict[str, bytes]:
    """Small samples by digest that can be read, and what the modules and their indexes take."""
    found: dict[str, bytes] = {}
    with Engine(Store.temporary()) as engine:
        for path in sorted(SAMPLES.glob("*/bin/**/*")):
            if len(found) == COUNT:
                break
            if path.is_file() and 1000 < path.stat().st_size < LARGEST:
                try:
                    summary = engine.add(path.read_bytes())
                except SymdError:
                    continue
                found[summary.sha256] = path.read_bytes()
    return found


def run(kills: int, seed: int, seconds: float = 1e9, *, workers: bool = False) -> Outcome:
    """So many kills, fewer when the time is over. ``workers``: modules are read by processes of their own, as a daemon has
    it, which outlive the one that is killed by what they are at."""
    dice, outcome, files = random.Random(seed), Outcome(), modules()
    limits = Limits(store_size=sum(map(len, files.values())))
    root = Path(tempfile.mkdtemp(prefix="symd-kill-"))
    expected, end = Expected(), time.monotonic() + seconds
    while outcome.kills < kills and time.monotonic() < end and not outcome.problems:
        said = _life(root / "store", limits, files, dice, workers=workers)
        outcome.kills += 1
        expected = _checked(root / "store", limits, files, expected, said, outcome)
    if not outcome.problems:
        shutil.rmtree(root)
    else:
        outcome.problems.append(f"the store is in {root}, the seed was {seed}")
    return outcome


def _life(
    root: Path, limits: Limits, files: dict[str, bytes], dice: random.Random, *, workers: bool
) -> list[dict[str, Any]]:
    """What a process said that was killed after a while."""
    seed, reader, writer = dice.randrange(1 << 30), *os.pipe()
    child = os.fork()
    if not child:
        os.close(reader)
        try:
            readers = Workers(limits, 1, 1) if workers else None
            Worker(root, limits, files, seed, writer, readers).live()
        finally:
            os._exit(1)
    os.close(writer)
    time.sleep(dice.uniform(0, LONGEST_WITH_WORKERS if workers else LONGEST))
    os.kill(child, signal.SIGKILL)
    with os.fdopen(reader, "rb") as pipe:
        said = pipe.read().splitlines(keepends=True)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status), "the process ended by itself; its traceback stands above"
    return [json.loads(line) for line in said if line.endswith(b"\n")]


def _checked(
    root: Path,
    limits: Limits,
    files: dict[str, bytes],
    expected: Expected,
    said: list[dict[str, Any]],
    outcome: Outcome,
) -> Expected:
    """What is there after a kill, where it is what was acknowledged; else ``outcome`` gets the problems."""
    begun: Deed = ()
    for line in said:
        if "begin" in line:
            begun = tuple(line["begin"])
        else:
            expected = expected.after(begun if line["done"] else (), line["gone"])
            outcome.done[begun[0]] += 1
            outcome.evicted += len(line["gone"]) if begun[0] in EVICT else 0
            begun = ()
    outcome.interrupted[begun[0] if begun else "nothing"] += 1
    outcome.problems += _counted_for_nothing(root)
    with Engine(Store(root, limits)) as engine:
        engine.resume()
        listed = {record.sha256 for record in engine.modules()}
        actual = _actual(engine)
        evicted = listed - {record.sha256 for record in engine.modules()}
        outcome.problems += _wrong_ends(engine, actual)
    outcome.problems += _left(root, limits)
    gone = sorted(evicted)  # to look at a module makes its index, which may need room
    expected, actual = expected.after((), gone), actual.after((), gone)
    found = _differences(expected, actual, begun)
    outcome.problems += [f"after {begun}: {problem}" for problem in found]
    return actual


def _counted_for_nothing(root: Path) -> list[str]:
    """Attempts to index modules that are not there, before a start forgets them."""
    query = "SELECT sha256 FROM attempts WHERE sha256 NOT IN (SELECT sha256 FROM modules)"
    if not root.exists() or not (root / "catalogue.sqlite").exists():
        return []  # it was killed before it had made its catalogue
    with closing(sqlite3.connect(root / "catalogue.sqlite")) as connection:
        if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'attempts'").fetchone():
            return []
        return [f"an attempt is counted for {digest}, which is gone" for (digest,) in connection.execute(query)]


def _actual(engine: Engine) -> Expected:
    """What a store says that it has, where it has it; a module with other bytes counts as none."""
    actual, store = Expected(), engine.store
    assert isinstance(store, Store)  # a folder of this machine
    for record in engine.modules():
        try:
            whole = hashlib.sha256(store.data(record.sha256)).hexdigest() == record.sha256
        except ModuleNotFound:  # evicted since it was listed
            continue
        if whole and engine.module(record.sha256).sha256 == record.sha256 and record.format:
            actual.labels[record.sha256] = record.label
    for key in map(str, range(KEYS)):
        found = engine.aliases.resolve("build-id", key)
        if found:
            actual.aliases[key] = found.module
    for known in engine.contexts.all():
        told = actual.events.setdefault(known.context.process, set())
        told.update(("load", load.module, load.time) for _, load in engine.contexts.loads(known.id))
        with closing(sqlite3.connect(store.root / "catalogue.sqlite")) as connection:
            query = "SELECT 'unload', key, time FROM unloads JOIN contexts ON context = number WHERE id = ?"
            told.update(connection.execute(query, (known.id,)))
    return actual


def _wrong_ends(engine: Engine, actual: Expected) -> list[str]:
    """Loads that do not end at the first unload or load of their key after them."""
    problems = []
    for record in engine.contexts.all():
        told = actual.events[record.context.process]
        for _, load in engine.contexts.loads(record.id):
            later = [moment for _, key, moment in told if key == load.module and moment > load.time]
            if load.unload_time != min(later, default=None):
                problems.append(f"{record.id}: {load.module} loaded at {load.time} ends at {load.unload_time}")
    return problems


def _differences(expected: Expected, actual: Expected, begun: Deed) -> list[str]:
    """What is neither as it was before the deed that had begun nor as it is after it."""
    after = expected.after(begun, [])
    may_be_gone = bool(begun) and begun[0] in EVICT
    problems = []
    for digest in expected.labels.keys() | after.labels.keys() | actual.labels.keys():
        allowed = {each.labels.get(digest) for each in (expected, after)}
        if may_be_gone:
            allowed.add(None)
        if digest not in expected.labels and digest in after.labels:
            allowed.add("")  # its file was there, its row was not
        if actual.labels.get(digest) not in allowed:
            problems.append(f"module {digest} is {actual.labels.get(digest)!r}, not one of {allowed}")
    for key in map(str, range(KEYS)):
        whole = begun[:1] == ("remove",) and begun[1] in actual.labels  # it is there, and so is all that named it
        allowed = {each.aliases.get(key) for each in ((expected,) if whole else (expected, after))}
        if not allowed <= actual.labels.keys():
            allowed.add(None)  # its module went, as it might
        if actual.aliases.get(key) not in allowed or actual.aliases.get(key, None) not in {None, *actual.labels}:
            problems.append(f"alias {key} is {actual.aliases.get(key)}, not one of {allowed}")
    for number in expected.events.keys() | after.events.keys() | actual.events.keys():
        told = [each.events.get(number) for each in (expected, after)]
        if begun[:1] in {("load",), ("unload",), ("forget",)} and begun[1] == number and told[0] is None:
            told.append(set())  # it is made known first
        if actual.events.get(number) not in told:
            problems.append(f"context {number} has {actual.events.get(number)}, not one of {told}")
    return problems


def _left(root: Path, limits: Limits) -> list[str]:
    """What should not be there, and sums that are wrong."""
    found = inspect(root)
    problems = [f"{finding.kind}: {finding.subject} {finding.problem}" for finding in found.findings]
    with closing(sqlite3.connect(root / "catalogue.sqlite")) as connection:
        noted = set(connection.execute("SELECT sha256, version FROM indexes"))
        sums = totals(connection)
        orphans = connection.execute("SELECT count(*) FROM attempts").fetchone()[0]
    if noted != look(StorePaths(root)).indexes.keys():
        problems.append("the catalogue notes other indexes than there are")
    if sums != (found.module_bytes + found.index_bytes, found.aliases, found.contexts):
        problems.append(f"the catalogue's sums are {sums}, and there are {found}")
    if sums.bytes > limits.store_size:
        problems.append(f"the store has {sums.bytes} bytes, at most {limits.store_size}")
    if orphans:
        problems.append(f"{orphans} attempts are counted that have ended")
    expected = {"catalogue.sqlite", "catalogue.lock", "incoming", "index", "modules"}
    extra = {path.name for path in root.iterdir()} - expected - {"catalogue.sqlite-wal", "catalogue.sqlite-shm"}
    return problems + [f"{name} is left" for name in sorted(extra)]
