//! The integration tests of `haft-mcp`, in one binary.
