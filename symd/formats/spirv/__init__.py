"""SPIR-V modules: words, instruction sets by version, functions and kernels. Nothing here knows a container."""
