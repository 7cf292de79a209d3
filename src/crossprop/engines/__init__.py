"""Ways to execute runs: they differ in speed, never in meaning."""
