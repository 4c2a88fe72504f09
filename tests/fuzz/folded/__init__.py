"""AMD code objects in which the linker folded functions, so that line sequences of several begin at one place."""
