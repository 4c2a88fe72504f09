"""Every name that a demangler, a debugger or a sanitizer writes for a function means that function."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from symd.query.function_names import SymbolsByWord, symbols_meant
from symd.query.function_spellings import MAX_NAME_LENGTH, spellings, taken_apart, words_in
from symd.query.symbolize import NameSearchBudget
from tests.query.test_demangled import mangled_names
from tests.tools import require

TOOLS = ("c++filt", *filter(shutil.which, ("llvm-cxxfilt", *(f"llvm-cxxfilt-{version}" for version in range(13, 23)))))
RUST = (
    "_RNvXs7_Cs7euy8ZCrhpB_5saxpyfNtB5_3Add3add",
    "_RINvNtCs7euy8ZCrhpB_5saxpy4math5twicefEB4_",
    "_RNvMs_NtCs7euy8ZCrhpB_5saxpy4mathINtB4_4GainfE5apply",
    "_RNCNvCs7euy8ZCrhpB_5saxpy4main0B3_",
    "_RINvCs7euy8ZCrhpB_5saxpy4loopKj4_KbTRShPfEEB2_",
    "_ZN5saxpy4math5twice17heb51b2c16038bf2cE",
)
PYTORCH = (
    "_ZN2at6native18elementwise_kernelILi128ELi4EZNS0_22gpu_kernel_impl_nocastINS0_13BinaryFunctorIfffNS0_15binary_internal"
    "10MulFunctorIfEEEEEEvRNS_18TensorIteratorBaseERKT_EUliE_EEviT1_"
)


def readable(tool: str, names: list[str]) -> dict[str, str]:
    """What a demangler makes of names, of those that it reads."""
    done = subprocess.run([require(tool)], input="\n".join(names), capture_output=True, text=True, check=True)
    return {name: text for name, text in zip(names, done.stdout.splitlines(), strict=True) if name != text}


@pytest.mark.parametrize("tool", TOOLS)
def test_what_demanglers_write_means_the_function_that_they_write_it_for(tool: str) -> None:
    names = sorted({*mangled_names(), *RUST, PYTORCH})
    written = readable(tool, names)
    assert len(written) > 100
    symbols = SymbolsByWord(names)
    lost = {name: text for name, text in written.items() if name not in symbols.meant_by(text)}
    assert not lost
    assert {text: symbols.meant_by(text) for text in written.values()} == {
        text: sorted(meant, key=names.index)
        for text, meant in symbols_meant(written.values(), names, NameSearchBudget()).items()
    }


@pytest.mark.parametrize(
    ("mangled", "text"),
    [
        ("_Z7kernel1IfLi4ELb1EEvPT_S1_RKS0_", "void kernel1<float, (int)4, (bool)1>(T1 *, T1 *, const T1 &)"),
        ("_Z7kernel1IfLi4ELb1EEvPT_S1_RKS0_", "kernel1<float, (int)4, (bool)1>"),
        ("_Z5probePfPK6float3", "probe(float *, const float3 *)"),
        ("_Z4runsILj4EL4Mode2EEvv", "void runs<(unsigned int)4, (Mode)2>()"),
        ("_Z4runsILj4EL4Mode2EEvv", "void runs<unsigned int=4,Mode=2>(void)"),
        (
            "_ZN34_INTERNAL_8577d6c9_4_f_cu_6f27e61f36_GLOBAL__N__8577d6c9_4_f_cu_6f27e61f11loadGenericIfLi8EEEvPT_S3_",
            "void <unnamed>::loadGeneric<float, (int)8>(T1 *, T1 *)",
        ),
        (
            "_ZN3cub2NS11BlockReduceIfLi8ELi8EE19ApplyWarpAggregatesILb0ENS0_3MaxELi1EEEfT0_fiNS0_8Int2TypeIXT1_EEE",
            (
                "float cub::NS::BlockReduce<float, (int)8, (int)8>::ApplyWarpAggregates<(bool)0, cub::NS::Max, (int)1>"
                "(T2, float, int, cub::NS::Int2Type<T3>)"
            ),
        ),
        (
            PYTORCH,
            (
                "void at::native::elementwise_kernel<(int)128, (int)4, void at::native::gpu_kernel_impl_nocast<"
                "at::native::BinaryFunctor<float, float, float, at::native::binary_internal::MulFunctor<float>>>"
                "(at::TensorIteratorBase &, const T1 &)::[lambda(int) (instance 1)]>(int, T3)"
            ),
        ),
        ("_ZN7functorclIlEEvT_", "void functor::operator ()<long>(T1)"),
        ("_Z4sizeIJifEEvDpT_", "void size<int, float>(T1 ...)"),
        ("_Z2fpIvJiEEvPFT_DpT0_E", "void fp<void, int>(T1 (*)(T2...))"),
        ("_Z2dtIfEDTplfp_Li1EET_", "decltype((param#1+(int)1)) dt<float>(T1)"),
        ("_Z3runIZ4mainEUlT_E0_EvS0_", "void run<main::[lambda(T1) (instance 2)]>(T1)"),
        ("_ZZ4mainENKUlT_E0_clIiEEDaS_", "auto main::[lambda(T1) (instance 2)]::operator ()<int>(T1) const"),
        ("_Z6taggedB1qIiE3TagB2v1B2v2T_", "Tag[abi:v1,v2] tagged[abi:q]<int>(T1)"),
        ("_ZN8__main__5saxpyB2v1B4cw51Ef", "__main__::saxpy[abi:v1,cw51](float)"),
        ("_ZN1SC2IfEET_", "S::S<float>(T1) [subobject]"),
        ("_Z2auILDnEEvv", "void au<nullptr>()"),
    ],
)
def test_what_nvidias_tools_write_means_the_function(mangled: str, text: str) -> None:
    assert SymbolsByWord(["_Z5otherv", mangled]).meant_by(text) == [mangled]


@pytest.mark.parametrize(
    ("mangled", "text"),
    [
        ("_Z2ntIN2ns4ModeETnT_LS1_n3EEvv", "void nt<ns::Mode, (ns::Mode)-3>()"),
        ("_Z2auITnDaXadL_Z6targetiEEEvv", "void au<&target(int)>()"),
        ("_Z2auITnDaLDn0EEvv", "void au<nullptr>()"),
        ("_Z3seqITpTnmJEEvSt16integer_sequenceImJXspT_EEE", "void seq<>(std::integer_sequence<unsigned long, ...>)"),
        ("_Z3ttsITpTtTpTyEJEEvv", "void tts<>()"),
        ("_Z3conITk5SmalliEvT_", "void con<int>(int)"),
        ("_Z3reqIiQeqstT_Li4EEvS0_", "req<int>"),
        ("_Z3runIZ4mainEUlTniTyT0_E_EvS1_", "run<main::'lambda'<int $N, typename $T>($T)>"),
        (
            "_Z3runIZ4mainEUlTyT_E_EvS0_",
            "void run<main::{lambda<typename $T0>($T0)#1}>(main::{lambda<typename $T0>($T0)#1})",
        ),
        ("_ZNK4globMUlT_E_clIfEEDaS0_", "auto glob::'lambda'(auto)::operator()<float>(auto) const"),
    ],
)
def test_what_llvms_tools_write_of_newer_names_means_the_function(mangled: str, text: str) -> None:
    """Those of Clang 18 and later say what kind of parameter an argument is of; older demanglers do not read them."""
    assert SymbolsByWord(["_Z5otherv", mangled]).meant_by(text) == [mangled]


@pytest.mark.parametrize(
    "text",
    [
        "kernel1<float, (int)8, (bool)1>",
        "kernel1<double, (int)4, (bool)1>(T1 *, T1 *, const T1 &)",
        "kernel1<float, 4, true>(float*, float*, int)",
        "int kernel1<float, 4, true>",
        "other::kernel1<float, 4, true>",
        "kernel1[abi:v1]<float, 4, true>",
        "1<float, 4, true>",
    ],
)
def test_what_is_another_function_means_none(text: str) -> None:
    assert SymbolsByWord(["_Z7kernel1IfLi4ELb1EEvPT_S1_RKS0_"]).meant_by(text) == []


NUMBA = "_ZN8__main__5saxpyB2v1B4cw51Ef5ArrayIfLi1E1C7mutable7alignedE"


def test_abi_tags_are_part_of_a_name_that_may_be_left_out() -> None:
    again = NUMBA.replace("2v1", "2v2")
    for text in ("saxpy", "__main__::saxpy", "__main__::saxpy(float, Array<float, 1, C, mutable, aligned>)"):
        assert SymbolsByWord([NUMBA, again]).meant_by(text) == [NUMBA, again]
    for name in (NUMBA, again):
        for text in readable("c++filt", [NUMBA, again])[name], f"saxpy[abi:v{1 + (name == again)}][abi:cw51]":
            assert SymbolsByWord([NUMBA, again]).meant_by(text) == [name]


@pytest.mark.parametrize(
    ("mangled", "texts"),
    [
        (RUST[1], ("saxpy::math::twice", "math::twice", "twice", "saxpy::math::twice::<f32>", "twice<f32>")),
        (RUST[0], ("<f32 as saxpy::Add>::add", "add")),
        (RUST[5], ("saxpy::math::twice", "math::twice")),
        ("__shapes_MOD_advance", ("shapes::advance", "advance")),
        ("_QMshapesPadvance", ("shapes::advance", "advance")),
        ("_QMshapesFoutsidePinside", ("shapes::outside::inside", "inside")),
        ("_D6shapes5outer7advanceFfZf", ("shapes.outer.advance", "shapes::outer::advance", "advance")),
    ],
)
def test_the_names_of_other_languages(mangled: str, texts: tuple[str, ...]) -> None:
    for text in texts:
        assert SymbolsByWord(["other", mangled]).meant_by(text) == [mangled]


def test_the_whole_path_comes_before_the_end_of_one() -> None:
    inside, outside = "_ZN7shading5marchEf", "_Z5marchf"
    assert SymbolsByWord([inside, outside]).meant_by("march") == [outside]
    assert SymbolsByWord([inside]).meant_by("march") == [inside]
    assert SymbolsByWord([inside, outside]).meant_by("shading::march(float)") == [inside]


@pytest.mark.parametrize("name", ["operator->", "->", "a>", "", "(", "<", "foo bar baz", "a.b@c"])
def test_any_text_is_taken_apart(name: str) -> None:
    assert spellings(name) >= {name} - {""}
    assert taken_apart(f"{name}<int>").text


@given(st.text("_ZNIEKLSTCRX123456790abxlisvP<>()[]:,'{}#&*= ", max_size=60))
def test_no_text_makes_it_fail(text: str) -> None:
    for each in (text, f"_Z{text}", f"_R{text}", f"_D{text}"):
        spellings(each)
        words_in(each)


@pytest.mark.parametrize(
    "part", ["f()::", "1 ", "[abi:", "(", "<", "a::", "(a)", "{lambda(", "'lambda'(", "9999a", "a=1"]
)
def test_a_very_long_name_takes_steps_that_grow_with_it(part: str) -> None:
    """As many calls for twice the length are twice as many, and not four times."""
    import sys  # noqa: PLC0415 - of this test alone

    def steps(size: int) -> int:
        count = 0

        def note(*_: object) -> None:
            nonlocal count
            count += 1

        sys.setprofile(note)
        try:
            taken_apart("f<" + part * (size // len(part)))
        finally:
            sys.setprofile(None)
        return count

    assert steps(MAX_NAME_LENGTH) < 3 * steps(MAX_NAME_LENGTH // 2) + 1000
