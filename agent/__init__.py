"""The optimizer: a loop that profiles, diagnoses, retrieves, proposes and selects.

Verdicts and times come from `judge`. The loop knows nothing of how a proposer works.
"""
