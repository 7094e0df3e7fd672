"""Requests to a language model behind an OpenAI-compatible endpoint, and what can go wrong."""
