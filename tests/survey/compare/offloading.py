"""Host programs: which device code they hold, by the section headers that readelf lists and by LLVM's bundler."""

from __future__ import annotations

import hashlib
import re
import shutil
import struct
from collections import Counter
from pathlib import Path

from tests.survey.case import Case, Compared, SurveyError
from tests.survey.measured import run
from tests.survey.toolbox import printed, tool

DEVICE_CODE = re.compile(
    r"\] (__CLANG_OFFLOAD_BUNDLE__\S+|OFFLOAD_DEVICE_CODE|\.nv_fatbin|__nv_relfatbin|\.hip_fatbin|\.llvm\.offloading)\s"
)
_IMAGES = re.compile(r"\] \.tgtimg\s+\S+\s+[0-9a-f]+ [0-9a-f]+ ([0-9a-f]+) ")
_IMAGE_ENTRY = 16
"""Bytes of an entry of .tgtimg."""
_MAGIC = re.compile(b"__CLANG_OFFLOAD_BUNDLE__|CCOB")
_ALIGNED = 4096
OLDER_BUNDLER = "clang-offload-bundler-14"
BUNDLERS = ("clang-offload-bundler-22", OLDER_BUNDLER)
"""Version 22 refuses what older versions named the host's entry; 14 does not read newer compressed bundles."""
_TOTAL_SIZE = {2: "<I", 3: "<Q"}
"""How a compressed bundle of a version gives its size, at byte 8."""


def holds_device_code(path: Path) -> bool:
    """Whether readelf lists a section of device code."""
    return bool(DEVICE_CODE.search(_sections(path)))


def _sections(path: Path) -> str:
    return printed("readelf", "-SW", path)


def images(case: Case) -> Compared:
    """As many images as the table of the SYCL runtime has entries."""
    found = _IMAGES.search(_sections(case.path))
    listed = int(found[1], 16) // _IMAGE_ENTRY if found else 0
    paths = [each["object"] for each in case.info["objects"]] + [each["container"] for each in case.info["containers"]]
    mine = sum(1 for path in paths if path and "/" not in path)
    differences = [] if mine == listed else [f"{case.path.name}: symd {mine} images, readelf {listed}"]
    return Compared("readelf: images of .tgtimg", listed, differences)


def bundled(case: Case) -> Compared:
    """The bytes of every AMD code object are those that clang-offload-bundler extracts from each bundle."""
    section = case.folder / "fatbin"
    copy = [tool("llvm-objcopy-22"), f"--dump-section=.hip_fatbin={section}", case.path, "/dev/null"]
    done = run(copy, case.folder)
    if done.code:
        raise SurveyError(f"llvm-objcopy on {case.path.name}: {done.errors[-300:]}")
    theirs: Counter[str] = Counter()
    for bundle in _bundles(section.read_bytes()):
        theirs += _unbundled(bundle, case.folder / "bundle")
    mine = Counter(str(each.entry["sha256"]) for each in case.objects if each.format == "amdgpu")
    differences = [f"the bundler has {count} of {digest[:12]}… more" for digest, count in (theirs - mine).items()]
    differences += [f"symd has {count} of {digest[:12]}… more" for digest, count in (mine - theirs).items()]
    return Compared("clang-offload-bundler: bytes of every code object", sum(theirs.values()), differences)


def _bundles(section: bytes) -> list[bytes]:
    """The section from each bundle's first byte to the next one's; of a compressed bundle as much as its header says, because the
    bundler takes padding for a part of it."""
    starts = [found.start() for found in _MAGIC.finditer(section) if found.start() % _ALIGNED == 0]
    bundles = [section[start:end] for start, end in zip(starts, [*starts[1:], len(section)], strict=True)]
    return [bundle[: _compressed_size(bundle)] for bundle in bundles]


def _compressed_size(bundle: bytes) -> int | None:
    magic, version = struct.unpack_from("<4sH", bundle)
    if magic != b"CCOB" or version not in _TOTAL_SIZE:
        return None
    return int(struct.unpack_from(_TOTAL_SIZE[version], bundle, 8)[0])


def given(bundler: str, option: str, paths: list[Path]) -> list[str]:
    """The option with these files, as this version of the bundler has it."""
    if bundler == OLDER_BUNDLER:
        return [f"--{option}s={','.join(map(str, paths))}"]
    return [f"--{option}={path}" for path in paths]


def _unbundled(bundle: bytes, folder: Path) -> Counter[str]:
    """Digests of the code objects, as the first bundler that takes the bundle extracts them."""
    said = ""
    for name in BUNDLERS:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        packed = folder / "packed"
        packed.write_bytes(bundle)
        bundler = [tool(name), "--type=o"]
        listed = run([*bundler, "--list", *given(name, "input", [packed])], folder)
        targets = [line for line in listed.output.decode().split() if not line.startswith("host-")]
        outputs = [folder / str(number) for number in range(len(targets))]
        chosen = [f"--targets={','.join(targets)}", *given(name, "input", [packed]), *given(name, "output", outputs)]
        done = run([*bundler, "--unbundle", *chosen], folder)
        if targets and not listed.code and not done.code:
            return Counter(hashlib.sha256(path.read_bytes()).hexdigest() for path in outputs)
        said = (listed.errors + done.errors)[-300:]
    raise SurveyError(f"clang-offload-bundler: {said}")
