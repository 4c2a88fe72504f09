"""Real Level Zero and OpenCL drivers, run in child processes: grab a module's debug data, and see what is installed."""

from symd.drivers.confinement import Confinement
from symd.drivers.discover import DriverReport, survey
from symd.drivers.runner import grab
from symd.drivers.simulate import NEWER_PRODUCTS, PRODUCTS

__all__ = ("NEWER_PRODUCTS", "PRODUCTS", "Confinement", "DriverReport", "grab", "survey")
