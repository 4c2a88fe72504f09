"""The daemon: the engine's verbs as gRPC services, with health and reflection beside them."""
