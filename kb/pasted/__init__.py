"""What the text of a kernel shows before it runs: mistakes and costs, with their lines.

Knows nothing of the corpus, of profiles or of GPUs. `source` reads what a diagnosis asks of a text,
`remarks` what its author should see.
"""
