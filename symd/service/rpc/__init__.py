"""One module an RPC. Each has ``handle(service, request, context)`` and nothing that another one needs."""
