"""The second opinion: the debug data of a module read by symd and by pyelftools, and every difference between the two."""

from symd.verify.objects import verify
from symd.verify.records import Difference, Report

__all__ = ("Difference", "Report", "verify")
