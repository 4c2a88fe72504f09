"""The name of a source in build flags; programs are built by the real driver in tests/live."""

from __future__ import annotations

import pytest

from symd.capture.drivers.apis import DriverDevice
from symd.capture.drivers.opencl import naming_source

INTEL = DriverDevice("Intel(R) OpenCL HD Graphics 22.43.24595", "dg2", ())
POCL = DriverDevice("Portable Computing Language 3.1", "cpu-goldmont", ())


def test_intels_compiler_is_told_the_source_s_name() -> None:
    assert naming_source("-g", "/src/a b.cl", INTEL) == '-g -s "/src/a b.cl"'


@pytest.mark.parametrize(
    ("flags", "name", "device"),
    [
        ("-O0", "/a.cl", INTEL),
        ("", "/a.cl", INTEL),
        ("-g -s /b.cl", "/a.cl", INTEL),
        ("-DX=-g", "/a.cl", INTEL),
        ("-g", "", INTEL),
        ("-g", '/a"b.cl', INTEL),
        ("-g", "/a\nb.cl", INTEL),
        ("-g", "/\udcff.cl", INTEL),
        ("-g", "/a.cl", POCL),
    ],
)
def test_flags_stay_without_debug_data_with_a_name_of_the_users_and_for_other_drivers(
    flags: str, name: str, device: DriverDevice
) -> None:
    assert naming_source(flags, name, device) == flags
