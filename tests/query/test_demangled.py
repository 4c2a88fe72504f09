"""Mangled names as they are read here, beside c++filt."""

from __future__ import annotations

import re
import subprocess
import tracemalloc
from pathlib import Path

import pytest

from symd.query.demangled import demangled
from tests.tools import require

SAMPLES = Path(__file__).parents[2] / "samples"
WRITTEN_HERE = [
    "_Z4plusff",
    "_Z4zerov",
    "_ZN7shading5marchIfEEvT_i",
    "_ZN5shape4areaEv",
    "_ZNK5shape4areaEv",
    "_ZN5shapeC1Ei",
    "_ZN5shapeD2Ev",
    "_ZN12_GLOBAL__N_13sumEi",
    "_ZL4onlyf",
    "_Z4fillIfLi3EEvPT_",
    "_Z4fillIjLb1EEvPKT_S2_",
    "_ZplRK5shapeS1_",
    "_ZN5shapeixEj",
    "_Z4lastIJifEEvv",
    "_Z3runILm18446744073709551615EEvv",
    "_Z3runILin4EEvv",
    "_Z4copyPU3AS1fPU3AS3Kf",
    "_Z4sameRKSt6vectorIiSaIiEE",
    "_Z5twicePfS_",
    "_Z4onlyDh",
    "_ZN1aIiE1bIfEEvT_",
    "_Z3getIvEvv",
    "_Z4packIJffEEvDpT_",
    "_ZSt4swapIfEvRT_S1_",
    "_ZN5outer5inner3runEPS0_",
    "_ZN1aB5cxx111fEv",
    "_Z1fPFviE",
    "_Z1fPA4_i",
    "_Z1fM1aKFivE",
    "_Z1fISsEvv",
    "_Z3runIZ4mainEUliE_EvT_",
    "_ZZ4mainENKUliE0_clEi",
    "_ZN1acvT_IfEEv",
    "_Z3runIXadL_ZN1a1bEvEEEvv",
    "_Z3runIXmlLi2ELi3EEEvv",
    "_Z4packIJfiEEvDpPT_",
    "_ZN1aIiEC1Ev",
    "_Z4doneDn",
    "_ZTSZ4mainEUlvE_",
    "_ZN1a1bEv.isra.0",
    "_Z4testIfENSt9enable_ifIXgtstT_Li1EEvE4typeES1_",
    "_ZNK3foo3barEv.cold",
]


def mangled_names() -> list[str]:
    found = {*WRITTEN_HERE}
    for path in SAMPLES.rglob("bin/**/*"):
        if path.is_file() and path.suffix != ".spv":
            found |= {name.decode() for name in re.findall(rb"(?<![\w$.])_Z[\w$]{3,}", path.read_bytes())}
    return sorted(found)


def spaceless(name: str) -> str:
    """Demanglers differ on spaces between closing brackets, and on brackets that only group."""
    return re.sub(r"(?<!\w) +| +(?!\w)|[()]", "", name)


def test_names_read_as_cxxfilt_reads_them_or_not_at_all() -> None:
    names = mangled_names()
    answer = subprocess.run(
        [require("c++filt"), "--no-verbose"], input="\n".join(names), capture_output=True, text=True, check=True
    )
    read = {name: theirs for name, theirs in zip(names, answer.stdout.splitlines(), strict=True) if theirs != name}
    ours = {name: demangled(name) for name in read}
    assert {name: spaceless(text) for name, text in ours.items() if text} == {
        name: spaceless(read[name]) for name, text in ours.items() if text
    }
    assert all(ours[name] for name in WRITTEN_HERE)
    assert all(ours.values())


NOT_UNDERSTOOD = (
    "plain",
    "_Z",
    "_Z4",
    "_Z9short",
    "_Z1fIXadE",
    "_Z1fS_",
    "_Z1fT_",
    "_Z1fPFvi",
    "_ZN1a",
    "_Z3addffE",
    "_Z1f" + "P" * 4000 + "i",
    "_Z1fI" * 500,
    "_Z1f" + "N1a" * 900,
)


@pytest.mark.parametrize("name", NOT_UNDERSTOOD)
def test_what_is_not_understood_is_no_name(name: str) -> None:
    assert demangled(name) is None


def doubling(often: int) -> str:
    """A function whose parameter types are each twice the one before: a<int, int>, b<a<int, int>, a<int, int>>, ..."""
    digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    further = (f"1{chr(ord('b') + at)}I" + f"S{digits[2 * at]}_" * 2 + "E" for at in range(often))
    return "_Z1f1aIiiE" + "".join(further)


def test_a_short_name_does_not_read_as_an_endless_one() -> None:
    assert demangled(doubling(1)) == "f(a<int, int>, b<a<int, int>, a<int, int>>)"
    assert demangled(doubling(17)) is None


def test_a_short_name_that_reads_as_a_very_long_one_takes_little() -> None:
    """Each class has the one before twice, and the arguments name the last one again and again."""
    doubled = "1a" + "".join(
        f"1bI{f'S{at}_' if at else 'S_'}{f'S{at}_' if at else 'S_'}E" for at in ("", *range(1, 20, 2))
    )
    tracemalloc.start()
    try:
        for count in (1, 900):
            assert demangled(f"_Z1f{doubled}" + "SI_" * count) is None
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()
