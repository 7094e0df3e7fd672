"""The knowledge base: entries, hierarchy, index, embedders, search and budgeted context."""

__version__ = "0.1.0"
