//! Chance from the system, for secrets.

use rustix::rand::{GetRandomFlags, getrandom};

/// The system has no randomness.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the system has no randomness")]
pub struct NoRandomness;

/// Fills bytes by chance.
pub fn fill_random(bytes: &mut [u8]) -> Result<(), NoRandomness> {
    let wanted = bytes.len();
    match getrandom(bytes, GetRandomFlags::empty()) {
        Ok(filled) if filled == wanted => Ok(()),
        Ok(_) | Err(_) => Err(NoRandomness),
    }
}
