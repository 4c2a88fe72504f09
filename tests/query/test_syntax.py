"""The query syntax, by examples and by writing queries out again."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from symd.errors import BadQuery
from symd.model.addresses import ByAddress, ByKernel, BySection, is_place, parse_query


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("0", ByAddress(0)),
        ("272", ByAddress(272)),
        ("0x110", ByAddress(272)),
        ("0X1aF", ByAddress(431)),
        ("010", ByAddress(10)),
        ("  0x110\t\r\n", ByAddress(272)),
        ("18446744073709551615", ByAddress(2**64 - 1)),
        ("vadd+0x1b0", ByKernel("vadd", 432)),
        ("vadd+432", ByKernel("vadd", 432)),
        ("operator++0x10", ByKernel("operator+", 16)),
        ("operator+++8", ByKernel("operator++", 8)),
        ("operator+", ByKernel("operator+", 0)),
        ("operator++", ByKernel("operator++", 0)),
        ("Vec::operator+=(Vec const&)", ByKernel("Vec::operator+=(Vec const&)", 0)),
        ("operator+(Vec, Vec)+0x10", ByKernel("operator+(Vec, Vec)", 16)),
        ("a+b+c+3", ByKernel("a+b+c", 3)),
        ("1+2", ByKernel("1", 2)),
        ("void f<(int)3>(float)+0x20", ByKernel("void f<(int)3>(float)", 32)),
        ("(anonymous namespace)::sum(int)+4", ByKernel("(anonymous namespace)::sum(int)", 4)),
        ("(anonymous namespace)::sum+4", ByKernel("(anonymous namespace)::sum", 4)),
        ("(.text.vadd)+0x1b0", BySection(".text.vadd", 432)),
        ("(.text.f(int))+1", BySection(".text.f(int)", 1)),
        ("()+1", BySection("", 1)),
        ("(#3)+16", BySection(3, 16)),
        ("(#0)+0x0", BySection(0, 0)),
        ("(#x)+1", BySection("#x", 1)),
        ("#3+1", ByKernel("#3", 1)),
        ("(.text+1", ByKernel("(.text", 1)),
        ("größe+1", ByKernel("größe", 1)),
    ],
)
def test_a_query_reads_as_it_is_written(text: str, query: object):
    assert parse_query(text) == query


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("operator+", False),
        ("operator+(Vec, Vec)", False),
        ("ns::operator++", False),
        ("operator+=", False),
        ("vadd", False),
        ("(anonymous namespace)::sum(int)", False),
        ("operator++0x10", True),
        ("operator+(Vec, Vec)+16", True),
        ("vadd+0x1b0", True),
        ("vadd+x", True),
        ("(.text)+0x10", True),
        ("0x1978", True),
        ("1978h", True),
    ],
)
def test_a_place_is_told_from_a_function(text: str, place: bool):
    assert is_place(text) is place


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "+",
        "+1",
        "vadd+",
        "vadd+x",
        "vadd+-1",
        "vadd+ 1",
        "-1",
        "1_000",
        "1.5",
        "\u0661",
        "vadd+\u00b2",
        "18446744073709551616",
        "0x10000000000000000",
        "9" * 10_000,
        "(.text)",
        "\0",
    ],
)
def test_what_is_no_query_is_refused_with_the_syntax(text: str):
    with pytest.raises(BadQuery) as caught:
        parse_query(text)
    assert "FUNCTION+OFFSET" in caught.value.hint or "behind 0x come hexadecimal digits" in caught.value.hint
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("0x", "hexadecimal digits"),
        ("0xg", "hexadecimal digits"),
        ("0x1_0", "hexadecimal digits"),
        ("1a04h", "write 0x1a04"),
    ],
)
def test_what_is_nearly_a_number_is_refused_with_what_it_lacks(text: str, said: str):
    with pytest.raises(BadQuery) as caught:
        parse_query(text)
    assert said in caught.value.hint


def test_many_leading_zeros_do_not_make_a_number_large():
    assert parse_query("0" * 10_000 + "7") == ByAddress(7)


@given(st.text(max_size=40))
def test_any_text_is_a_query_or_a_bad_query(text: str):
    with suppress(BadQuery):
        parse_query(text)


@given(
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1).map(str.strip).filter(bool), st.integers(0, 2**64 - 1)
)
def test_every_kernel_name_outside_parentheses_comes_back(name: str, offset: int):
    if name.startswith("("):
        name = "k" + name
    assert parse_query(f"{name}+{offset}") == ByKernel(name, offset)
    assert parse_query(f"{name}+{offset:#x}") == ByKernel(name, offset)


@pytest.mark.parametrize(
    ("text", "meant"), [("1a04", "0x1a04"), ("vadd+1b0", "vadd+0x1b0"), ("(.text)+f8", "(.text)+0xf8")]
)
def test_a_hexadecimal_number_without_its_mark_is_told_what_is_missing(text, meant):
    with pytest.raises(BadQuery) as caught:
        parse_query(text)
    assert caught.value.hint == f"hexadecimal numbers begin with 0x: {meant}"
    assert parse_query(meant)


@pytest.mark.parametrize("name", ["vadd", "größe", "_Z4vaddPf", "fade"])
def test_a_function_alone_is_where_it_begins(name):
    assert parse_query(name) == parse_query(f"{name}+0") == ByKernel(name, 0)


@pytest.mark.parametrize("text", ["vadd+cafe", "vadd+" + "1a" * 40])
def test_words_are_not_taken_for_numbers(text):
    with pytest.raises(BadQuery) as caught:
        parse_query(text)
    assert "ADDRESS" in caught.value.hint or (text, caught.value.hint) == ("1a04h", "write 0x1a04")


SYNTAX = "write ADDRESS, FUNCTION, FUNCTION+OFFSET, (SECTION)+OFFSET or (#INDEX)+OFFSET with decimal or 0x numbers"


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("vadd.cl:14", "to look up a source line, use: symd locate FILE vadd.cl:14"),
        ("vadd.cl:14:22", "to look up a source line, use: symd locate FILE vadd.cl:14:22"),
        ("0x10,0x20", "queries are separated by spaces or lines, not by commas: 0x10 0x20"),
        ("vadd+0x10, 0x20", "queries are separated by spaces or lines, not by commas: vadd+0x10 0x20"),
        ("0x10,", "queries are separated by spaces or lines, not by commas: 0x10"),
        ("vadd + 0x10", f"{SYNTAX}; without spaces: vadd+0x10"),
        ("sum(int, int) + 16", f"{SYNTAX}; without spaces: sum(int, int)+16"),
    ],
)
def test_a_place_as_others_write_it_is_told_how_symd_reads_it(text, meant):
    with pytest.raises(BadQuery) as caught:
        parse_query(text)
    assert caught.value.hint == meant


@pytest.mark.parametrize("text", ["sum(int, int)", "a:b", "x" * 50 + ".cl:1", ",", "vadd + x"])
def test_what_only_looks_like_it_is_told_the_syntax(text):
    with pytest.raises(BadQuery) as caught:
        parse_query(text)
    assert "FUNCTION+OFFSET" in caught.value.hint
