//! Suites (being written).
