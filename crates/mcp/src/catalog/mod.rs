//! Finding tools in a large catalog, and what listing them costs.
