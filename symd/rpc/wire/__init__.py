"""Model values to messages of symd.v1 and back, both directions side by side. Pure: nothing here calls anybody."""
