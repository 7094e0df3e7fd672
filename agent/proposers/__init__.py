"""What proposes kernels: tuned parameters, recipes of the corpus, a language model.

A proposer knows nothing of the loop that asks it, nor of the other proposers.
"""
