"""The optimizer: problems, evaluation, diagnosis and the proposal loop."""
