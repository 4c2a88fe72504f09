"""Field numbers of others' protocol buffers: a class for each message, with the numbers of its fields by the names that
its .proto file gives them."""
