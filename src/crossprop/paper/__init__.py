"""The paper: its experiments and its claims."""
