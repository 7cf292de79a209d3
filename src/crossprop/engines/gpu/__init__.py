"""Pallas programs for GPUs: the kernel engine, and what the others run on GPUs in the place of XLA's loops."""
