"""NVIDIA's cubins and fat binaries."""
