"""The compiled reader: what reads debug data byte by byte. Each module is Python in Cython's pure mode, compiled by ``setup.py``;
docs/design.md says how it is rebuilt and how a function is debugged uncompiled."""
