"""The process that runs untrusted code: obeys the judge's commands, knows nothing of judging."""
