//! The CPU time of this process, for promises that hostile input costs little.
//!
//! Unlike wall time it excludes time taken by neighbours, a quota or a stopped machine, so a limit
//! can be as tight as what it guards. It does not include waiting: code that hangs is caught by the
//! test's own time limit.

use std::time::Duration;

/// Ticks per second in `/proc`, on every Linux.
const TICKS: u64 = 100;

/// CPU time since it was created.
#[derive(Debug, Clone, Copy)]
pub struct CpuTime(Duration);

impl CpuTime {
    /// Starts counting.
    pub fn start() -> Self {
        Self(Self::ever())
    }

    /// What all threads of this process have used since it began.
    pub fn ever() -> Duration {
        used("self", 2)
    }

    /// What another process has used since it began, and its children that it has waited for; nothing
    /// if it is gone.
    pub fn of_process(id: &str) -> Duration {
        used(id, 4)
    }

    /// What all threads of this process have used since then, in steps of ten milliseconds.
    pub fn used(&self) -> Duration {
        Self::ever().saturating_sub(self.0)
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "a file of the kernel about this process, in no workspace"
)]
fn used(process: &str, fields: usize) -> Duration {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{process}/stat")) else {
        return Duration::ZERO;
    };
    // The name may hold anything; only numbers follow its closing bracket. User and system time are
    // fields 14 and 15, those of children 16 and 17; the first two fields come before the bracket.
    let (_, numbers) = stat.rsplit_once(')').unwrap();
    let numbers = numbers.split_whitespace().skip(11).take(fields);
    let ticks: u64 = numbers.map(|field| field.parse::<u64>().unwrap()).sum();
    Duration::from_millis(ticks * 1000 / TICKS)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computing counts, sleeping does not.
    #[test]
    fn what_is_computed_counts_and_what_is_waited_for_does_not() {
        let enough = Duration::from_millis(100);
        let time = CpuTime::start();
        std::thread::park_timeout(4 * enough);
        assert!(time.used() < enough, "{:?}", time.used());
        while time.used() < enough {
            std::hint::spin_loop();
        }
    }
}
