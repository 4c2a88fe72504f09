"""Whatever a verb gives, and whatever it raises, can be sent to another process."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from collections.abc import Callable, Sequence

import numpy as np
import pytest

import symd
from symd import errors
from symd.errors import SymdError
from tests.python.conftest import SAMPLES


def same(one: object, other: object) -> bool:
    """Whether two values say the same, arrays in them too."""
    if isinstance(one, np.ndarray):
        return bool(np.array_equal(one, other))
    if isinstance(one, Sequence) and not isinstance(one, str | bytes) and not dataclasses.is_dataclass(one):
        return len(one) == len(other) and all(map(same, one, other))
    if dataclasses.is_dataclass(one):
        names = [each.name for each in dataclasses.fields(one) if each.name != "shared"]  # that is about this process
        return type(one) is type(other) and all(same(getattr(one, name), getattr(other, name)) for name in names)
    return one == other


VALUES: dict[str, Callable[[symd.Module], object]] = {
    "summary": lambda m: m.summary,
    "answer": lambda m: m.symbolize(f"{m.kernels[0].name}+16"),
    "answers": lambda m: m.symbolize([f"{m.kernels[0].name}+16", "nothing+1", "8"]),
    "column": lambda m: m.symbolize(np.arange(0, 4096, 16), kernel=m.kernels[0].name),
    "lines": lambda m: m.lines(),
    "located": lambda m: m.locate("raycast.cu:12"),
    "nowhere": lambda m: m.locate("other.cu:12"),
    "names": lambda m: m.names(),
    "variables": lambda m: m.variables(f"{m.kernels[0].name}+0x100"),
    "sources": lambda m: m.sources(["a.cu"]),
    "records": lambda m: list(m.symbolizer.modules()),
}


@pytest.mark.parametrize("take", VALUES.values(), ids=VALUES)
@pytest.mark.parametrize("protocol", [2, pickle.HIGHEST_PROTOCOL])
def test_what_a_verb_gives_can_be_pickled(cubin: symd.Module, take, protocol: int) -> None:
    value = take(cubin)
    assert same(value, pickle.loads(pickle.dumps(value, protocol)))  # noqa: S301 - our own bytes
    assert same(value, copy.deepcopy(value))


def test_a_core_dump_can_be_pickled() -> None:
    with symd.open(SAMPLES / "cores" / "bin" / "illegal_address.nvcudmp") as dump:
        value = dump.core()
        assert same(value, pickle.loads(pickle.dumps(value)))  # noqa: S301 - our own bytes


def test_the_comparison_sees_a_difference(cubin: symd.Module) -> None:
    (table,) = cubin.lines()
    assert not same(table, dataclasses.replace(table, line=table.line + 1))


@pytest.mark.parametrize(
    "name", [name for name, value in vars(errors).items() if isinstance(value, type) and issubclass(value, SymdError)]
)
def test_errors_can_be_pickled(name: str) -> None:
    error = getattr(errors, name)("message", where="here", hint="do this", metadata={"key": "value"})
    again = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
    assert isinstance(again, SymdError)
    assert (type(again), str(again), again.metadata) == (type(error), str(error), error.metadata)
