"""The YAML subset that images carry, against PyYAML's own reading, and documents that end or exhaust other readers."""

from __future__ import annotations

import pytest
import yaml

from symd.errors import Malformed
from symd.formats.containers import bounded_yaml
from tests.formats.containers.amd import objects

DOCUMENT = """\
---
version: 1
kernels:
  - name: 'quoted: 7'
    size: 0x20
    flags: [true, false, plain text, "12", -3]
    empty: []
    args: &shared
      - {kind: by value, offset: 8}
  - name: b
    args: *shared
    nothing:
...
"""


def test_a_document_reads_as_pyyaml_reads_it():
    assert bounded_yaml.load(DOCUMENT) == yaml.safe_load(DOCUMENT)


@pytest.mark.parametrize(
    "text", ["[" * 100_000, "- " * 100_000, "{a: " * 50_000, "? " * 50_000, "{[a]: b}", "a: [", "*b"]
)
def test_what_cannot_be_read_is_malformed(text):
    with pytest.raises(Malformed, match="YAML"):
        bounded_yaml.load(text)


def test_aliases_of_aliases_take_no_more_room_than_their_text():
    text = "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 30))
    assert objects.survives(lambda: bounded_yaml.load(text), 4 << 20) == "Malformed"
    with pytest.raises(Malformed, match="more values than it has bytes"):
        bounded_yaml.load(text)


def test_an_alias_inside_what_it_means_is_refused():
    with pytest.raises(Malformed, match="stands inside what it means"):
        bounded_yaml.load("a: &a\n  b: *a\n")
