"""The web page: the knowledge base for people, rendered here, complete without JavaScript."""
