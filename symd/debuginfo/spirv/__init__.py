"""Lines, scopes and source texts of SPIR-V modules."""
