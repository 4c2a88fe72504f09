"""The environment that makes Intel's real drivers run without hardware, for one product, in both driver generations;
and the launch of a generation that lives in a folder of its own.

Verified with compute runtimes 22.43 (with IGC 1.0) and 26.27 (with IGC 2): one set of keys serves both.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from symd.capture.drivers.apis import Api
from symd.errors import DriverMissing, InvalidInput

PRODUCTS: Final = ("skl", "tgllp", "dg2", "pvc")
"""What the older generation (Debian 12) simulates."""
NEWER_PRODUCTS: Final = ("tgllp", "dg2", "pvc", "bmg", "ptl", "lnl", "mtl", "dg1", "adl-s")
"""What the newer generation simulates."""
SIMULATED_PRODUCTS: Final = tuple(dict.fromkeys((*PRODUCTS, *NEWER_PRODUCTS)))
"""What at least one of the two simulates."""

_FIRST_NEWER_BUILD: Final = 31000
"""Compute runtime build (the last number of its version) from which the old products are gone."""

_GEOMETRY: Final[Mapping[str, str]] = MappingProxyType(
    {
        "skl": "1x3x8",
        "tgllp": "1x6x16",
        "dg2": "2x4x5",
        "pvc": "8x8x8",
        "bmg": "5x4x8",
        "ptl": "1x6x8",
        "lnl": "2x4x8",
        "mtl": "2x4x16",
        "dg1": "1x6x16",
        "adl-s": "1x2x16",
    }
)
"""Slices x subslices x execution units. The newer generation does not start without them."""

_SIMULATION_KEYS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "NEOReadDebugKeys": "1",
        "SetCommandStreamReceiver": "1",  # writes commands to a file instead of a device
        "AUBDumpCaptureFileName": "/dev/null",  # that file
        "UseAubStream": "0",  # newer: Debian builds it without that library and would crash
        "UseBindlessMode": "0",  # newer: aborts otherwise
    }
)

_FIXED_ENVIRONMENT: Final[Mapping[str, str]] = MappingProxyType(
    {
        "NEO_CACHE_PERSISTENT": "0",
        # Clang takes $PWD for the compilation directory where it names the working directory, and puts it in front of
        # the relative names of #line. This name is the same in every private folder, so that one source text always
        # gives the same debug data.
        "PWD": "/proc/self/cwd",
    }
)

_REMOVED_FROM_ENVIRONMENT: Final = (
    # A hit in one of the older generation's caches loses the debug data.
    "cl_cache_dir",
    "l0_cache_dir",
    "NEO_CACHE_DIR",
    # These make zeInit fail without hardware and change nothing in the data.
    "ZET_ENABLE_METRICS",
    "ZET_ENABLE_PROGRAM_DEBUGGING",
)

_LIBRARIES: Final = "usr/lib/x86_64-linux-gnu"
_NEWER_COMPILER: Final = "libigc.so.2"
_LOADER: Final = "usr/lib64/ld-linux-x86-64.so.2"
_SYSTEM_LIBRARIES: Final = ("/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib")


def check_product(product: str, root: str | None) -> None:
    """Raises InvalidInput for a product that no driver generation simulates, or not the one in the driver folder."""
    newer = root is not None and (Path(root) / _LIBRARIES / _NEWER_COMPILER).exists()
    known = NEWER_PRODUCTS if newer else SIMULATED_PRODUCTS
    if product not in known:
        hint = f"one of {', '.join(known)}" if newer else _by_version()
        raise InvalidInput(f"there is no product {product!r} to simulate", hint=hint)


def _by_version() -> str:
    """Which products are simulated by every driver, and which by one generation only."""
    in_both = ", ".join(product for product in PRODUCTS if product in NEWER_PRODUCTS)
    old = ", ".join(product for product in PRODUCTS if product not in NEWER_PRODUCTS)
    new = ", ".join(product for product in NEWER_PRODUCTS if product not in PRODUCTS)
    return (
        f"every driver simulates {in_both}; one whose version ends in less than {_FIRST_NEWER_BUILD}, as 1.3.24595, also {old}; "
        f"a newer one also {new}"
    )


def check_driver(product: str, driver: str) -> None:
    """Raises InvalidInput when the driver of that name does not know the product: it would silently take another."""
    known = products_of(driver)
    if product not in known:
        raise InvalidInput(f"{driver} does not simulate {product!r}", hint=f"it simulates {', '.join(known)}")


def products_of(driver: str) -> tuple[str, ...]:
    """What the driver that calls itself so ("... 1.3.24595", "... 26.27.039122") simulates."""
    version = re.search(r"(\d+)\.(\d+)\.(\d+)", driver)
    return NEWER_PRODUCTS if version and int(version[3]) >= _FIRST_NEWER_BUILD else PRODUCTS


def simulation(product: str) -> dict[str, str]:
    """The variables that make the drivers simulate ``product``, for a program as it is. Raises InvalidInput where none
    does."""
    check_product(product, None)
    return {**_SIMULATION_KEYS, "ProductFamilyOverride": product, "HardwareInfoOverride": _GEOMETRY[product]}


def environment(
    base: Mapping[str, str], product: str | None, root: str | None, working_folder: str | None = None
) -> dict[str, str]:
    """``base`` without what spoils a grab, with the keys for the simulated product and the driver folder, if any.
    ``working_folder`` is where the driver compiles, unless in its private folder."""
    result = {name: value for name, value in base.items() if name not in _REMOVED_FROM_ENVIRONMENT}
    result |= _FIXED_ENVIRONMENT
    if working_folder is not None:
        result["PWD"] = working_folder
    if product is not None:
        result |= simulation(product)
    if root is not None:
        libraries = Path(root).resolve() / _LIBRARIES
        result.pop("LD_LIBRARY_PATH", None)
        result.pop("LD_PRELOAD", None)
        result["ZE_ENABLE_ALT_DRIVERS"] = str(libraries / "libze_intel_gpu.so.1")
        result["OCL_ICD_VENDORS"] = str(libraries / "intel-opencl" / "libigdrcl.so")
    return result


def launcher(api: Api, root: str | None) -> list[str]:
    """The words before the interpreter: none, or the C library's loader of the driver folder with its search path.

    Raises DriverMissing when the folder does not hold a driver generation.
    """
    if root is None:
        return []
    folder = Path(root).resolve()
    loader, libraries = folder / _LOADER, folder / _LIBRARIES
    for needed in (loader, libraries / api.soname):
        if not needed.exists():
            raise DriverMissing(
                f"the driver folder {root} has no {needed.relative_to(folder)}",
                hint="unpack a driver generation there: `python tools/live_new.py --root FOLDER setup`",
            )
    return [str(loader), "--library-path", ":".join((str(libraries), *_SYSTEM_LIBRARIES))]
