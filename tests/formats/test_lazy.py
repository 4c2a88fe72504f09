"""LazyMapping and warnings that wait until somebody looks."""

from __future__ import annotations

from symd.formats.lazy import LazyMapping, LazySequence, PackedMapping, PackedRecords


class Source:
    """Counts how often it is read."""

    def __init__(self, value):
        self.value, self.reads = value, 0

    def __call__(self):
        self.reads += 1
        return self.value


def test_facts_are_read_once_and_not_before_they_are_used():
    source = Source({"registers": 8, "scratch": 0})
    facts = LazyMapping(source)
    assert source.reads == 0
    assert facts["registers"] == 8
    assert (facts.get("scratch"), facts.get("vgprs", 3), "vgprs" in facts) == (0, 3, False)
    assert (list(facts), len(facts), dict(facts)) == (["registers", "scratch"], 2, source.value)
    assert source.reads == 1


def test_facts_equal_whatever_mapping_holds_the_same():
    facts = LazyMapping(Source({"a": 1}))
    assert facts == {"a": 1} == facts
    assert facts == LazyMapping(Source({"a": 1}))
    assert facts != {"a": 2}
    assert repr(facts) == "{'a': 1}"


def test_texts_are_read_once_and_not_before_they_are_used():
    source = Source(("first", "second"))
    texts = LazySequence(source)
    assert source.reads == 0
    assert (texts[0], texts[-1], texts[1:], len(texts)) == ("first", "second", ("second",), 2)
    assert (*texts, "third") == ("first", "second", "third")
    assert source.reads == 1


def test_texts_equal_whatever_sequence_holds_the_same():
    texts = LazySequence(Source(("one",)))
    assert texts == ("one",) == texts
    assert texts == LazySequence(Source(("one",)))
    assert texts != ("two",)
    assert hash(texts) == hash(("one",))
    assert repr(texts) == "('one',)"


class Records(PackedRecords):
    """Counts how often they are unpacked."""

    def __init__(self, values):
        super().__init__(len(values))
        self.values, self.reads = values, 0

    def value(self):
        self.reads += 1
        return self.values


def test_records_are_unpacked_by_who_looks_at_them_and_counted_without():
    records = Records([{"id": 1}, {"id": 2}])
    source = Source({"registers": 8, "attributes": records})
    facts = PackedMapping(source)
    assert (facts["registers"], len(facts), list(facts)) == (8, 2, ["registers", "attributes"])
    assert len(facts.packed()["attributes"]) == 2
    assert (records.reads, source.reads) == (0, 1)
    assert facts["attributes"] == [{"id": 1}, {"id": 2}]
    assert dict(facts.items()) == facts.value() == facts == {"registers": 8, "attributes": [{"id": 1}, {"id": 2}]}
    assert source.reads == 1
