"""What is surveyed: one `Artefact` a row of the table. To add a row, add one here and run `make survey ONLY=name`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tests.survey.registries import DebianPackage, Package, Wheel

PROGRAMS = Path(__file__).parent / "programs"


Bound = tuple[float, int]
"""Seconds of processor time, and bytes of memory."""


@dataclass(frozen=True)
class Bounds:
    """What a large file may cost: `symd info`, one address with `--object`, and one without it. ``beside_cuobjdump``: `info`
    takes at most three times the processor time of `cuobjdump -lelf`, and not more memory; cuobjdump only lists, and `info`
    has the SHA-256 of every cubin."""

    info: Bound | None = None
    address_of_object: Bound | None = None
    address: Bound | None = None
    beside_cuobjdump: bool = False


@dataclass(frozen=True)
class Artefact:
    """``files`` are patterns below the folder in which the packages are unpacked, or, with a ``program`` that makes the files,
    below its own. ``checkout`` instead names the environment variable that says where a public repository is.
    ``compare`` are names of `compare.COMPARISONS`: over all files each has to find something to compare.
    ``doubted`` is how many of the answers asked say that AMD's or NVIDIA's debug data contradict themselves, after somebody
    looked at each.
    ``small`` artefacts are surveyed by the tests too."""

    name: str
    files: tuple[str, ...]
    compare: tuple[str, ...]
    packages: tuple[Package, ...] = ()
    program: str = ""
    checkout: str = ""
    about: str = ""
    bounds: Bounds | None = None
    doubted: int = 0
    why_doubted: str = ""
    small: bool = False

    @property
    def title(self) -> str:
        return " ".join(word for word in (str(self.packages[0]) if self.packages else "", self.about) if word)

    @property
    def again(self) -> str:
        """How to get it again."""
        steps = [f"`{package.command}`" for package in self.packages]
        if self.program:
            steps.append(f"`tests/survey/programs/{self.program}.py`")
        if self.checkout:
            steps.append(f"a checkout in `{self.checkout}`")
        return ", ".join(steps)


MIB = 1 << 20
SYCL = ("images", "spirv-kernels", "kernels")
CUDA = ("cuobjdump", "kernels", "functions")
HIP = ("bundler", "kernels", "functions", "llvm")
NAMELESS = "Triton gives the kernel's name to all that is inlined into it"

ARTEFACTS = (
    Artefact("dpctl", ("**/*.so*",), ("images", "spirv-kernels"), (Wheel("dpctl", "0.22.1"),), small=True),
    Artefact("dpnp", ("**/*.so*",), ("images", "spirv-kernels"), (Wheel("dpnp", "0.20.0"),)),
    Artefact(
        "onemkl", ("**/libmkl_sycl_rng.so*",), ("images", "spirv-kernels"), (Wheel("onemkl-sycl-rng", "2026.2.0"),),
    ),
    Artefact(
        "bitsandbytes-xpu", ("**/*_xpu*.so",), SYCL, (Wheel("bitsandbytes", "0.50.2"),), about="(XPU)",
    ),
    Artefact(
        "bitsandbytes-rocm", ("**/*_rocm*.so",), HIP, (Wheel("bitsandbytes", "0.50.2"),), about="(ROCm)",
    ),
    Artefact(
        "bitsandbytes-cuda", ("**/*_cuda*.so",), CUDA, (Wheel("bitsandbytes", "0.50.2"),), about="(CUDA)",
    ),
    Artefact("xgboost", ("**/*.so*",), CUDA, (Wheel("xgboost", "3.2.0"),)),
    Artefact(
        "nccl", ("**/libnccl.so*",), CUDA, (Wheel("nvidia-nccl-cu12", "2.32.3"),),
        bounds=Bounds(beside_cuobjdump=True),
    ),
    Artefact(
        "librocrand", ("**/librocrand.so.*",), (*HIP, "pyelftools"), (DebianPackage("librocrand1", "5.3.3-4"),),
    ),
    Artefact(
        "librocsparse", ("**/librocsparse.so.*",), ("kernels", "functions", "llvm", "pyelftools"),
        (DebianPackage("librocsparse0", "5.3.0+dfsg-2"),),
        bounds=Bounds((15, 700 * MIB), (1, 200 * MIB), (5, 500 * MIB)),
    ),
    Artefact(
        "triton-cuda", ("*.cubin",), ("nvdisasm", "kernels", "functions", "source-text"), (Wheel("triton", "3.9.0"),), "triton_kernels",
        about="(CUDA, ahead of time)", doubted=72, why_doubted=NAMELESS,
    ),
    Artefact(
        "triton-hip", ("*.hsaco",), ("llvm", "kernels", "functions", "pyelftools", "source-text"), (Wheel("triton", "3.9.0"),), "triton_kernels",
        about="(HIP, ahead of time)", doubted=87, why_doubted=NAMELESS,
    ),
    Artefact(
        "nvrtc-lineinfo", ("*.lineinfo.cubin",), ("nvdisasm", "kernels", "functions", "source-text"), (Wheel("nvidia-cuda-nvrtc", "13.5.37"),),
        "nvrtc_kernels", about="`-lineinfo`",
    ),
    Artefact(
        "nvrtc-debug", ("*.debug.cubin",), ("nvdisasm", "kernels", "functions", "pyelftools", "source-text"),
        (Wheel("nvidia-cuda-nvrtc", "13.5.37"),), "nvrtc_kernels", about="`-G`",
    ),
    Artefact(
        "hpctoolkit", ("tests/data/bin/*-sm_*[0-9r]",), ("hpcstruct", "nvdisasm", "kernels", "functions"),
        checkout="SYMD_SURVEY_HPCTOOLKIT", about="HPCToolkit's test cubins, branch develop, toolkits 10.2 to 12.0",
        doubted=147, why_doubted="with `-G` these toolkits end an inlined call before the last row of its line does; toolkit 10.2 with `-lineinfo` tells no inlined calls",
    ),
    Artefact(
        "dpcpp", ("*.spv",), ("spirv-kernels", "spirv-positions"),
        (
            Wheel("intel-sycl-rt", "2026.2.0"), Wheel("intel-cmplr-lib-rt", "2026.2.0"), Wheel("intel-cmplr-lib-ur", "2026.2.0"),
            Wheel("umf", "1.2.0"), Wheel("tcmlib", "1.6.0"), DebianPackage("libhwloc15", "2.9.0-1"),
        ),
        "dpcpp_kernels", about="(`libsycl-jit`, `-g`)",
    ),
    Artefact(
        "vulkan-layers", ("**/*.so",), ("embedded-spirv", "spirv-kernels"), (Wheel("ai-ml-emulation-layer-for-vulkan", "0.11.0"),),
        about="(Vulkan)", small=True,
    ),
    Artefact(
        "ggml-vulkan", ("**/libonnxruntime_ggml.so",), ("embedded-spirv", "spirv-kernels"), (Wheel("onnxruntime-ggml", "0.2.0"),),
        about="(ggml's Vulkan backend)",
    ),
    Artefact(
        "slang", ("*.spv",), ("spirv-kernels", "spirv-positions", "source-text"), (Wheel("slangpy", "0.43.1"),), "slang_shaders",
        about="(Slang 2026.12)",
    ),
)  # fmt: skip


def named(name: str) -> Artefact:
    return next(each for each in ARTEFACTS if each.name == name)
