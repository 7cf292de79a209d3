"""The lab: a local page on which learners, streams and hyperparameters are changed while the runs live."""
