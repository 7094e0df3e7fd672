"""The Model Context Protocol: the same answers as over HTTP, as tools and resources."""
