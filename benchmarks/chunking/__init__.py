"""How well the chunkers find functions in published sources."""
