//! Towards agents: Haft as one MCP server, over stdio and Streamable HTTP, in both eras.
