"""What NVIDIA's nvdisasm wrote, kept for machines without it."""
