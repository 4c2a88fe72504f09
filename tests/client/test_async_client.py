"""The client for programs with an event loop: each verb of the other one, with the same arguments, answers and errors."""

from __future__ import annotations

import asyncio
import inspect
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import grpc.aio
import numpy as np
import pytest

from symd import AsyncClient, Client
from symd.config import Limits
from symd.engine.engine import Engine
from symd.errors import (
    BadQuery,
    ContextNotFound,
    DeadlineExceeded,
    InvalidInput,
    ModuleNotFound,
    NotFound,
    ServerUnavailable,
    SymdError,
)
from symd.model.breakpoints import Breakpoint, SourceLine
from symd.model.contexts import Alias, Context, Load, Unload
from symd.model.watches import ModuleAdded, ModuleRemoved, Resolved, Watching
from symd.rpc.channel import Credentials, connect
from symd.server.config import Config
from symd.server.listening import listening
from symd.server.server import build_daemon
from symd.store import Store
from symd.v1 import module_pb2
from symd.v1.module_service_pb2 import ListKernelsRequest

SAMPLES = Path(__file__).parents[2] / "samples"
CUBIN = (SAMPLES / "cuda" / "bin" / "raycast.sm_100.lines.cubin").read_bytes()
VADD = (SAMPLES / "kernels" / "bin" / "vadd" / "dg2-opt.dbg").read_bytes()
DUMP = (SAMPLES / "cores" / "bin" / "illegal_address.nvcudmp").read_bytes()
KERNEL = "_Z7raycastPfi6float3"


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    """A daemon in this process."""
    folder = tmp_path_factory.mktemp("daemon")
    config = Config(limits=Limits(), store=folder / "store", address=f"unix:{folder}/s", grace=1.0)
    with Engine(Store(config.store, config.limits, durable=False), config.limits) as engine:
        daemon = build_daemon(engine, config)
        with listening(daemon.server, config.address) as address:
            daemon.server.start()
            yield address
            daemon.stop(1)


def public(kind: type) -> dict[str, object]:
    return {name: member for name, member in vars(kind).items() if not name.startswith("_")}


def parameters(function) -> list[tuple[str, object, object]]:
    found = inspect.signature(function).parameters.values()
    return [(each.name, each.kind, each.default, each.annotation) for each in found]


def test_both_have_the_same_verbs_with_the_same_arguments() -> None:
    waiting, asynchronous = public(Client), public(AsyncClient)
    assert set(waiting) == set(asynchronous)
    assert parameters(Client.__init__) == parameters(AsyncClient.__init__)
    for name, member in waiting.items():
        if inspect.isfunction(member):
            assert parameters(member) == parameters(asynchronous[name]), name


@pytest.mark.parametrize("part", ["contexts", "aliases"])
def test_their_parts_have_the_same_verbs(part: str) -> None:
    waiting = type(getattr(Client("unix:/nowhere"), part))
    asynchronous = type(getattr(AsyncClient("unix:/nowhere"), part))
    assert set(public(waiting)) == set(public(asynchronous))
    for name, member in public(waiting).items():
        assert parameters(member) == parameters(public(asynchronous)[name]), name


def test_facts_of_kernels_come_as_text() -> None:
    """Which of large libraries takes a small part of the time."""
    asked = []

    async def awaited() -> None:
        async with AsyncClient("unix:/nowhere") as client:

            async def no_pages(_method: object, request: object) -> AsyncIterator[object]:
                asked.append(request)
                for page in ():
                    yield page

            client._calls.pages = no_pages
            await client._described(module_pb2.Module(name="modules/" + "0" * 64))

    asyncio.run(awaited())
    assert [each.facts_as_json for each in asked if isinstance(each, ListKernelsRequest)] == [True]


async def listed(stream: AsyncIterator[object]) -> list[object]:
    return [each async for each in stream]


def test_every_verb_gives_what_the_other_client_gives(address: str) -> None:
    asyncio.run(every_verb(address))


async def every_verb(address: str) -> None:
    with Client(address, timeout=60) as one:
        async with AsyncClient(address, timeout=60) as other:
            module = await other.add(CUBIN, "raycast")
            assert module == one.add(CUBIN)
            assert (await other.add(CUBIN)).sha256 == module.sha256
            sha = module.sha256
            assert await other.missing([sha, "0" * 64]) == ["0" * 64]
            assert await other.health() == one.health() == "SERVING"
            assert await other.server_info() == one.server_info()
            assert await other.module(sha) == module
            assert await other.relabel(sha, "cast") == one.record(sha) == await other.record(module)
            assert await listed(other.modules()) == list(one.modules())
            assert await other.object_data(sha, "") == CUBIN
            assert repr(await listed(other.lines(sha))) == repr(list(one.lines(sha)))
            assert (await listed(other.lines(sha)))[0].line.tolist() == next(one.lines(sha)).line.tolist()
            few = [f"{KERNEL}+16", 8, "nothing+1"]
            assert list(await other.symbolize(sha, few)) == list(one.symbolize(sha, few))
            many = [f"{KERNEL}+{at}" for at in range(0, 4096, 8)]
            assert list(await other.symbolize(sha, many)) == list(one.symbolize(sha, many))
            assert await other.symbolize_one(module, few[0]) == one.symbolize_one(sha, few[0])
            for count in (10, 300_000):
                column = np.arange(count, dtype=np.uint64) % np.uint64(9000)
                found = await other.symbolize_column(sha, column, kernel=KERNEL)
                wanted = one.symbolize_column(sha, column, kernel=KERNEL)
                assert list(found[::97]) == list(wanted[::97])
                assert len(found) == count
            assert list(await other.symbolize(sha, np.arange(99))) == list(one.symbolize(sha, np.arange(99)))
            assert list(await other.symbolize(sha, range(99))) == list(one.symbolize(sha, range(99)))
            line = (await other.symbolize_one(sha, few[0])).frames[0]
            where = f"{line.file}:{line.line}"
            assert await other.locate(sha, where) == one.locate(sha, where)
            assert list(await other.names(sha, "*")) == list(one.names(sha, "*"))
            vadd = await other.add(VADD)
            assert await other.variables(vadd, "vadd+0x1b0") == one.variables(vadd, "vadd+0x1b0")
            assert await other.sources(sha, [line.file]) == one.sources(sha, [line.file])
            dump = await other.add(DUMP)
            assert await other.core(dump) == one.core(dump.sha256)
            await other.remove(dump)
            assert await other.missing([dump.sha256]) == [dump.sha256]
            assert (await other.with_timeout(9).health()) == "SERVING"


def test_contexts_and_aliases_are_the_same(address: str) -> None:
    asyncio.run(contexts_and_aliases(address))


async def contexts_and_aliases(address: str) -> None:
    with Client(address, timeout=60) as one:
        async with AsyncClient(address, timeout=60) as other:
            sha = (await other.add(VADD)).sha256
            name = await other.contexts.add(Context("host", 7, "gpu"))
            second = await other.contexts.add(Context("host", 8, "gpu"))
            assert await other.contexts.get(name) == one.contexts.get(name)
            assert await listed(other.contexts.all()) == list(one.contexts.all())
            assert await listed(other.contexts.all(name)) == list(one.contexts.all(name))
            load = Load(sha, 100, load_base=0x10000, path="vadd")
            assert len(await other.contexts.record(name, [load, Unload("gone", 200)])) == 2
            assert await listed(other.contexts.loads(name)) == list(one.contexts.loads(name))
            values = np.array([0x10000 + 16, 5], np.uint64)
            found = await other.contexts.symbolize(name, values, 150)
            assert list(found) == list(one.contexts.symbolize(name, values, 150))
            await other.contexts.remove(second)
            with pytest.raises(ContextNotFound):
                await other.contexts.get(second)
            with pytest.raises(BadQuery):
                await listed(other.contexts.loads(name, -1))
            alias = Alias("build-id", "abc", sha)
            await other.aliases.add([alias])
            assert await other.aliases.resolve("build-id", "abc") == one.aliases.resolve("build-id", "abc")
            assert await other.aliases.resolve("build-id", "none") is None
            assert await listed(other.aliases.of(sha)) == list(one.aliases.of(sha))
            await other.aliases.remove("build-id", "abc")
            assert await listed(other.aliases.of(sha)) == []


ERRORS = {
    "an unknown module": (lambda c: c.module("0" * 64), ModuleNotFound),
    "no digest": (lambda c: c.module("abc"), BadQuery),
    "a summary of an object": (lambda c: c.symbolize(7, []), InvalidInput),
    "no query": (lambda c: c.symbolize("0" * 64, "vadd+1"), BadQuery),
    "no part": (lambda c: anext(c.listing("0" * 64, "vadd")), BadQuery),
    "no level": (lambda c: anext(c.lines("0" * 64, None, "sass")), BadQuery),
    "no files": (lambda c: c.sources("0" * 64, "vadd.cl"), BadQuery),
    "no modules": (lambda c: c.missing("0" * 64), BadQuery),
    "no bytes": (lambda c: c.add("file"), InvalidInput),
    "no format": (lambda c: c.add(b"noise" * 9), SymdError),
    "an unknown service": (lambda c: c.health("nothing"), NotFound),
    "no driver": (lambda c: c.object_data("0" * 64, "x"), ModuleNotFound),
}


@pytest.mark.parametrize(("ask", "kind"), ERRORS.values(), ids=ERRORS)
def test_errors_are_the_same(address: str, ask, kind: type[SymdError]) -> None:
    with Client(address, timeout=60) as client, pytest.raises(kind) as wanted:
        ask(client)

    async def asked() -> None:
        async with AsyncClient(address, timeout=60) as client:
            await ask(client)

    with pytest.raises(kind) as found:
        asyncio.run(asked())
    assert (type(found.value), str(found.value)) == (type(wanted.value), str(wanted.value))


def test_nobody_answers(tmp_path: Path) -> None:
    async def asked() -> None:
        async with AsyncClient(f"unix:{tmp_path}/nobody") as client:
            await client.health()

    with pytest.raises(ServerUnavailable, match="no such socket"):
        asyncio.run(asked())


def test_too_little_time_is_said(tmp_path: Path) -> None:
    async def asked() -> None:
        async with AsyncClient(f"unix:{tmp_path}/silent") as client:
            await client.with_timeout(0.2).health()

    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(tmp_path / "silent"))
        silent.listen()
        with pytest.raises(DeadlineExceeded, match=r"no answer within 0\.2 s"):
            asyncio.run(asked())


def test_watches_tell_what_happens_and_end_when_they_are_closed(address: str) -> None:
    async def watched() -> tuple[list[object], list[object]]:
        async with AsyncClient(address, timeout=60) as client:
            sha = (await client.add(VADD)).sha256
            await client.remove(sha)
            happened: list[object] = []
            async with client.watch(only_new=True) as modules:
                async for event in modules:
                    happened.append(event)
                    if isinstance(event, Watching):
                        await client.add(VADD)
                    if isinstance(event, ModuleAdded):
                        await client.remove(sha)
                    if isinstance(event, ModuleRemoved):
                        modules.close()
            await client.add(VADD)
            resolved: list[object] = []
            async with client.watch([Breakpoint("b", SourceLine("vadd.cl", 9))]) as watch:
                async for found in watch:
                    resolved.append(found)
                    if isinstance(found, Watching):
                        break
            return happened, resolved

    happened, resolved = asyncio.run(watched())
    assert [type(each) for each in happened] == [Watching, ModuleAdded, ModuleRemoved]
    assert any(isinstance(each, Resolved) and each.answer.locations for each in resolved)


def test_calls_of_many_tasks_run_together_and_one_may_be_cancelled(address: str) -> None:
    async def asked() -> None:
        async with AsyncClient(address, timeout=60) as client:
            sha = (await client.add(CUBIN)).sha256
            endless = client.watch(only_new=True)
            waiting = asyncio.ensure_future(listed(endless))
            answers = await asyncio.gather(*(client.symbolize_one(sha, f"{KERNEL}+{at}") for at in range(0, 512, 16)))
            with Client(address, timeout=60) as other:
                assert answers == list(other.symbolize(sha, [f"{KERNEL}+{at}" for at in range(0, 512, 16)]))
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            assert await client.health() == "SERVING"

    asyncio.run(asked())


def test_a_token_goes_with_every_call_and_only_where_nobody_reads_it(tmp_path: Path) -> None:
    async def connected(address: str) -> object:
        channel, metadata = connect(address, Credentials(token="secret"), grpc.aio)  # noqa: S106 - a made one
        await channel.close()
        return metadata

    assert asyncio.run(connected("127.0.0.1:1")) == (("authorization", "Bearer secret"),)
    assert asyncio.run(connected("tls:host:1")) == (("authorization", "Bearer secret"),)
    assert asyncio.run(connected(f"unix:{tmp_path}/s")) == ()
    with pytest.raises(InvalidInput, match="a token would travel readable"):
        asyncio.run(connected("host:1"))


@pytest.mark.parametrize("uses", [False, True])
def test_a_client_that_was_closed_says_so(address: str, uses: bool) -> None:
    async def run() -> list[str]:
        client = AsyncClient(address, timeout=60)
        if uses:
            await client.server_info()
        begun = client.modules()
        await client.close()
        calls = (
            client.server_info(),
            client.health(),
            client.add(VADD),
            client.symbolize_one("0" * 64, 8),
            client.contexts.add(Context(process=1)),
            anext(client.lines("0" * 64)),
            anext(begun),
        )
        return [str(each) for each in await asyncio.gather(*calls, return_exceptions=True)]

    told = asyncio.run(run())
    assert told == [f"{address}: this client is closed (ask before close(), or inside its `with`)"] * 7


def test_calls_that_run_while_their_client_is_closed_say_so_and_cancel_nobody(tmp_path: Path) -> None:
    async def run(silent: socket.socket) -> list[BaseException]:
        client = AsyncClient(f"unix:{tmp_path}/s")
        calls = (client.server_info(), anext(client.lines("0" * 64)), client.add(VADD))
        asked = [asyncio.ensure_future(each) for each in calls]
        with (await asyncio.to_thread(silent.accept))[0]:  # the calls have begun
            await client.close()
            return await asyncio.gather(*asked, return_exceptions=True)

    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(tmp_path / "s"))
        silent.listen()
        told = asyncio.run(run(silent))
    assert [str(each).partition(" (")[0] for each in told] == [f"unix:{tmp_path}/s: this client is closed"] * 3
