"""The judge: correctness against an oracle, times against a floor, and one verdict."""
