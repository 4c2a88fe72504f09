"""What GCC leaves in programs that it compiled for GPUs."""
