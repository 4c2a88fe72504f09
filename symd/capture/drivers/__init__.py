"""Real Level Zero and OpenCL drivers, run in child processes: grab a module's debug data, and see what is installed."""

from symd.capture.drivers.runner import Confinement, DriverReport, grab, survey
from symd.capture.drivers.simulate import NEWER_PRODUCTS, PRODUCTS

__all__ = ("NEWER_PRODUCTS", "PRODUCTS", "Confinement", "DriverReport", "grab", "survey")
