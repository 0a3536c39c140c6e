//! Definitions of mounted servers, pinned: accepted once, blocked when they change.
