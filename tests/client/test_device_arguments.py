"""What the verbs about contexts take for addresses, times and names, and what they say to anything else: in-process, over the channel, awaited."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from symd import AsyncClient, ByKernel, Client, KernelOffset
from symd.api import ContextVerbs
from symd.async_client import AsyncContexts
from symd.client import MAX_ADDRESSES_PER_CALL
from symd.config import Limits
from symd.engine.engine import Engine
from symd.errors import BadQuery, ContextNotFound
from symd.model.addresses import ByAddress, DeviceAddress, ObjectAddress
from symd.model.contexts import Alias, Context, Load, Segment, Unload
from symd.model.identities import ObjectPath
from symd.server.config import Config
from symd.server.listening import listening
from symd.server.server import build_daemon
from symd.store import Store

VADD = (Path(__file__).parents[2] / "samples/kernels/bin/vadd/skl-O0.dbg").read_bytes()
START = 0xFFFF_8000_0001_0000
WHERE = START + 0x368


class Awaited:
    """The verbs of an ``AsyncClient``, each awaited in an event loop of its own."""

    def __init__(self, address: str, verbs: str) -> None:
        self._address, self._verbs = address, verbs

    def __getattr__(self, verb: str) -> Callable[..., Any]:
        async def called(*arguments: Any) -> Any:
            async with AsyncClient(self._address, timeout=60) as client:
                answer = getattr(getattr(client, self._verbs), verb)(*arguments)
                return await answer if inspect.isawaitable(answer) else [each async for each in answer]

        return lambda *arguments: asyncio.run(called(*arguments))


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """The verbs of each kind over one store, and the id of a context in which a module is loaded from time 100 on."""
    folder = tmp_path_factory.mktemp("daemon")
    config = Config(limits=Limits(), store=folder / "store", address=f"unix:{folder}/s", grace=1.0)
    with Engine(Store(config.store, config.limits, durable=False), config.limits) as engine:
        context = engine.contexts.add(Context("host", 1, "gpu 0", "test", 48))
        segment = Segment(DeviceAddress(START), 0, ByKernel("vadd", KernelOffset(0)))
        engine.contexts.record(context, [Load(engine.add(VADD).sha256, 100, (segment,))])
        daemon = build_daemon(engine, config)
        with listening(daemon.server, config.address) as address, Client(address, timeout=60) as client:
            daemon.server.start()
            yield {
                "engine": engine.contexts,
                "client": client.contexts,
                "async client": Awaited(address, "contexts"),
                "aliases": [engine.aliases, client.aliases, Awaited(address, "aliases")],
                "context": context,
                "module": engine.add(VADD).sha256,
            }
            daemon.stop(1)


@pytest.fixture(params=["engine", "client", "async client"])
def contexts(request: pytest.FixtureRequest, everything: dict[str, Any]) -> Any:
    return everything[request.param]


@pytest.fixture
def context(everything: dict[str, Any]) -> str:
    name: str = everything["context"]
    return name


ADDRESSES: dict[str, Any] = {
    "a number": WHERE,
    "a list": [WHERE],
    "a tuple": (WHERE,),
    "a range": range(WHERE, WHERE + 1),
    "a number of NumPy": np.uint64(WHERE),
    "an array": np.array([WHERE], np.uint64),
    "an array without a dimension": np.array(WHERE, np.uint64),
    "a list of numbers of NumPy": [np.uint64(WHERE)],
}


@pytest.mark.parametrize("values", ADDRESSES.values(), ids=ADDRESSES)
def test_whatever_means_an_address_is_answered(contexts: Any, context: str, values: Any) -> None:
    (found,) = contexts.symbolize(context, values)
    assert found.address == WHERE
    assert found.answer.kernel == "vadd"


def test_columns_of_other_whole_numbers_and_of_none_are_taken(contexts: Any, context: str) -> None:
    assert len(contexts.symbolize(context, np.array([1, 2], np.int32))) == 2
    assert len(contexts.symbolize(context, [])) == 0
    assert len(contexts.symbolize(context, np.array([], np.int64))) == 0


WRONG_ADDRESSES: dict[str, tuple[Any, str]] = {
    "text": ("0x10", "the text '0x10' is not a device address"),
    "texts": (["0x10"], "the text '0x10' is not a device address"),
    "bytes": (b"\x10", "a bytes is not a device address"),
    "nothing": (None, "a NoneType is not a device address"),
    "a truth": (True, "a bool is not a device address"),
    "truths": (np.array([True]), "is not a device address"),
    "a fraction": (0.5, "a float is not a device address"),
    "fractions": (np.array([0.5]), "is not a device address"),
    "a negative number": (-1, "-1 is not a device address"),
    "negative numbers": (np.array([-1]), "-1 is not a device address"),
    "a large number": ([1 << 64], "18446744073709551616 is not a device address"),
    "two dimensions": (np.zeros((2, 2), np.uint64), "an ndarray is not a device address"),
}


@pytest.mark.parametrize(("values", "words"), WRONG_ADDRESSES.values(), ids=WRONG_ADDRESSES)
def test_what_is_no_address_is_told(contexts: Any, context: str, values: Any, words: str) -> None:
    with pytest.raises(BadQuery) as caught:
        contexts.symbolize(context, values)
    assert words in str(caught.value)


TIMES: dict[str, Any] = {
    "a number": 99,
    "a number of NumPy": np.int64(99),
    "a list": [99],
    "an array": np.array([99], np.int64),
    "an array of another type": np.array([99], np.uint64),
}


@pytest.mark.parametrize("times", TIMES.values(), ids=TIMES)
def test_whatever_means_a_time_is_taken(contexts: Any, context: str, times: Any) -> None:
    (found,) = contexts.symbolize(context, WHERE, times)
    assert found.answer.reason.name == "UNLOADED"


@pytest.mark.parametrize("times", ["1", [0.5], True, [-1], [1 << 63], np.array([1 << 63], np.uint64), [1, 2]], ids=str)
def test_what_is_no_time_is_told(contexts: Any, context: str, times: Any) -> None:
    with pytest.raises(BadQuery, match="time"):
        contexts.symbolize(context, WHERE, times)


@pytest.mark.parametrize("size", [2, MAX_ADDRESSES_PER_CALL])
def test_times_are_one_for_each_address_however_many_go_in_a_call(contexts: Any, context: str, size: int) -> None:
    values = np.full(size, WHERE, np.uint64)
    for count in (size - 1, size + 1):
        with pytest.raises(BadQuery, match=rf"^{count:,} times? for {size:,} addresses "):
            contexts.symbolize(context, values, np.zeros(count, np.int64))


def test_more_addresses_than_go_in_a_call_are_each_answered_as_of_their_time(contexts: Any, context: str) -> None:
    size = 2 * MAX_ADDRESSES_PER_CALL + 1
    answers = contexts.symbolize(context, np.full(size, WHERE, np.uint64), np.arange(size) % 2 * 100)
    assert [found.answer.reason.name for found in (answers[0], answers[1], answers[size - 1])] == [
        "UNLOADED",
        contexts.symbolize(context, WHERE)[0].answer.reason.name,
        "UNLOADED",
    ]


@pytest.mark.parametrize("after", [-1, 1 << 63, "1", 0.5, None, True], ids=str)
def test_what_is_no_number_of_a_load_is_told(contexts: Any, context: str, after: Any) -> None:
    with pytest.raises(BadQuery, match="is not the number of a load"):
        list(contexts.loads(context, after))


def test_a_context_is_named_by_its_id_its_name_or_its_record(contexts: Any, context: str) -> None:
    record = contexts.get(context)
    assert record in list(contexts.all())
    for name in (context, f"contexts/{context}", record):
        assert contexts.get(name) == record
        assert contexts.symbolize(name, WHERE)[0].answer.kernel == "vadd"
        assert len(list(contexts.loads(name))) == 1
        assert contexts.record(name, []) == []
        assert record not in list(contexts.all(name))


def test_a_context_is_removed_by_its_record(contexts: Any) -> None:
    name = contexts.add(Context("another", 2))
    contexts.remove(contexts.get(name))
    with pytest.raises(ContextNotFound):
        contexts.get(name)


@pytest.mark.parametrize("name", [7, None, Context()], ids=str)
def test_what_names_no_context_is_told(contexts: Any, name: Any) -> None:
    with pytest.raises(BadQuery, match="a context is named by its id, not by"):
        contexts.symbolize(name, WHERE)
    with pytest.raises(BadQuery, match="a context is named by its id, not by"):
        contexts.get(name)


@pytest.mark.parametrize("kind", [ContextVerbs, AsyncContexts])
def test_the_verb_says_what_it_takes(kind: type, everything: dict[str, Any]) -> None:
    told = inspect.getdoc(kind.symbolize) or ""  # type: ignore[attr-defined] # both have it
    assert all(word in told for word in ("BadQuery", "ContextNotFound", "values", "times"))
    for each in ("engine", "client"):
        assert inspect.getdoc(everything[each].symbolize) == inspect.getdoc(ContextVerbs.symbolize)


@pytest.fixture(params=[0, 1, 2], ids=["engine", "client", "async client"])
def aliases(request: pytest.FixtureRequest, everything: dict[str, Any]) -> Any:
    return everything["aliases"][request.param]


def test_the_context_of_an_alias_is_named_as_any_is(aliases: Any, everything: dict[str, Any], contexts: Any) -> None:
    context = everything["context"]
    alias = Alias("kind", "key", everything["module"], None, context)
    for name in (context, f"contexts/{context}", contexts.get(context)):
        aliases.add([alias])
        assert aliases.resolve("kind", "key", name) == alias
        aliases.remove("kind", "key", name)
        assert aliases.resolve("kind", "key", name) is None


@pytest.mark.parametrize(
    ("kind", "key"), [("\udc80", "key"), ("kind", "\udc80"), (7, "key"), ("kind", b"key")], ids=ascii
)
def test_what_is_no_name_of_an_alias_is_told(aliases: Any, everything: dict[str, Any], kind: Any, key: Any) -> None:
    with pytest.raises(BadQuery, match="of an alias"):
        aliases.add([Alias(kind, key, everything["module"])])
    with pytest.raises(BadQuery, match="of an alias"):
        aliases.resolve(kind, key)
    with pytest.raises(BadQuery, match="of an alias"):
        aliases.remove(kind, key)


def test_a_key_that_no_encoding_has_is_told(everything: dict[str, Any]) -> None:
    with pytest.raises(BadQuery, match="is not a character"):
        everything["engine"].record(everything["context"], [Unload("\udc80", 5)])


def test_an_alias_takes_the_context_that_is_asked_for(aliases: Any, everything: dict[str, Any]) -> None:
    context = everything["context"]
    aliases.add([Alias("kind", "told", everything["module"], None, f"contexts/{context}")])
    assert aliases.resolve("kind", "told", context) == Alias("kind", "told", everything["module"], None, context)


def test_a_path_that_no_encoding_has_is_told(everything: dict[str, Any]) -> None:
    path, module = ObjectPath("\udc80"), everything["module"]
    with pytest.raises(BadQuery, match="is not a character"):
        everything["aliases"][0].add([Alias("kind", "key", module, path)])
    segment = Segment(DeviceAddress(0x1000), 16, ByAddress(ObjectAddress(0)), path)
    with pytest.raises(BadQuery, match="is not a character"):
        everything["engine"].record(everything["context"], [Load(module, 5, (segment,))])
