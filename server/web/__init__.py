"""The web page: the knowledge base for people, rendered here, complete without JavaScript."""

from server.web.mount import install

__all__ = ["install"]
