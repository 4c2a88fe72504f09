"""The second opinion: the debug data of a module read by symd and by pyelftools, and every difference between the
two."""

from symd.debuginfo.verify.comparison import Difference, VerifyReport
from symd.debuginfo.verify.objects import verify

__all__ = ("Difference", "VerifyReport", "verify")
