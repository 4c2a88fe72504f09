"""Sample profiles, the modules that they speak of in an engine of this process, and what independent tools say of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from symd.config import Limits
from symd.engine.engine import Engine
from symd.profiles import NamedModule, Resolver
from symd.store import Store
from tests.profiles.modules import AMD, CUBIN, CUBIN_CRC, PRUNED, SAMPLES, ZEBIN


@pytest.fixture(scope="session")
def engine() -> Iterator[Engine]:
    limits = Limits()
    with Engine(Store.temporary(limits), limits) as engine:
        yield engine


def named_module(engine: Engine, path: Path, identity: str | None = None) -> NamedModule:
    return NamedModule(engine.add(path.read_bytes(), path.name).sha256, path.name, identity)


@pytest.fixture(scope="session")
def resolver(engine: Engine) -> Resolver:
    """Everything that the sample profiles name, except what must stay unknown."""
    named = [(AMD, "gpu-shade"), (AMD, "shade.co"), (AMD, "2"), (PRUNED, "4711/3"), (CUBIN, str(CUBIN_CRC))]
    return Resolver(
        engine, [named_module(engine, ZEBIN), *(named_module(engine, path, identity) for path, identity in named)]
    )


@pytest.fixture
def sample():
    return lambda name: (SAMPLES / name).read_bytes()
