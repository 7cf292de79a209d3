"""Papers that are rerun: the experiments and the claims of each, in a module of its own."""
