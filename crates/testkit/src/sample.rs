//! Sample tools (being written).
