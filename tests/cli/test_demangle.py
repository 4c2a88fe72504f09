"""The demangler is an outside program: whatever becomes of it is one error that names it."""

from __future__ import annotations

import shutil
import stat
from pathlib import Path

import pytest

from symd import errors
from symd.query.demangler import Demangler
from tests.tools import require

MANGLED = ["_Z4vaddi", "_ZN1a1bEv", "_Z", "plain"]


@pytest.fixture
def filt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Puts a shell script in the place of c++filt, before all that PATH has."""

    def install(script: str) -> Demangler:
        (tmp_path / "c++filt").write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / "c++filt").chmod(stat.S_IRWXU)
        monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
        return Demangler()

    return install


def test_names_are_read_and_those_that_cannot_be_stay_as_they_are() -> None:
    require("c++filt")
    assert Demangler().names(MANGLED) == {"_Z4vaddi": "vadd(int)", "_ZN1a1bEv": "a::b()"}


def test_names_of_rust_are_read_as_addr2line_reads_them() -> None:
    require("c++filt")
    new, old = "_RINvNtCs7euy8ZCrhpB_5saxpy4math5twicefEB4_", "_ZN5saxpy4math5twice17heb51b2c16038bf2cE"
    assert Demangler().names([new, old, "_Reset", "_Done"]) == {
        new: "saxpy::math::twice::<f32>",
        old: "saxpy::math::twice",
    }


def test_what_the_demangler_does_not_read_is_asked_for_once(filt, tmp_path: Path) -> None:
    demangler = filt(f"echo run >> {tmp_path}/runs; exec {shutil.which('cat')}")
    assert [demangler.names(["_D6shapes7advanceFfZf"]) for _ in range(2)] == [{}, {}]
    assert (tmp_path / "runs").read_text() == "run\n"


def test_a_function_that_was_folded_into_a_kernel() -> None:
    require("c++filt")
    folded = "$_Z5probePfPK6float3$_Z11distance_tofff"
    assert Demangler().names([folded, "$__internal_0_$__cuda_sm20_rcp"]) == {folded: "distance_to(float, float, float)"}


def test_each_name_is_asked_for_once(filt, tmp_path: Path) -> None:
    demangler = filt(f"echo run >> {tmp_path}/runs; exec {shutil.which('cat')}")
    for _ in range(2):
        demangler.names(MANGLED)
    assert (tmp_path / "runs").read_text() == "run\n"


@pytest.mark.parametrize(
    ("script", "kind", "said"),
    [
        ("kill -SEGV $$", errors.ToolCrashed, "died of SIGSEGV"),
        ("echo no memory >&2; exit 4", errors.ToolFailed, "exit status 4; its last words: no memory"),
        ("cat > /dev/null; echo one", errors.ToolFailed, "answered 1 of 3 names"),
        ("exec yes", errors.LimitExceeded, "wrote more than"),
        ("sleep 600", errors.DeadlineExceeded, "no end within 1 seconds"),
    ],
)
def test_a_demangler_that_fails_is_one_error_that_says_what_to_do(
    filt, script: str, kind, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("symd.query.demangler.DEMANGLE_SECONDS", 1.0 if "sleep" in script else 60.0)
    with pytest.raises(kind, match=said) as caught:
        filt(script).names(MANGLED)
    assert type(caught.value) is kind
    assert "c++filt" in caught.value.where
    assert caught.value.hint == "leave out -C"
    assert caught.value.exit_code in (2, 3)
