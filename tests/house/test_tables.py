"""Every module that reads a format stands in its table, and every sample is claimed by exactly one reader."""

from __future__ import annotations

import inspect
import pkgutil
from importlib import import_module
from pathlib import Path

import pytest

from symd import errors
from symd.debuginfo import relocation
from symd.errors import SymdError
from symd.formats import containers
from symd.formats.containers import FORMATS
from symd.model.code import RelocationScheme
from symd.server import rpc
from symd.server.server import handler, services

STATUSES = {
    "INVALID_ARGUMENT", "NOT_FOUND", "FAILED_PRECONDITION", "RESOURCE_EXHAUSTED", "UNIMPLEMENTED", "DEADLINE_EXCEEDED",
    "UNAVAILABLE", "INTERNAL", "DATA_LOSS", "OUT_OF_RANGE", "UNAUTHENTICATED", "PERMISSION_DENIED",
}  # fmt: skip
SAMPLES = [
    path
    for path in sorted((Path(__file__).parents[2] / "samples").glob("*/bin/**/*"))
    if path.is_file() and path.suffix not in {".txt", ".json", ".md"}
]


def modules_with_the_three_names() -> set[str]:
    found = (
        import_module(info.name) for info in pkgutil.walk_packages(containers.__path__, "symd.formats.containers.")
    )
    return {module.__name__ for module in found if all(hasattr(module, name) for name in ("NAME", "claims", "read"))}


def test_every_format_module_is_in_the_table_once() -> None:
    names = [module.__name__ for module in FORMATS]
    assert sorted(names) == sorted(modules_with_the_three_names())
    assert len({module.NAME for module in FORMATS}) == len(FORMATS)


@pytest.mark.parametrize("module", [*FORMATS], ids=lambda module: module.NAME)
def test_every_reader_is_asked_as_the_opener_asks(module: containers.Format) -> None:
    """The table has the readers by name, so that the type checker does not compare them with ``Format``."""
    for name in ("claims", "read"):
        expected = inspect.get_annotations(getattr(containers.Format, name))
        assert inspect.get_annotations(getattr(module, name)) == expected


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: "/".join(path.parts[-3:]))
def test_a_sample_is_claimed_by_exactly_one_reader(sample: Path) -> None:
    data = sample.read_bytes()
    assert len([module.NAME for module in FORMATS if module.claims(data)]) == 1


@pytest.mark.parametrize("module", [*FORMATS], ids=lambda module: module.NAME)
def test_claims_never_raises(module: containers.Format) -> None:
    for data in (b"", b"\0", b"\x7fELF", b"CTNI", b"\x7fELF" + bytes(60), bytes(range(256))):
        assert module.claims(data) in (True, False)


def every_error(cls: type[SymdError] = SymdError) -> list[type[SymdError]]:
    return [cls, *(error for child in cls.__subclasses__() for error in every_error(child))]


def test_every_error_has_a_real_status_a_reason_of_its_own_and_a_line_in_the_drawing() -> None:
    classes = every_error()
    assert {cls.status for cls in classes} <= STATUSES
    named = [cls for cls in classes if cls is not errors.NoSuchFile]  # it is what Python calls a bad input of that kind
    assert len({cls.reason for cls in named}) == len(named)
    drawn = {line.replace("+--", " ").replace("|", " ").split()[0] for line in (errors.__doc__ or "").splitlines()[2:]}
    assert {cls.__name__ for cls in classes} <= drawn
    assert all(errors.by_reason(cls.reason) is cls for cls in named)


def test_every_relocation_scheme_is_in_the_table() -> None:
    assert set(relocation.SCHEMES) == set(RelocationScheme)


def test_every_module_of_server_rpc_answers_a_service_of_the_protos() -> None:
    found = {info.name for info in pkgutil.iter_modules(rpc.__path__)}
    handlers = [handler(method) for service in services() for method in service.methods]
    assert len(set(handlers)) == len(handlers)
    assert found == {each.__module__.rpartition(".")[2] for each in handlers}
