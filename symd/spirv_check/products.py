"""What Intel's Level Zero driver reports of the products that it can simulate: zeDeviceGetModuleProperties with
ze_float_atomic_ext_properties_t, and zeDeviceGetImageProperties, whose limits are 0 where there are no images.

Asked of driver 1.3.24595 (22.43)."""

from __future__ import annotations

from collections.abc import Mapping

from symd.spirv_check.device import Device

_GLOBAL = frozenset({"GLOBAL_LOAD_STORE", "GLOBAL_ADD", "GLOBAL_MIN_MAX"})

PRODUCTS: Mapping[str, Device] = {
    "skl": Device(),
    "tgllp": Device(fp64_module=False),
    "dg2": Device(fp64_module=False, fp32=frozenset({"GLOBAL_ADD"})),
    "pvc": Device(images=False, fp16=_GLOBAL, fp32=_GLOBAL, fp64=_GLOBAL),
}
"""By the names that ``symd grab --simulate`` takes."""
