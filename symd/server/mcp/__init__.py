"""The questions as tools of the Model Context Protocol, for assistants: short, structured answers with a bound on each.

``tools`` answers them over any ``Symbolizer`` and knows nothing of the protocol; ``server`` offers them, and is the one
module that imports the package ``mcp`` (the extra of that name)."""
