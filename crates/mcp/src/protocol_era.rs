//! The two generations of the protocol. `upstream::session` finds out which one a server speaks.

/// The protocol generation a server speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ProtocolEra {
    /// With `initialize`: up to 2025-11-25.
    Legacy,
    /// Stateless: from 2026-07-28.
    Modern,
}
