"""HTTP and MCP retrieval over one index folder."""
