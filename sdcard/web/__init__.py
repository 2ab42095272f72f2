"""SD-Cards on HTTP, A2A and MCP: authenticate, client auth, publish."""
