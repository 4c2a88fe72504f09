"""One module's rows and scopes as immutable sorted columns: what it looks like on disk (format), how it is made
(builder) and how it is asked (lookup)."""

from symd.index.builder import build
from symd.index.format import VERSION
from symd.index.lookup import Index

__all__ = ("VERSION", "Index", "build")
