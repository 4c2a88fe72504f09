"""Several daemons over one database and one S3 server, each at a loopback address of its own, under load: they are killed and started again,
and then the bucket is wiped.

``python -m tests.store.shared.replicas SECONDS`` is the long run, so long for each of the two: it says what was asked and answered, and ends with
1 where a request failed, an answer was wrong, an index was made twice or a watch missed a module; where a daemon did not name each
module that the bucket had lost, or one was said to be added that is not in it."""

from __future__ import annotations

import hashlib
import os
import random
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from unittest.mock import patch

import numpy as np
import psycopg

import symd
from symd import Client
from symd.config import Limits
from symd.errors import DataLoss
from symd.model.watches import ModuleAdded, Watch
from symd.rpc.channel import RECONNECT_SECONDS
from symd.store.shared.s3_storage import S3Storage
from symd.store.shared.store import module_object
from tests.object_server import BUCKET, WHOLE, environment, s3_server
from tests.store.shared.postgresql_server import running

SAMPLES = Path(__file__).parents[3] / "samples"
OBJECT = SAMPLES / "amdgpu" / "bin" / "v4-gfx900.co"
PREFIX = "replicas"
"""Of the names of the daemons' objects."""
BETWEEN_KILLS = 1.0
"""Seconds from one kill to the next, at the least."""
KNOWN_SECONDS = 2.0 * RECONNECT_SECONDS
"""After which every client asks a daemon again that was started anew."""
LONG = 60.0
"""Seconds after which a daemon that does not start or end is given up."""
_MADE = """
    CREATE TABLE made (sha256 TEXT, version BIGINT);
    CREATE FUNCTION index_made() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN INSERT INTO made VALUES (NEW.sha256, NEW.version); RETURN NULL; END $$;
    CREATE TRIGGER index_made AFTER INSERT OR UPDATE ON indexes FOR EACH ROW EXECUTE FUNCTION index_made();
"""
"""Counts each time that an index is published."""


class Replicas:
    """``count`` daemons; they are numbered from 0, and listen at 127.0.0.1 and the addresses after it."""

    def __init__(self, count: int, database: str, variables: Mapping[str, str], folder: Path) -> None:
        self._database, self._variables, self._folder = database, {**os.environ, **variables}, folder
        self.storage = variables
        """The variables with which clients find the S3 server."""
        self._port = free_port(count)
        self._processes: list[subprocess.Popen[str]] = [self._begun(number) for number in range(count)]
        try:
            for number in range(count):
                self._wait(number)
        except BaseException:
            self.close()
            raise

    @property
    def addresses(self) -> list[str]:
        return [f"127.0.0.{number + 1}:{self._port}" for number in range(len(self._processes))]

    @property
    def address(self) -> str:
        """All of them, for a client."""
        return "ipv4:" + ",".join(self.addresses)

    def processor_seconds(self) -> float:
        """What the daemons themselves have taken, without the processes that they start."""
        ticks = 0
        for process in self._processes:
            words = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
            ticks += int(words[11]) + int(words[12])  # proc(5): utime, stime
        return ticks / os.sysconf("SC_CLK_TCK")

    def kill(self, number: int) -> None:
        self._processes[number].kill()
        self._processes[number].communicate(timeout=LONG)

    def start(self, number: int) -> None:
        self._processes[number] = self._begun(number)
        self._wait(number)

    def close(self) -> None:
        for process in self._processes:
            process.kill()
            process.communicate(timeout=LONG)

    def _begun(self, number: int) -> subprocess.Popen[str]:
        command = [
            *(sys.executable, "-m", "symd", "serve", "--address", f"127.0.0.{number + 1}:{self._port}", "--insecure"),
            *("--store", f"s3://{BUCKET}/{PREFIX}", "--catalogue", self._database),
            *("--cache", str(self._folder / f"cache{number}")),
        ]
        log = (self._folder / f"log{number}").open("a")
        with log:
            return subprocess.Popen(command, env=self._variables, stdout=subprocess.PIPE, stderr=log, text=True)

    def _wait(self, number: int) -> None:
        stdout = self._processes[number].stdout
        assert stdout is not None
        assert stdout.readline().startswith("symd serves"), (self._folder / f"log{number}").read_text()[-3000:]


@contextmanager
def replicas(count: int) -> Iterator[tuple[Replicas, str]]:
    """Daemons over servers of their own, and the URL of their database."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="symd-replicas-")))
        database = stack.enter_context(running()).database()
        variables = environment(stack.enter_context(s3_server(folder / "s3")))
        daemons = Replicas(count, database, variables, folder)
        stack.callback(daemons.close)
        yield daemons, database


def free_port(count: int) -> int:
    """A port that is free at so many addresses, and below those that Linux gives to whoever asks for any (ip(7),
    ip_local_port_range), so that nobody gets it until the daemons listen."""
    while True:
        port = random.SystemRandom().randrange(16_000, 32_000)
        with ExitStack() as stack, suppress(OSError):
            for number in range(count):
                stack.enter_context(socket.socket()).bind((f"127.0.0.{number + 1}", port))
            return port


def variant(number: int) -> bytes:
    """A module like ``OBJECT`` with another digest: what follows an ELF image means nothing."""
    return OBJECT.read_bytes() + b"%016d" % number


@dataclass
class Seen:
    """What a run under load saw."""

    asked: Counter[str] = field(default_factory=Counter)
    failed: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    kills: int = 0
    made_twice: list[str] = field(default_factory=list)
    missed: set[str] = field(default_factory=set)
    told_twice: list[str] = field(default_factory=list)

    @property
    def is_good(self) -> bool:
        return not (self.failed or self.wrong or self.made_twice or self.missed or self.told_twice)


class Load:
    """Clients that ask, add and watch until told to stop; what an answer should be is found in this process first. ``expected`` are errors that are
    no failures; they are counted."""

    def __init__(self, address: str, *expected: type[Exception]) -> None:
        self.seen = Seen()
        self.begun: dict[str, float] = {}
        """When adding each module that was added began, on the monotonic clock, and by its digest."""
        self.data: dict[str, bytes] = {}
        """The bytes of each."""
        self._address = address
        self._unfailing = expected
        self._stop = threading.Event()
        module = symd.open(OBJECT)
        low = 0x1900
        self._addresses = np.arange(low, low + 256, dtype=np.uint64)
        self._expected = [answer.frames for answer in module.symbolize(self._addresses)]
        self._added: list[str] = []
        self._numbers = iter(range(1 << 30))
        self._lock = threading.Lock()

    def run(self, seconds: float, disturb: Callable[[], None], least: int = 0) -> None:
        """Ask for that long while ``disturb`` is called again and again, ``least`` times at the least."""
        with Client(self._address) as client:
            self._add(client)
            watch = client.watch()
            told: list[str] = []
            watching = threading.Thread(target=self._watch, args=(watch, told), daemon=True)
            watching.start()
            works = [self._ask_one, self._ask_many, self._ask_column, self._add]
            threads = [
                threading.Thread(target=self._again, args=(work,), name=work.__name__, daemon=True) for work in works
            ]
            for thread in threads:
                thread.start()
            deadline, calls = time.monotonic() + seconds, 0
            while time.monotonic() < deadline or calls < least:
                disturb()
                calls += 1
            self._stop.set()
            for thread in threads:
                thread.join(LONG)
            self.seen.failed += [f"{thread.name}: a call never ended" for thread in threads if thread.is_alive()]
            deadline = time.monotonic() + LONG
            while set(self._added) - set(told) and time.monotonic() < deadline:
                time.sleep(0.1)
            watch.close()
            watching.join(LONG)
        self.seen.missed = set(self._added) - set(told)
        self.seen.told_twice = [digest for digest, count in Counter(told).items() if count > 1]

    def _again(self, work: Callable[[Client], None]) -> None:
        with Client(self._address) as client:
            while not self._stop.is_set():
                try:
                    work(client)
                except self._unfailing as error:
                    self.seen.asked[type(error).__name__] += 1
                except Exception as error:  # noqa: BLE001 - whatever it is, a request failed
                    self.seen.failed.append(
                        f"{work.__name__}: {type(error).__name__}: {error} {getattr(error, 'metadata', {})}"
                    )
                else:
                    self.seen.asked[work.__name__.strip("_")] += 1

    def _module(self) -> str:
        return random.choice(self._added)

    def _compare(self, digest: str, at: int, frames: object) -> None:
        if frames != self._expected[at]:
            self.seen.wrong.append(f"{digest} {at}: {frames}")

    def _ask_one(self, client: Client) -> None:
        digest, at = self._module(), random.randrange(len(self._addresses))
        self._compare(digest, at, client.symbolize_one(digest, int(self._addresses[at])).frames)

    def _ask_many(self, client: Client) -> None:
        digest = self._module()
        for at, answer in enumerate(client.symbolize(digest, [int(each) for each in self._addresses[:20]])):
            self._compare(digest, at, answer.frames)

    def _ask_column(self, client: Client) -> None:
        digest = self._module()
        values = np.tile(self._addresses, 512)  # more than one call takes: a stream of batches
        answers = client.symbolize_column(digest, values)
        for place in random.sample(range(len(values)), 20):
            self._compare(digest, place % len(self._addresses), answers[place].frames)

    def _add(self, client: Client) -> None:
        with self._lock:
            data = variant(next(self._numbers))
        begun = time.monotonic()
        digest = client.add(data).sha256
        self.data[digest], self.begun[digest] = data, begun
        self._added.append(digest)

    def _watch(self, watch: Watch, told: list[str]) -> None:
        try:
            told.extend(event.digest for event in watch if isinstance(event, ModuleAdded))
        except Exception as error:  # noqa: BLE001 - as above
            self.seen.failed.append(f"watch: {type(error).__name__}: {error}")


LEAST_KILLS = 7


class Killer:
    """Kills one daemon after the other and starts each again at once, while at least one other serves that clients ask. One that has only just started is
    none: while nobody has connected to it yet, all daemons are away."""

    def __init__(self, daemons: Replicas, count: int) -> None:
        self._daemons = daemons
        now = time.monotonic()
        self._serving = [(number, now - KNOWN_SECONDS) for number in range(count)]
        """Those that serve, and since when; the one that has served longest is the first."""
        self._starting: list[threading.Thread] = []
        self._changed = threading.Condition()
        self._next = now + BETWEEN_KILLS

    def __call__(self) -> None:
        """Wait for the next moment, kill the daemon that has served longest, and let another thread start it."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self._serving) > 1, LONG), "no second daemon started"
            (number, _), (_, since) = self._serving[:2]
        time.sleep(max(0.0, max(self._next, since + KNOWN_SECONDS) - time.monotonic()))
        with self._changed:
            del self._serving[0]
        self._daemons.kill(number)
        self._next = time.monotonic() + BETWEEN_KILLS
        thread = threading.Thread(target=self._start, args=(number,))
        self._starting.append(thread)
        thread.start()

    def wait(self) -> None:
        for thread in self._starting:
            thread.join(LONG)

    def _start(self, number: int) -> None:
        self._daemons.start(number)
        with self._changed:
            self._serving.append((number, time.monotonic()))
            self._changed.notify()


def kill_under_load(seconds: float, count: int = 3) -> Seen:
    """Kill one daemon after the other and start each again: a second apart or more, and not before a module was added since. However slow the machine is,
    no module is then one that four daemons in a row did not survive, which is refused."""
    with replicas(count) as (daemons, database):
        with psycopg.connect(database, autocommit=True) as connection:
            connection.execute(_MADE)
        load = Load(daemons.address)
        killer = Killer(daemons, count)
        added = 0

        def disturb() -> None:
            nonlocal added
            deadline = time.monotonic() + LONG
            while load.seen.asked["add"] == added:
                assert time.monotonic() < deadline, f"nothing was added any more: {load.seen}"
                time.sleep(0.02)
            added = load.seen.asked["add"]
            killer()
            load.seen.kills += 1

        load.run(seconds, disturb, LEAST_KILLS)
        killer.wait()
        with psycopg.connect(database) as connection:
            query = "SELECT sha256 FROM made GROUP BY sha256, version HAVING count(*) > 1"
            load.seen.made_twice = [digest for (digest,) in connection.execute(query)]
        return load.seen


@dataclass
class Losses:
    """What was seen of modules that the bucket lost."""

    wiped: int = 0
    lost: int = 0
    unnamed: list[str] = field(default_factory=list)
    """What a daemon did not say of what is missing."""
    not_there: list[str] = field(default_factory=list)
    """Modules that were said to be added, and are not in the bucket."""
    load: Seen = field(default_factory=Seen)

    @property
    def is_good(self) -> bool:
        return not (self.unnamed or self.not_there or self.load.failed or self.load.wrong)


class Wiper:
    """Wipes the bucket, hears from each daemon what is missing, and adds it again."""

    def __init__(self, daemons: Replicas, load: Load) -> None:
        self._load = load
        self._clients = [Client(address) for address in daemons.addresses]
        self._storage = S3Storage(BUCKET, PREFIX, Limits())
        self.seen = Losses(load=load.seen)

    def close(self) -> None:
        for client in self._clients:
            client.close()

    def __call__(self) -> None:
        added = set(self._load.begun)
        for name, _ in list(self._storage.names("")):
            self._storage.remove(name)
        wiped = time.monotonic()
        self.seen.wiped += 1
        self.seen.lost += len(added)
        self._check_named(added, added)
        with ThreadPoolExecutor(len(self._clients)) as pool:
            back = list(pool.map(self._added_again, sorted(added)))
        since = {digest for digest, begun in list(self._load.begun.items()) if begun > wiped}
        self.seen.not_there += [f"{digest}: other bytes" for digest in back if not self._is_there(digest)]
        self.seen.not_there += sorted({*back, *since} - self._stored())

    def check_end(self) -> None:
        """When nothing is added any more: what is missing is what the bucket does not have."""
        added = set(self._load.begun)
        self._check_named(added, added - self._stored())

    def _check_named(self, asked: set[str], lost: set[str]) -> None:
        """Every daemon names what is lost of what it is asked, as soon as it does not remember any more what was there."""
        for number, client in enumerate(self._clients):
            deadline = time.monotonic() + LONG
            while (named := set(client.missing(sorted(asked)))) != lost and time.monotonic() < deadline:
                time.sleep(0.1)
            if named != lost:
                self.seen.unnamed.append(f"daemon {number} names {len(named)} of {len(lost)} modules that are lost")

    def _added_again(self, digest: str) -> str:
        return random.choice(self._clients).add(self._load.data[digest]).sha256

    def _is_there(self, digest: str) -> bool:
        with tempfile.NamedTemporaryFile() as file:
            path = Path(file.name)
            return (
                self._storage.fetch(module_object(digest), path, WHOLE)
                and hashlib.sha256(path.read_bytes()).hexdigest() == digest
            )

    def _stored(self) -> set[str]:
        return {name.rpartition("/")[2] for name, _ in self._storage.names("modules/")}


def wipe_under_load(seconds: float, count: int = 3) -> Losses:
    """Wipe the bucket again and again. Who asks about a module that is lost may hear that it is, and nothing wrong."""
    with replicas(count) as (daemons, _), patch.dict(os.environ, daemons.storage):
        load = Load(daemons.address, DataLoss)
        wiper = Wiper(daemons, load)
        try:
            load.run(seconds, wiper)
            wiper.check_end()
        finally:
            wiper.close()
        return wiper.seen


def main(seconds: str = "300") -> int:
    seen = kill_under_load(float(seconds))
    print(f"{seen.kills} daemons killed; answered: {dict(seen.asked)}")
    _tell(seen, "failed", "wrong", "made_twice", "missed", "told_twice")
    losses = wipe_under_load(float(seconds))
    print(f"bucket wiped {losses.wiped} times, of {losses.lost} modules; answered: {dict(losses.load.asked)}")
    _tell(losses, "unnamed", "not_there")
    _tell(losses.load, "failed", "wrong")
    return 0 if seen.is_good and losses.is_good else 1


def _tell(seen: Seen | Losses, *names: str) -> None:
    for name in names:
        found: Sequence[str] = list(getattr(seen, name))
        print(f"{name.replace('_', ' ')}: {len(found)}", *found[:5], sep="\n  ")


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))
