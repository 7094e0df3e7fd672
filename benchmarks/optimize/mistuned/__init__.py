"""Deliberately mistuned kernels: how far `tune` alone brings each of them."""
