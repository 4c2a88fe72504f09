"""What two generations of Intel's Level Zero driver report of the products that they can simulate
(zeDeviceGetModuleProperties with ze_float_atomic_ext_properties_t, and zeDeviceGetImageProperties, whose limits are 0 where
there are no images), and what they were seen to build.

Asked of drivers 1.3.24595 (22.43), which reports SPIR-V 1.2, builds up to 1.4 and ends its process on more, and 1.15.39122
(26.27), which reports 1.5 and builds 1.6."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from symd.formats.spirv_rules.device import FLAGS, Device

_GLOBAL = frozenset({"GLOBAL_LOAD_STORE", "GLOBAL_ADD", "GLOBAL_MIN_MAX"})
_OLDER_SETS = frozenset({"OpenCL.std", "SPIRV.debug", "OpenCL.DebugInfo.100"})
_NEWER_SETS = _OLDER_SETS | {"NonSemantic.Shader.DebugInfo.100", "NonSemantic.Shader.DebugInfo.200"}

_OLDER = Device(spirv_max=(1, 4), driver="22.43", reads_sets=_OLDER_SETS)
_NEWER = Device(
    fp16=frozenset(FLAGS) - {"GLOBAL_ADD", "LOCAL_ADD"},
    fp32=frozenset(FLAGS),
    fp64=frozenset(FLAGS),
    spirv_max=(1, 6),
    driver="26.27",
    reads_sets=_NEWER_SETS,
)
_NEWER_WITHOUT_DOUBLE = ("tgllp", "dg2", "dg1", "adl-s")
_BY_GENERATION: Mapping[str, Mapping[str, Device]] = {
    "22.43": {
        "skl": _OLDER,
        "tgllp": replace(_OLDER, fp64_module=False),
        "dg2": replace(_OLDER, fp64_module=False, fp32=frozenset({"GLOBAL_ADD"})),
        "pvc": replace(_OLDER, images=False, fp16=_GLOBAL, fp32=_GLOBAL, fp64=_GLOBAL),
    },
    "26.27": {
        **{name: replace(_NEWER, fp64_module=False) for name in _NEWER_WITHOUT_DOUBLE},
        **dict.fromkeys(("bmg", "ptl", "lnl", "mtl"), _NEWER),
        "pvc": replace(_NEWER, images=False),
    },
}

PRODUCTS: Mapping[str, Device] = {
    **{
        name: device
        for products in (_BY_GENERATION["26.27"], _BY_GENERATION["22.43"])
        for name, device in products.items()
    },
    **{f"{driver}:{name}": device for driver, products in _BY_GENERATION.items() for name, device in products.items()},
}
"""The devices that drivers can simulate, by "PRODUCT", for the older driver generation where both have it, and by
"GENERATION:PRODUCT"."""
