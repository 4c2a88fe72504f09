"""One module an RPC. Each has ``handle(parts, request, context)`` and nothing that another one needs."""
