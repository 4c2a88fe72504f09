"""The YAML with which a zebin describes its kernels to the runtime (.ze_info), reduced to the facts a user asks for.

Source: ZEInfo of intel/intel-graphics-compiler, versions 1.20 to 1.73. Unknown keys are passed over.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from symd.errors import Malformed
from symd.formats.containers import bounded_yaml

_SIZE_LIMIT = 64 << 20
_ENVIRONMENT = {
    "simd_size": "simd_width",
    "grf_count": "registers",
    "slm_size": "shared_memory",
    "barrier_count": "barriers",
    "eu_thread_count": "eu_threads",
    "required_sub_group_size": "required_sub_group_size",
    "has_global_atomics": "global_atomics",
}


def kernels(data: bytes) -> dict[str, dict[str, Any]]:
    """Kernel name to its facts: simd_width, registers, shared_memory, barriers, scratch, arguments, ..."""
    document = _load(data)
    arguments = {str(entry.get("name")): _arguments(entry) for entry in _mappings(document.get("kernels_misc_info"))}
    result = {}
    for entry in _mappings(document.get("kernels")):
        name = str(entry.get("name"))
        result[name] = _facts(entry) | ({"arguments": arguments[name]} if arguments.get(name) else {})
    return result


def _load(data: bytes) -> Mapping[str, Any]:
    if len(data) > _SIZE_LIMIT:
        raise Malformed(f".ze_info of {len(data)} bytes is larger than {_SIZE_LIMIT}", where=".ze_info")
    try:
        document = bounded_yaml.load(data.rstrip(b"\0").decode("utf-8", "replace"))
    except Malformed as error:
        raise error.prefix_where(".ze_info") from error
    if not isinstance(document, Mapping):
        raise Malformed("is not a YAML mapping", where=".ze_info")
    return document


def _facts(kernel: Mapping[str, Any]) -> dict[str, Any]:
    environment = kernel.get("execution_env")
    environment = environment if isinstance(environment, Mapping) else {}
    facts: dict[str, Any] = {
        name: environment[key] for key, name in _ENVIRONMENT.items() if isinstance(environment.get(key), int | bool)
    }
    scratch = sum(_integer(entry.get("size")) for entry in _mappings(kernel.get("per_thread_memory_buffers")))
    if scratch:
        facts["scratch"] = scratch
    return facts


def _arguments(entry: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [
        {
            "name": str(argument.get("name", "")),
            "type": str(argument.get("type_name", "")).partition(";")[0],
            "address_space": str(argument.get("address_qualifier", "")).removeprefix("__"),
        }
        for argument in _mappings(entry.get("args_info"))
    ]


def _mappings(value: Any) -> Iterable[Mapping[str, Any]]:
    return (entry for entry in value if isinstance(entry, Mapping)) if isinstance(value, list) else ()


def _integer(value: Any) -> int:
    return value if isinstance(value, int) else 0
