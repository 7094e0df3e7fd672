"""A language model as a proposer: roles, prompts, accounting, and a record of every exchange."""
