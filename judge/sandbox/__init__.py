"""Processes for code that is not trusted: forked from a loaded zygote, isolated in layers."""
