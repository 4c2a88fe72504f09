"""Formats of Intel's compilers and drivers, and what Intel calls its devices: graphics cores, product families and the
architecture.release.revision numbers of newer drivers, by the names that ``ocloc -device`` takes.

Sources: igfxfmid.h of intel/gmmlib (GFXCORE_FAMILY, PRODUCT_FAMILY) and platforms.h of intel/compute-runtime
(PRODUCT_CONFIG), confirmed on binaries of ocloc 22.43 and 26.27."""

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
    0x1E: "rkl",
    0x1F: "adl-s",
    0x20: "adl-p",
    0x21: "adl-n",
    0x4BA: "dg1",
    0x4F6: "dg2",
    0x4F7: "pvc",
    0x4F8: "mtl",
    0x4F9: "arl",
    0x4FA: "bmg",
    0x4FB: "lnl",
    0x514: "ptl",
    0x53C: "nvl-s",
    0x550: "nvl-p",
    0x564: "cri",
}
_CONFIGURED = {
    (12, 0): "tgllp",
    (12, 1): "rkl",
    (12, 2): "adl-s",
    (12, 3): "adl-p",
    (12, 4): "adl-n",
    (12, 10): "dg1",
    (12, 55): "dg2",
    (12, 56): "dg2",
    (12, 57): "dg2",
    (12, 60): "pvc",
    (12, 61): "pvc",
    (12, 70): "mtl",
    (12, 71): "mtl",
    (12, 74): "arl",
    (20, 1): "bmg",
    (20, 2): "bmg",
    (20, 4): "lnl",
    (30, 0): "ptl",
    (30, 1): "ptl",
    (30, 3): "wcl",
    (30, 4): "nvl-s",
    (35, 11): "cri",
}
"""Names of products by architecture and release."""
_PRODUCT_CORES = {
    "skl": "gen9",
    "tgllp": "gen12lp",
    "rkl": "gen12lp",
    "adl-s": "gen12lp",
    "adl-p": "gen12lp",
    "adl-n": "gen12lp",
    "dg1": "gen12lp",
    "dg2": "xe-hpg",
    "mtl": "xe-hpg",
    "arl": "xe-hpg",
    "pvc": "xe-hpc",
    "bmg": "xe2",
    "lnl": "xe2",
    "ptl": "xe3",
    "wcl": "xe3",
    "nvl-s": "xe3",
    "nvl-p": "xe3p",
    "cri": "xe3p",
}


def core_name(core: int) -> str | None:
    """A graphics core number (GFXCORE_FAMILY) by name."""
    return _CORES.get(core)


def product_name(product: int) -> str | None:
    """A product family number (PRODUCT_FAMILY) by name."""
    return _PRODUCTS.get(product)


def configured_product(config: int) -> str | None:
    """A product configuration by name: architecture, release and revision in 10, 8 and 14 bits."""
    return _CONFIGURED.get((config >> 22, config >> 14 & 0xFF))


def product_core(product: str) -> str | None:
    """The graphics core of a product."""
    return _PRODUCT_CORES.get(product)
