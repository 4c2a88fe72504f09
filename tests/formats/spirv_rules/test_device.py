"""The text that describes a device."""

from __future__ import annotations

import pytest

from symd.errors import InvalidInput
from symd.formats.spirv_rules import Device


def test_an_empty_description_is_the_default_device() -> None:
    assert Device.parse("") == Device()
    assert Device() == Device(
        images=True, fp16_module=True, fp64_module=True, int64_atomics=True, fp16=frozenset(), spirv_max=(1, 4)
    )


def test_every_property_can_be_set() -> None:
    text = "images=false,int64_atomics=False,fp16_module=false, fp64_module=false,fp32=GLOBAL_ADD+local_add,fp16=,spirv_max=1.4"
    assert Device.parse(text) == Device(
        images=False,
        fp16_module=False,
        fp64_module=False,
        int64_atomics=False,
        fp32=frozenset(("GLOBAL_ADD", "LOCAL_ADD")),
        spirv_max=(1, 4),
    )


@pytest.mark.parametrize(
    ("text", "culprit"),
    [
        ("images", "'images'"),
        ("images=yes", "'yes'"),
        ("colour=true", "'colour'"),
        ("fp32=ADD", "'ADD'"),
        ("spirv_max=1", "'1'"),
        ("spirv_max=1.4.2", "'1.4.2'"),
    ],
)
def test_what_is_no_description_is_refused_and_named(text: str, culprit: str) -> None:
    with pytest.raises(InvalidInput, match=culprit):
        Device.parse(text)
