"""Helpers for the whole package: checks of arguments, files, memory, interrupts, numbers as text."""
