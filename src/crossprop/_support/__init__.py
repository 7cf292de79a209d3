"""What the rest of the package stands on: checks of arguments, files, memory, interrupts, words for numbers."""
