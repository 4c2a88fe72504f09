"""The formats of files: ELF, SPIR-V and the containers of each maker, within budgets."""
