"""Problem and kernel files: read, checked by syntax tree, never run here."""
