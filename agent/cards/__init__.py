"""Cards of one machine, or of a Ray cluster, lent to one run after another."""
