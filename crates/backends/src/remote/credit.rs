//! How much one side may send in an exchange before the other has handled it.
//!
//! Credit is counted in bytes plus a fixed cost per frame, so that many tiny frames are bounded
//! too. A side without credit waits; a side that sends without credit has violated the protocol,
//! and its connection ends.
//!
//! Both sides count whole frames, by [`cost`] and nothing else: the sender by its [`Window`], the
//! receiver by its [`Allowance`]. The receiver grants again what a frame cost when it arrived, not
//! what is left of it after parsing, so nothing is lost on the way. No slack is needed: a grant is
//! in the allowance before it is sent. Beyond the credit, only the one frame that is being read
//! takes up memory.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Semaphore;

use super::frame::{CHUNK_BYTES, Frame};

/// What one frame costs in addition to its body.
const FRAME_COST: u32 = 64;

/// Initial credit of an exchange for results and output.
pub(crate) const REPLY_WINDOW: u32 = 1024 * 1024;

/// Initial credit of an exchange for a request's body.
pub(crate) const REQUEST_WINDOW: u32 = 256 * 1024;

/// The most frames that fit into a reply window.
pub(crate) const MAX_REPLY_FRAMES: usize = (REPLY_WINDOW / FRAME_COST) as usize;

/// The most frames that fit into a request window.
pub(crate) const MAX_REQUEST_FRAMES: usize = (REQUEST_WINDOW / FRAME_COST) as usize;

// A piece that costs more than the window would never be sent.
const _: () = assert!(CHUNK_BYTES + FRAME_COST as usize <= REQUEST_WINDOW as usize);

/// What a frame costs, on both sides.
fn cost(frame: &Frame) -> u32 {
    u32::try_from(frame.body.len())
        .unwrap_or(u32::MAX)
        .saturating_add(FRAME_COST)
}

/// The credit one side has left for sending in one exchange.
pub(crate) struct Window {
    left: Semaphore,
    most: usize,
}

/// There is no credit for this, and none will come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NoCredit;

impl Window {
    pub(crate) fn new(bytes: u32) -> Self {
        let most = bytes as usize;
        Self {
            left: Semaphore::new(most),
            most,
        }
    }

    /// Waits until this frame may be sent, and hands it back paid for.
    pub(crate) async fn pay(&self, frame: Frame) -> Result<Frame, NoCredit> {
        let permit = self.left.acquire_many(cost(&frame)).await;
        permit.map_err(|_| NoCredit)?.forget();
        Ok(frame)
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

/// What the other side may still send in one exchange: its [`Window`], as the receiver knows it.
pub(crate) struct Allowance {
    counts: Mutex<Counts>,
    /// How much is handled before it is granted again, in one frame instead of many.
    step: u32,
}

struct Counts {
    left: u32,
    /// Handled, but not yet granted again.
    handled: u32,
}

/// Something that arrived, and what it cost. Only [`Allowance::handled`] takes it out, so it cannot
/// be used without its cost being granted again.
pub(crate) struct Charged<T> {
    content: T,
    cost: u32,
}

impl<T> Charged<T> {
    /// The same arrival, parsed. It costs what it did.
    pub(crate) fn try_map<U, E>(
        self,
        parse: impl FnOnce(T) -> Result<U, E>,
    ) -> Result<Charged<U>, E> {
        Ok(Charged {
            content: parse(self.content)?,
            cost: self.cost,
        })
    }
}

impl Allowance {
    /// An allowance of `bytes`; what is handled is granted again in steps of at least `step`.
    pub(crate) fn new(bytes: u32, step: u32) -> Self {
        Self {
            counts: Mutex::new(Counts {
                left: bytes,
                handled: 0,
            }),
            step,
        }
    }

    /// Accounts for a frame that arrived, and returns its body. Fails if it was not paid for.
    pub(crate) fn admit(&self, frame: Frame) -> Result<Charged<Vec<u8>>, NoCredit> {
        let cost = cost(&frame);
        let mut counts = self.counts();
        counts.left = counts.left.checked_sub(cost).ok_or(NoCredit)?;
        Ok(Charged {
            content: frame.body,
            cost,
        })
    }

    /// Takes out what arrived, as handled from now on. Returns what to grant the other side, if it
    /// is time to.
    pub(crate) fn handled<T>(&self, charged: Charged<T>) -> (T, Option<u32>) {
        let mut counts = self.counts();
        counts.handled = counts.handled.saturating_add(charged.cost);
        let grant = (counts.handled >= self.step).then_some(counts.handled);
        if let Some(grant) = grant {
            // Before the grant is sent: the answer to it may arrive at once.
            counts.left = counts.left.saturating_add(grant);
            counts.handled = 0;
        }
        (charged.content, grant)
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::{super::frame::Kind, *};

    /// A frame that costs this much.
    fn costing(cost: u32) -> Frame {
        let body = vec![0; (cost - FRAME_COST) as usize];
        Frame::new(Kind::Data, 1, body)
    }

    #[tokio::test]
    async fn sending_stops_at_the_window_and_goes_on_with_a_grant() {
        let window = Window::new(1000);
        window.pay(costing(900)).await.unwrap();
        let mut second = Box::pin(window.pay(costing(200)));
        let waited = tokio::time::timeout(std::time::Duration::from_millis(20), &mut second);
        assert!(waited.await.is_err(), "more was sent than was granted");
        window.give(100).unwrap();
        second.await.unwrap();
    }

    #[tokio::test]
    async fn a_grant_beyond_the_window_is_a_mistake() {
        let window = Window::new(1000);
        assert_eq!(window.give(1), Err(NoCredit));
        window.pay(costing(100)).await.unwrap();
        assert_eq!(window.give(101), Err(NoCredit));
        assert_eq!(window.give(100), Ok(()));
    }

    #[tokio::test]
    async fn a_closed_window_lets_go() {
        let window = Window::new(10);
        window.close();
        assert_eq!(window.pay(costing(FRAME_COST)).await, Err(NoCredit));
    }

    #[test]
    fn what_arrives_beyond_the_allowance_is_refused_until_some_is_handled() {
        let allowance = Allowance::new(1000, 100);
        let first = allowance.admit(costing(900)).ok().unwrap();
        assert!(allowance.admit(costing(101)).is_err());
        let second = allowance.admit(costing(99)).ok().unwrap();
        // A step is not reached: nothing is granted, and nothing more may arrive.
        assert_eq!(allowance.handled(second).1, None);
        assert!(allowance.admit(costing(64)).is_err());
        assert_eq!(allowance.handled(first).1, Some(999));
        assert!(allowance.admit(costing(1000)).is_ok());
        assert!(allowance.admit(costing(64)).is_err());
    }

    /// Whatever is made of the bodies, the sender's window and the receiver's allowance agree.
    #[tokio::test]
    async fn both_sides_count_the_same() {
        let (window, allowance) = (Window::new(5000), Allowance::new(5000, 1000));
        for round in 0..2000 {
            let frame = window.pay(costing(64 + round % 700)).await.unwrap();
            let parsed = allowance.admit(frame).ok().unwrap();
            let parsed = parsed.try_map(|_| Ok::<_, NoCredit>("short")).unwrap();
            let (_, grant) = allowance.handled(parsed);
            if let Some(grant) = grant {
                window.give(grant).unwrap();
            }
            let left = allowance.counts().left as usize;
            assert_eq!(window.left.available_permits(), left);
            let handled = allowance.counts().handled as usize;
            assert_eq!(left + handled, 5000);
        }
    }
}
