"""One kernel for what is done to each row: elementwise operators and reductions along the row."""
