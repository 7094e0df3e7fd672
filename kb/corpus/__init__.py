"""Corpus entries: their models, their front matter, and loading a corpus folder."""
