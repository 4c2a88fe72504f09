"""The published JSON of answers: one module a topic, used by the command line, by profiles and by whatever serves JSON.

Every function takes values of ``symd.model`` and gives a dict ready for ``to_json``, or, where there are very many
rows, the finished text. Keys and their order are published; an absent value is null."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

to_json: Callable[[Any], str] = json.JSONEncoder(ensure_ascii=False).encode
"""One line of JSON, without its end of line; characters beyond ASCII stay readable."""
to_ascii_json: Callable[[Any], str] = json.JSONEncoder().encode
"""One line of JSON, without its end of line; characters beyond ASCII are escaped, so that it may be put into a text
of any encoding."""
