"""GPU core dumps: what every warp or wave was doing when the dump was made.

``nvidia``      CUDA's dumps: tables of devices, blocks, warps, lanes and calls
``amd``         ROCm's: waves in the areas in which they were saved (``amd_waves``)
``read``        either
``faults``      what CUDA's exceptions are called
``stopped``     the form of all that, before anybody is asked which lines it means; device addresses to loaded code;
                which modules have the same code
``answering``   the lines, from the dump's own code objects or from modules that have the same code
``values``      variables from registers

The code objects inside are opened by ``containers``, as those of every module.
"""
