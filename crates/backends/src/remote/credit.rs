//! How much one side may send in an exchange before the other has handled it.
//!
//! Credit is counted in bytes plus a fixed cost per frame, so that many tiny frames are bounded
//! too. A side without credit waits; a side that sends without credit has violated the protocol,
//! and its connection ends.

use tokio::sync::Semaphore;

/// What one frame costs in addition to its bytes.
const FRAME_COST: usize = 64;

/// Initial credit of an exchange for results and output.
pub(crate) const REPLY_WINDOW: usize = 1024 * 1024;

/// Initial credit of an exchange for a request's body.
pub(crate) const REQUEST_WINDOW: usize = 256 * 1024;

/// The most frames that fit into a reply window.
pub(crate) const MAX_REPLY_FRAMES: usize = REPLY_WINDOW / FRAME_COST;

/// The most frames that fit into a request window.
pub(crate) const MAX_REQUEST_FRAMES: usize = REQUEST_WINDOW / FRAME_COST;

/// What a frame with this many bytes costs.
pub(crate) fn cost(bytes: usize) -> u32 {
    u32::try_from(bytes.saturating_add(FRAME_COST)).unwrap_or(u32::MAX)
}

/// The credit one side has left in one exchange.
pub(crate) struct Window {
    left: Semaphore,
    most: usize,
}

/// No more credit will come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NoCredit;

impl Window {
    pub(crate) fn new(bytes: usize) -> Self {
        Self {
            left: Semaphore::new(bytes),
            most: bytes,
        }
    }

    /// Waits until a frame with this many bytes may be sent.
    pub(crate) async fn take(&self, bytes: usize) -> Result<(), NoCredit> {
        let permit = self.left.acquire_many(cost(bytes)).await;
        permit.map_err(|_| NoCredit)?.forget();
        Ok(())
    }

    /// Adds what the other side granted. Fails if that exceeds the window.
    pub(crate) fn give(&self, bytes: u32) -> Result<(), NoCredit> {
        let bytes = usize::try_from(bytes).map_err(|_| NoCredit)?;
        let after = self.left.available_permits().saturating_add(bytes);
        if after > self.most {
            return Err(NoCredit);
        }
        self.left.add_permits(bytes);
        Ok(())
    }

    /// Wakes everybody who waits; they get [`NoCredit`].
    pub(crate) fn close(&self) {
        self.left.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn sending_stops_at_the_window_and_goes_on_with_a_grant() {
        let window = Window::new(1000);
        window.take(900 - FRAME_COST).await.unwrap();
        let mut second = Box::pin(window.take(200 - FRAME_COST));
        let waited = tokio::time::timeout(std::time::Duration::from_millis(20), &mut second);
        assert!(waited.await.is_err(), "more was sent than was granted");
        window.give(100).unwrap();
        second.await.unwrap();
    }

    #[tokio::test]
    async fn a_grant_beyond_the_window_is_a_mistake() {
        let window = Window::new(1000);
        assert_eq!(window.give(1), Err(NoCredit));
        window.take(100 - FRAME_COST).await.unwrap();
        assert_eq!(window.give(101), Err(NoCredit));
        assert_eq!(window.give(100), Ok(()));
    }

    #[tokio::test]
    async fn a_closed_window_lets_go() {
        let window = Window::new(10);
        window.close();
        assert_eq!(window.take(1).await, Err(NoCredit));
    }
}
