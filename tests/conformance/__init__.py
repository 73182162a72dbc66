"""The MCP's own conformance tests, with Ozzie as the client and as the server."""
