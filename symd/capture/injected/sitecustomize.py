"""Put in front of a program's Python path by ``symd run``: Python imports this when it starts. It waits for Triton,
takes its folder off the path again, and lets the ``sitecustomize`` have its turn that would have been imported without
it.

Any Python may read this file, also one that Triton does not run on, and 2.7: no annotations, nothing new.
"""

import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))


def _listen(knobs):
    sys.path.insert(0, _HERE)
    try:
        from symd_capture import listen_for_symd
    finally:
        sys.path.remove(_HERE)
    listen_for_symd(knobs)


try:
    if sys.version_info >= (3, 8) and "symd_after_import" not in sys.modules:  # a run inside another has waited already
        from symd_after_import import AfterImport

        AfterImport("triton.knobs", _listen).start()
finally:
    sys.path[:] = [entry for entry in sys.path if entry != _HERE]

_own = sys.modules.pop("sitecustomize")
try:
    import sitecustomize  # noqa: F401 - another than this one, which is off the path
except ImportError as error:
    if getattr(error, "name", "sitecustomize") != "sitecustomize":
        raise
    sys.modules["sitecustomize"] = _own
