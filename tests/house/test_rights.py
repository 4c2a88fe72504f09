"""The right that each RPC takes is the one that docs/security.md says; a handler that declares none is not served."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from symd.server.config import Right
from symd.server.rpc import question_services
from symd.server.server import Router, methods
from symd.server.standard_services import HEALTH_METHODS, Health, Reflection

PAGE = Path(__file__).parents[2] / "docs/security.md"


def router() -> Router:
    return Router(None, Health((), None, None), Reflection((), None), None)  # type: ignore[arg-type] # asked for its rights only


def documented() -> dict[str, Right]:
    """The right of each RPC that the page names: those of symd.v1 stand there without their package."""
    section = PAGE.read_text().partition("### Rights\n")[2].partition("\n### ")[0]
    found = {}
    for right, names in re.findall(r"^\| `(\w+)` \| [^|]* \| (.*) \|$", section, re.MULTILINE):
        for name in re.findall(r"`([\w.]+)`", names):
            assert name not in found
            found[name if name.count(".") > 1 else f"symd.v1.{name}"] = Right(right)
    return found


def test_each_rpc_takes_the_right_that_the_page_says() -> None:
    rights, told = router().rights, documented()
    assert told.keys() <= rights.keys()
    assert rights == {name: told.get(name, Right.READ) for name in rights}
    assert set(told.values()) == {*Right} - {Right.READ}


def test_the_standard_services_take_the_right_to_read() -> None:
    rights = router().rights
    reflection = {f"grpc.reflection.{version}.ServerReflection.ServerReflectionInfo" for version in ("v1", "v1alpha")}
    standard = {*HEALTH_METHODS, *reflection}
    assert rights.keys() - methods().keys() == standard
    assert {name for name in rights if name.startswith("grpc.health.")} == {*HEALTH_METHODS}
    assert {rights[name] for name in standard} == {Right.READ}


def test_no_server_is_built_of_a_handler_that_declares_no_right(monkeypatch: pytest.MonkeyPatch) -> None:
    def symbolize(*_: object) -> None:
        """Not decorated."""

    assert router()
    monkeypatch.setattr(question_services, "symbolize", symbolize)
    with pytest.raises(TypeError, match="symbolize declares no right"):
        router()


def test_what_changes_something_is_not_for_readers() -> None:
    """By the verbs with which the names of such methods begin (AIP-130 and those of symd's own)."""
    verbs = ("Create", "Update", "Delete", "Upload", "Record", "Grab", "Initiate", "Mark")
    for name, right in router().rights.items():
        assert name.rpartition(".")[2].startswith(verbs) == (right is not Right.READ), name
