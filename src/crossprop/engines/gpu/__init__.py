"""Pallas programs for GPUs: the kernel engine, and programs of the other engines in the place of XLA's loops."""
