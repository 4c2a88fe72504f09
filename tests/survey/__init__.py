"""The survey: symd on GPU files that people really have, beside independent tools. Packages come from PyPI and Debian, in
the versions that `artefacts.py` names; what a run measured goes into the table of docs/formats.md.

    python -m tests.survey              # all of it: about 1 GB of downloads, one after the other, 4 GB of disk
    python -m tests.survey dpctl nvrtc  # these rows
"""
