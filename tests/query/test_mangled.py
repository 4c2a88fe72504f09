"""Qualified names out of mangled ones, beside c++filt."""

from __future__ import annotations

import re
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from symd.query.mangled import qualified_name
from tests.tools import require

READ = [
    "_Z5shadePfPKfi",
    "_ZL4tonef",
    "_ZN7shading5marchIfEET_S1_i",
    "_ZN12_GLOBAL__N_14toneEf",
    "_ZNSt6vectorIiSaIiEE9push_backERKi",
    "_ZSt4swapIiEvRT_S1_",
    "_ZN3fooILi5EE3barEv",
    "_ZN3fooINS_3barIiEEE1xIFvvEEEvv",
    "_ZN5Outer5InnerIDv4_fE3runEv",
    "_ZNK5Outer5Inner4sizeEv",
    "_ZN5OuterC1Ei",
    "_ZN5OuterD2Ev",
    "_ZN3fooIA4_iE3barEv",
    "_ZN5outerL5innerEv",
]
LEFT = [
    "",
    "_Z",
    "vadd",
    "_ZN1aplERKS_S1_",
    "_Z99999a",
    "_ZN3fooIA4_iXadL_Z3gvEEE3barEv",
    "_ZN3foo",
    "_ZN3fooI",
    "_ZNE1",
]


def without_arguments(readable: str) -> str:
    """c++filt's answer less parameters, template arguments and return type."""
    text = readable.replace("(anonymous namespace)", "@").removesuffix(" const")
    while re.search(r"<[^<>]*>", text):
        text = re.sub(r"<[^<>]*>", "", text)
    return text.partition("(")[0].rpartition(" ")[2].replace("@", "(anonymous namespace)")


@pytest.mark.parametrize("mangled", READ)
def test_it_is_what_cxxfilt_says_less_arguments_and_parameters(mangled: str) -> None:
    done = subprocess.run([require("c++filt"), mangled], capture_output=True, text=True, check=True)
    assert qualified_name(mangled) == without_arguments(done.stdout.strip())


def test_vendors_address_spaces_are_passed_over() -> None:
    """As IGC's clang mangles members of C++ for OpenCL; c++filt does not read them."""
    assert qualified_name("_ZNU3AS4K6signal6WindowIfE4meanEv") == "signal::Window::mean"


@pytest.mark.parametrize("text", LEFT)
def test_what_is_not_understood_has_no_name(text: str) -> None:
    assert qualified_name(text) in (None, "")


@given(st.text("_ZNIEKLSTC123456790abxlisvPR", max_size=40))
def test_any_text_is_read_or_left(rest: str) -> None:
    assert isinstance(qualified_name("_Z" + rest), str | None)
