"""Containers that LLVM's offloading tools write, whoever made what is in them."""
