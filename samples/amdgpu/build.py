"""Builds every AMD sample into bin/ and records in manifest.json how: command, compiler, size and SHA-256.

    python samples/amdgpu/build.py [NAME...]

Needs clang 14, 19 and 22 with lld, llvm and clang-tools of each (Debian packages), zstandard, and this project for the
pruned files. What a missing compiler would build is left as it is: LLVM 23, the first that says where callers are, is taken from the wheel
of triton 3.8.0 (PyPI), whose ``triton/_C/libtriton.so`` ``$SYMD_LIBTRITON`` names.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Callable
from pathlib import Path

import msgpack
import zstandard

HERE = Path(__file__).parent
BIN = HERE / "bin"
CL = "{clang} -x cl -cl-std=CL2.0 -target amdgcn-amd-amdhsa -nogpulib -fdebug-prefix-map={cwd}=/src"
CLCPP = CL.replace("CL2.0", "clc++") + " -mcpu=gfx900 -g"
HIP = "{clang} -x hip -fuse-cuid=none -std=c++17 -nogpulib -nogpuinc -fdebug-prefix-map={cwd}=/src --cuda-device-only --no-gpu-bundle-output"
ASM = "{clang} -x assembler -target amdgcn-amd-amdhsa -fdebug-compilation-dir=/src -g -c"
HOST = "{clang} -x hip -std=c++17 -nogpulib -nogpuinc -fdebug-prefix-map={cwd}=/src -fPIE -g -O2"


def split(generation: str, version: int) -> dict[str, tuple[str, str]]:
    """An object whose compiler left its debug data in a .dwo file, that file, a package of it, and the same object whole."""
    name = f"split-{generation}-dwarf{version}"
    compile_ = f"{CL} -mcpu=gfx900 -g -gdwarf-{version} -O2 -c"
    link = f"ld.lld-{generation} -shared -o $OUT"
    return {
        f"{name}.dwo": (generation, f"{compile_} -gsplit-dwarf -o {name}.o shade.cl"),
        f"{name}.co": (generation, f"{link} {name}.o"),
        f"{name}.co.dwp": (generation, f"llvm-dwp-{generation} -o $OUT {name}.dwo"),
        f"{name}-whole.o": (generation, f"{compile_} -o $OUT shade.cl"),
        f"{name}-whole.co": (generation, f"{link} {name}-whole.o"),
    }


RECIPES: dict[str, tuple[str, str]] = {
    "v2-gfx900.co": ("14", f"{CL} -mcpu=gfx900 -mcode-object-version=2 -g -O2 -o $OUT shade.cl"),
    "v3-gfx900.co": ("14", f"{CL} -mcpu=gfx900 -mcode-object-version=3 -g -O2 -o $OUT shade.cl"),
    "v3-gfx906-xnack-off.co": ("14", f"{CL} -mcpu=gfx906:xnack- -mcode-object-version=3 -g -O2 -o $OUT shade.cl"),
    "v4-gfx900.co": ("14", f"{CL} -mcpu=gfx900 -mcode-object-version=4 -g -O2 -o $OUT shade.cl"),
    "v4-gfx900-O0.co": ("14", f"{CL} -mcpu=gfx900 -mcode-object-version=4 -g -O0 -o $OUT shade.cl"),
    "v4-gfx900-dwarf4.co": ("14", f"{CL} -mcpu=gfx900 -mcode-object-version=4 -gdwarf-4 -O2 -o $OUT shade.cl"),
    "v4-gfx900-dwarf2.co": ("14", f"{CL} -mcpu=gfx900 -mcode-object-version=4 -gdwarf-2 -O2 -o $OUT shade.cl"),
    "v4-gfx900-lines.co": ("14", f"{CL} -mcpu=gfx900 -mcode-object-version=4 -gline-tables-only -O2 -o $OUT shade.cl"),
    "v4-gfx900-nodebug.co": ("14", f"{CL} -mcpu=gfx900 -mcode-object-version=4 -O2 -o $OUT shade.cl"),
    "v4-gfx1035.co": ("14", f"{CL} -mcpu=gfx1035 -mcode-object-version=4 -g -O2 -o $OUT shade.cl"),
    "v4-gfx90a-features.co": ("14", f"{CL} -mcpu=gfx90a:sramecc+:xnack- -mcode-object-version=4 -g -O2 -o $OUT shade.cl"),
    "v4-gfx900.o": ("14", f"{CL} -mcpu=gfx900 -mcode-object-version=4 -g -O2 -c -o $OUT shade.cl"),
    "v4-gfx900-sections.o": (
        "14", f"{CL} -mcpu=gfx900 -mcode-object-version=4 -g -O2 -ffunction-sections -c -o $OUT shade.cl"),
    "v4-gfx900-sections-dwarf4-zlib.o": (
        "14", f"{CL} -mcpu=gfx900 -mcode-object-version=4 -gdwarf-4 -gz -O2 -ffunction-sections -c -o $OUT shade.cl"),
    "v4-gfx900-zlib.co": (
        "14", "llvm-objcopy-14 --compress-debug-sections=zlib v4-gfx900.co $OUT"),
    "v4-gfx900-zstd.co": (
        "22", "llvm-objcopy-22 --compress-debug-sections=zstd v4-gfx900.co $OUT"),
    "v4-gfx900-headers-cut.co": ("14", "llvm-objcopy-22 --strip-sections v4-gfx900.co $OUT"),
    "v4-gfx900-stripped.co": ("14", "llvm-objcopy-14 --strip-all v4-gfx900.co $OUT"),
    "v2-scale.o": ("14", f"{ASM} -mcpu=gfx900:xnack- -mcode-object-version=2 -o $OUT scale_v2.s"),
    "v2-scale.co": ("14", "ld.lld-14 -shared -o $OUT v2-scale.o"),
    "v2-scale-pages.co": ("14", "ld.lld-14 -shared -z separate-code -o $OUT v2-scale.o"),
    "v4-scale.o": ("14", f"{ASM} -mcpu=gfx900 -mcode-object-version=4 -o $OUT scale_v4.s"),
    "v4-scale.co": ("14", "ld.lld-14 -shared -o $OUT v4-scale.o"),
    "v5-gfx90a.co": ("19", f"{HIP} --offload-arch=gfx90a -mcode-object-version=5 -g -O2 -o $OUT shade.hip"),
    "v5-gfx1100.co": ("19", f"{HIP} --offload-arch=gfx1100 -mcode-object-version=5 -g -O2 -o $OUT shade.hip"),
    "v6-gfx9-generic.co": ("22", f"{HIP} --offload-arch=gfx9-generic -mcode-object-version=6 -g -O2 -o $OUT shade.hip"),
    "v6-gfx1201.co": ("22", f"{HIP} --offload-arch=gfx1201 -mcode-object-version=6 -g -O0 -o $OUT shade.hip"),
    "v6-gfx942-xnack.co": ("22", f"{CL} -mcpu=gfx942:xnack+ -mcode-object-version=6 -g -O2 -o $OUT shade.cl"),
    "v6-gfx900-calls-unknown.co": ("22", f"{HIP} --offload-arch=gfx900 -g -O2 -o $OUT calls.hip"),
    "odd.bundle": (
        "14", ("clang-offload-bundler-14 -type=o -targets=host-x86_64-unknown-linux,hipv4-amdgcn-amd-amdhsa--gfx900,"
        "hipv4-amdgcn-amd-amdhsa--gfx90a:sramecc+:xnack- -inputs=/dev/null,v4-gfx900.co,v4-gfx90a-features.co"
        " -outputs=$OUT")),
    "aligned.bundle": (
        "22", ("clang-offload-bundler-22 -type=o -bundle-align=4096 -targets=host-x86_64-unknown-linux-gnu-,"
        "hipv4-amdgcn-amd-amdhsa--gfx900,hipv4-amdgcn-amd-amdhsa--gfx1100 -input=/dev/null -input=v4-gfx900.co"
        " -input=v5-gfx1100.co -output=$OUT")),
    "v2-zstd.ccob": (
        "19", ("clang-offload-bundler-19 -compress -type=o -targets=host-x86_64-unknown-linux-,"
        "hipv4-amdgcn-amd-amdhsa--gfx900,hipv4-amdgcn-amd-amdhsa--gfx1100 -input=/dev/null -input=v4-gfx900.co"
        " -input=v5-gfx1100.co -output=$OUT")),
    "v3-zstd.ccob": (
        "22", ("clang-offload-bundler-22 -compress -type=o -targets=host-x86_64-unknown-linux-gnu-,"
        "hipv4-amdgcn-amd-amdhsa--gfx900,hipv4-amdgcn-amd-amdhsa--gfx1100 -input=/dev/null -input=v4-gfx900.co"
        " -input=v5-gfx1100.co -output=$OUT")),
    "host-first.o": ("19", f"{HOST} --offload-arch=gfx900 --offload-arch=gfx1100 -cuid=5ade -c -o $OUT shade.hip"),
    "host-second.o": ("19", f"{HOST} --offload-arch=gfx900 --offload-compress -cuid=5ec0 -c -o $OUT second.hip"),
    "host": ("19", "clang++-19 -pie -o $OUT host-first.o host-second.o host.cpp"),
    "host.so": ("19", "clang++-19 -shared -fPIC -o $OUT host-first.o host.cpp"),
    "libhost.a": ("19", "llvm-ar-19 rcsD $OUT host-first.o host-second.o"),
    "offloading.o": ("22", f"{HOST} --offload-new-driver -fgpu-rdc --offload-arch=gfx900 -cuid=5ec0 -c -o $OUT second.hip"),
    "images.offload": (
        "22", ("llvm-offload-binary-22 -o $OUT --image=file=v4-gfx900.co,triple=amdgcn-amd-amdhsa,arch=gfx900,kind=hip"
        " --image=file=v5-gfx1100.co,triple=amdgcn-amd-amdhsa,arch=gfx1100,kind=openmp")),
    "images-19.offload": (
        "19", ("clang-offload-packager-19 -o $OUT --image=file=v4-gfx900.co,triple=amdgcn-amd-amdhsa,arch=gfx900,kind=hip"
        " --image=file=v5-gfx1100.co,triple=amdgcn-amd-amdhsa,arch=gfx1100,kind=openmp")),
    "nested-14.co": ("14", f"{CLCPP} -O2 -o $OUT nested.clcpp"),
    "nested-14-O0.co": ("14", f"{CLCPP} -O0 -o $OUT nested.clcpp"),
    "nested-22.o": ("22", f"{CLCPP} -O2 -c -o $OUT nested.clcpp"),
    "nested-22-O0.o": ("22", f"{CLCPP} -O0 -c -o $OUT nested.clcpp"),
    **split("14", 4), **split("14", 5), **split("19", 4), **split("19", 5), **split("22", 4), **split("22", 5),
    "host-plain.o": ("22", "clang++-22 -c -O2 -o $OUT host.cpp"),
    "host-offloading.o": (
        "22", ("llvm-objcopy-22 --add-section=.llvm.offloading=images.offload --set-section-flags"
        " .llvm.offloading=exclude host-plain.o $OUT")),
}  # fmt: skip
"""File name to (compiler generation, command); ``$OUT`` is the file. Order matters: later ones use earlier ones."""


def compressed(version: int, method: int) -> Callable[[Path], bytes]:
    """A compressed bundle written by hand, from aligned.bundle: no tool at hand writes these versions any more."""

    def make(folder: Path) -> bytes:
        raw = (folder / "aligned.bundle").read_bytes()
        digest = hashlib.md5(raw, usedforsecurity=False).digest()[:8]
        payload = zlib.compress(raw, 9) if method == 0 else zstandard.ZstdCompressor(19).compress(raw)
        sizes = {1: "<I", 2: "<II", 3: "<QQ"}[version]
        length = 8 + struct.calcsize(sizes) + 8
        values = (len(raw),) if version == 1 else (length + len(payload), len(raw))
        return b"CCOB" + struct.pack("<HH", version, method) + struct.pack(sizes, *values) + digest + payload

    return make


def null_headers(folder: Path) -> bytes:
    """The first two steps of pruning: sections removed in the order that works, program headers made PT_NULL."""
    work = folder / "pruning.co"
    shutil.copy(folder / "v2-scale.co", work)
    for section in (".comment", ".gnu.hash", ".hash", ".dynsym", ".dynamic", ".dynstr"):
        subprocess.run(["llvm-objcopy-14", "--remove-section", section, work], check=True)
    data = bytearray(work.read_bytes())
    offset, size, count = *struct.unpack_from("<Q", data, 32), *struct.unpack_from("<HH", data, 54)
    for at in range(offset, offset + size * count, size):
        kind, flags = struct.unpack_from("<II", data, at)
        if not (kind == 4 or (kind == 1 and flags & 1)):
            data[at : at + 4] = bytes(4)
    return bytes(data)


def packed(folder: Path) -> bytes:
    """All three steps, by this project."""
    from symd.config import Limits  # noqa: PLC0415 - the compilers' samples do not need the project
    from symd.debuginfo.separate_files import slim  # noqa: PLC0415
    from symd.formats.budget import Budget  # noqa: PLC0415

    return slim((folder / "v2-scale.co").read_bytes(), Budget(Limits())).data


def with_its_dwo(folder: Path) -> bytes:
    """An object and its .dwo file as symd sends them."""
    from symd.formats.containers import with_dwo  # noqa: PLC0415

    name = "split-19-dwarf5"
    return with_dwo.joined((folder / f"{name}.co").read_bytes(), {"": [(folder / f"{name}.dwo").read_bytes()]})


def kernel_pack(folder: Path) -> bytes:
    """ROCm's packs, compressed: two code objects of one library."""
    contents = {arch: (folder / name).read_bytes() for arch, name in PACKED.items()}
    frames = [zstandard.ZstdCompressor(19).compress(content) for content in contents.values()]
    body = struct.pack("<I", len(frames)) + b"".join(struct.pack("<I", len(frame)) + frame for frame in frames)
    entries = {
        arch: {"type": "hsaco", "ordinal": number, "original_size": len(content)}
        for number, (arch, content) in enumerate(contents.items())
    }
    table = {
        "format_version": 1,
        "group_name": "shade",
        "gfx_arch_family": "",
        "gfx_arches": [*PACKED],
        "toc": {"lib/libshade.so#0": entries},
        "compression_scheme": "zstd-per-kernel",
        "zstd_offset": 64,
        "zstd_size": len(body),
    }
    head = struct.pack("<4sIQ", b"KPAK", 1, 64 + len(body)).ljust(64, b"\0")
    return head + body + msgpack.packb(table)


def called(processor: str, level: int) -> Callable[[Path], bytes]:
    """calls.hip, its code made by LLVM 23."""

    def make(folder: Path) -> bytes:
        name = f"calls-{processor}"
        compile_ = (
            HIP.format(clang="clang++-22", cwd=folder) + f" --offload-arch={processor} -g -O{level} -S -emit-llvm"
        )
        subprocess.run([*compile_.split(), "-o", f"{name}.ll", "calls.hip"], cwd=folder, check=True)
        arguments = [os.environ["SYMD_LIBTRITON"], f"{name}.ll", processor, f"{name}.o"]
        subprocess.run([sys.executable, __file__, "--newer-llvm", *arguments], cwd=folder, check=True)
        subprocess.run(["ld.lld-22", "-shared", "-o", f"{name}.co", f"{name}.o"], cwd=folder, check=True)
        return (folder / f"{name}.co").read_bytes()

    return make


def newer_llvm(library: str, source: str, processor: str, into: str) -> None:
    """Compile LLVM's text with the LLVM inside libtriton: a process of its own, since it may end."""
    spec = importlib.util.spec_from_file_location("libtriton", library)
    triton = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(triton)
    triton.llvm.init_targets()
    text = Path(source).read_text()
    options = ("amdgcn-amd-amdhsa", processor, "", [], False, True, False)
    Path(into).write_bytes(triton.llvm.translate_to_asm(text, *options))


PACKED = {"gfx900": "v4-gfx900.co", "gfx1100": "v5-gfx1100.co"}

BY_HAND: dict[str, Callable[[Path], bytes]] = {
    "v1-zlib.ccob": compressed(1, 0),
    "v1-zstd.ccob": compressed(1, 1),
    "v2-zlib.ccob": compressed(2, 0),
    "v3-zlib.ccob": compressed(3, 0),
    "shade.kpack": kernel_pack,
    "v2-scale-null-headers.co": null_headers,
    "v2-scale-packed.co": packed,
    "split-19-dwarf5.with-dwo": with_its_dwo,
}
CALLS = {
    "v6-gfx900-calls.co": ("gfx900", 2),
    "v6-gfx942-calls.co": ("gfx942", 2),
    "v6-gfx1100-calls-O0.co": ("gfx1100", 0),
}
if "SYMD_LIBTRITON" in os.environ:
    BY_HAND |= {name: called(*how) for name, how in CALLS.items()}


def main(names: list[str]) -> None:
    BIN.mkdir(exist_ok=True)
    manifest = json.loads((HERE / "manifest.json").read_text()) if (HERE / "manifest.json").exists() else {}
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for source in [*(HERE / "src").iterdir(), HERE.parent / "kernels" / "nested.clcpp", *BIN.iterdir()]:
            shutil.copy(source, folder)
        for name, (generation, command) in RECIPES.items():
            if not names or name in names:
                manifest[name] = built(folder, name, generation, command)
        for name, make in BY_HAND.items():
            if not names or name in names:
                (folder / name).write_bytes(make(folder))
                manifest[name] = described(folder / name, f"build.py: {make.__qualname__.split('.')[0]}", "by hand")
        for name in manifest:
            shutil.copy(folder / name, BIN)
    (HERE / "manifest.json").write_text(json.dumps(dict(sorted(manifest.items())), indent=1) + "\n")


def built(folder: Path, name: str, generation: str, command: str) -> dict[str, object]:
    """Run one recipe in ``folder``; clang finds the bundler of its generation through PATH."""
    tools = folder / f"tools{generation}"
    tools.mkdir(exist_ok=True)
    for tool in ("clang-offload-bundler", "clang-offload-packager", "llvm-offload-binary"):
        found = shutil.which(f"{tool}-{generation}")
        if found and not (tools / tool).exists():
            (tools / tool).symlink_to(found)
    line = command.replace("{clang}", f"clang++-{generation}" if " hip " in command else f"clang-{generation}")
    shown = line.replace("{cwd}", "$PWD").replace("$OUT", name)
    environment = {"PATH": f"{tools}:/usr/bin:/bin", "TMPDIR": str(folder), "LC_ALL": "C"}
    subprocess.run(
        line.replace("{cwd}", str(folder)).replace("$OUT", name).split(), cwd=folder, env=environment, check=True
    )
    program = line.split()[0]
    version = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    rows = [row.strip() for row in version.splitlines() if row.strip()]
    return described(folder / name, shown, next((row for row in rows if "version" in row), rows[0]))


def described(path: Path, command: str, tool: str) -> dict[str, object]:
    data = path.read_bytes()
    return {"command": command, "tool": tool, "size": len(data), "sha256": hashlib.sha256(data).hexdigest()}


if __name__ == "__main__" and sys.argv[1:2] == ["--newer-llvm"]:
    newer_llvm(*sys.argv[2:])
elif __name__ == "__main__":
    main(sys.argv[1:])
