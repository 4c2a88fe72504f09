"""Code object URIs: the examples of the ROCdbgapi documentation, and what must not pass."""

from __future__ import annotations

import pytest

from symd.errors import BadQuery, Malformed, Unsupported
from symd.formats.containers import uri
from symd.formats.containers.uri import CodeObjectUri
from tests.formats.containers.amd import objects


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("file:///dir1/dir2/file1", CodeObjectUri("/dir1/dir2/file1")),
        ("file:///dir3/dir4/file2#offset=0x2000&size=3000", CodeObjectUri("/dir3/dir4/file2", 0x2000, 3000)),
        ("file:///a?offset=010&size=0X10", CodeObjectUri("/a", 8, 16)),
        ("file:///with%20space%23and%3Fmarks#offset=0&size=1", CodeObjectUri("/with space#and?marks", 0, 1)),
        ("file://relative/path", CodeObjectUri("relative/path")),
        ("file:///%C3%A9", CodeObjectUri("/é")),
    ],
)
def test_a_file_uri_is_read(text, found):
    assert uri.parse_uri(text) == found


@pytest.mark.parametrize(
    "text",
    [
        "/plain/path",
        "http://host/x",
        "file://",
        "file:///a#offset=1",
        "file:///a#size=1&offset=2",
        "file:///a#offset=&size=1",
        "file:///a#offset=-1&size=1",
        "file:///a#offset=08&size=1",
        "file:///a#offset=0x&size=1",
        "file:///a#offset=1&size=1&more=2",
        "file:///a%2#offset=1&size=1",
        "file:///a%00b",
        "file:///a#offset=99999999999999999999999&size=1",
        "file:///a#offset=\u0661&size=1",
    ],
)
def test_anything_else_is_a_bad_query(text):
    with pytest.raises(BadQuery):
        uri.parse_uri(text)


def test_a_memory_uri_is_refused_with_an_explanation():
    with pytest.raises(Unsupported, match="running process"):
        uri.parse_uri("memory://1234#offset=0x7f0000000000&size=4096")


def test_is_uri_tells_uris_from_paths():
    assert uri.is_uri("file:///x")
    assert uri.is_uri("memory://1#offset=0&size=1")
    assert not uri.is_uri("dir/file:x")


def test_a_uri_into_a_host_program_cuts_out_the_code_object():
    host = objects.sample("host-offloading.o")
    wanted = objects.sample("v4-gfx900.co")
    found = uri.parse_uri(f"file:///host#offset={host.index(wanted):#x}&size={len(wanted)}")
    assert found.cut(host) == wanted
    assert uri.parse_uri("file:///host").cut(host) == host


def test_a_range_that_leaves_the_file_is_malformed():
    with pytest.raises(Malformed, match="past the file"):
        uri.parse_uri("file:///a#offset=8&size=3").cut(bytes(10))


def test_a_path_that_is_no_utf_8_is_taken_as_the_shell_gave_it():
    assert uri.parse_uri("file:///tmp/a\udcffb").path == "/tmp/a\udcffb"
    assert uri.parse_uri("file:///tmp/a%ffb").path == "/tmp/a\udcffb"


def test_half_a_surrogate_pair_is_a_bad_query():
    """As JSON may hold it in a profile."""
    with pytest.raises(BadQuery, match="surrogate"):
        uri.parse_uri("file:///tmp/a\ud800")
