"""Search: understand a query, score chunks against it, and abstain when nothing fits."""
