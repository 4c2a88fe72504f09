"""What Intel calls its devices: graphics cores, product families and the architecture.release.revision numbers of
newer drivers, by the names that ``ocloc -device`` takes.

Sources: igfxfmid.h of intel/gmmlib (GFXCORE_FAMILY, PRODUCT_FAMILY), confirmed on binaries of ocloc 22.43 and 26.27.
"""

from __future__ import annotations

FUNCTIONS_ONLY = "Intel_Symbol_Table_Void_Program"
"""What the compiler calls the "kernel" that only holds a module's functions; the host cannot launch it."""

_CORES = {
    0x0C: "gen9",
    0x0F: "gen11",
    0x10: "gen11lp",
    0x12: "gen12lp",
    0xC05: "xe-hp",
    0xC07: "xe-hpg",
    0xC08: "xe-hpc",
    0xC09: "xe2",
    0x1E00: "xe3",
    0x2300: "xe3p",
}
_PRODUCTS = {
    0x12: "skl",
    0x1D: "tgllp",
    0x1F: "adl-s",
    0x4BA: "dg1",
    0x4F6: "dg2",
    0x4F7: "pvc",
    0x4F8: "mtl",
    0x4F9: "arl",
    0x4FA: "bmg",
    0x4FB: "lnl",
    0x514: "ptl",
    0x550: "nvl-p",
    0x564: "cri",
}
_PRODUCT_CORES = {
    "skl": "gen9",
    "tgllp": "gen12lp",
    "adl-s": "gen12lp",
    "dg1": "gen12lp",
    "dg2": "xe-hpg",
    "mtl": "xe-hpg",
    "arl": "xe-hpg",
    "pvc": "xe-hpc",
    "bmg": "xe2",
    "lnl": "xe2",
    "ptl": "xe3",
    "nvl-p": "xe3p",
    "cri": "xe3p",
}


def core_name(core: int) -> str | None:
    """A graphics core number (GFXCORE_FAMILY) by name."""
    return _CORES.get(core)


def product_name(product: int) -> str | None:
    """A product family number (PRODUCT_FAMILY) by name."""
    return _PRODUCTS.get(product)


def product_core(product: str) -> str | None:
    """The graphics core of a product."""
    return _PRODUCT_CORES.get(product)
