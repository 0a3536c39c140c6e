//! The clocks, and pairs measured side by side.
//!
//! CPU time is what counts: it is the machine's, not the neighbours'. Ours and the bare thing take
//! turns, so that whatever slows the machine down slows both.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// Clock ticks a second in `/proc`, the same on every Linux.
const TICKS: f64 = 100.0;

/// What some work used, in seconds.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ResourcesUsed {
    /// CPU of the calling thread.
    pub(crate) thread: f64,
    /// CPU of the whole process.
    pub(crate) process: f64,
    /// CPU of children that have been waited for.
    pub(crate) children: f64,
    /// Time on the wall.
    pub(crate) wall: f64,
}

impl ResourcesUsed {
    /// CPU of the process and its children.
    pub(crate) fn everything(&self) -> f64 {
        self.process + self.children
    }

    /// The same per operation.
    pub(crate) fn per(self, operations: usize) -> Self {
        let each = |seconds: f64| seconds / operations as f64;
        Self {
            thread: each(self.thread),
            process: each(self.process),
            children: each(self.children),
            wall: each(self.wall),
        }
    }
}

/// What some work uses.
pub(crate) fn used(work: impl FnOnce()) -> ResourcesUsed {
    let children = children_cpu();
    let process = seconds(ClockId::ProcessCPUTime);
    let thread = seconds(ClockId::ThreadCPUTime);
    let began = Instant::now();
    work();
    ResourcesUsed {
        wall: began.elapsed().as_secs_f64(),
        thread: seconds(ClockId::ThreadCPUTime) - thread,
        process: seconds(ClockId::ProcessCPUTime) - process,
        children: children_cpu() - children,
    }
}

/// Repeats short work for about as long as said; what one repetition used.
pub(crate) fn repeated(slice: Duration, mut work: impl FnMut()) -> ResourcesUsed {
    // Reading a clock costs as much as the shortest work, so it is read once in a while.
    let mut batch = 1;
    let mut repetitions = 0;
    let total = used(|| {
        let began = Instant::now();
        while began.elapsed() < slice {
            (0..batch).for_each(|_| work());
            repetitions += batch;
            batch = (batch * 2).min(1024);
        }
    });
    total.per(repetitions)
}

/// Two sides, each round of both.
#[derive(Debug)]
pub(crate) struct MeasuredPair {
    rounds: Vec<(ResourcesUsed, ResourcesUsed)>,
}

impl MeasuredPair {
    /// Measures both sides in turn. The first round warms up and does not count.
    pub(crate) fn measure(
        rounds: usize,
        mut ours: impl FnMut() -> ResourcesUsed,
        mut bare: impl FnMut() -> ResourcesUsed,
    ) -> Self {
        ours();
        bare();
        Self {
            rounds: (0..rounds).map(|_| (ours(), bare())).collect(),
        }
    }

    /// The median of our side.
    pub(crate) fn ours(&self, of: impl Fn(&ResourcesUsed) -> f64) -> f64 {
        median(self.rounds.iter().map(|(ours, _)| of(ours)))
    }

    /// The median of the bare side.
    pub(crate) fn bare(&self, of: impl Fn(&ResourcesUsed) -> f64) -> f64 {
        median(self.rounds.iter().map(|(_, bare)| of(bare)))
    }

    /// The median of the ratios of the rounds.
    pub(crate) fn ratio(&self, of: impl Fn(&ResourcesUsed) -> f64) -> f64 {
        median(self.rounds.iter().map(|(ours, bare)| of(ours) / of(bare)))
    }

    /// The ratio of everything both sides used, for clocks that tick too slowly for one round.
    pub(crate) fn ratio_of_sums(&self, of: impl Fn(&ResourcesUsed) -> f64) -> f64 {
        let ours: f64 = self.rounds.iter().map(|(ours, _)| of(ours)).sum();
        let bare: f64 = self.rounds.iter().map(|(_, bare)| of(bare)).sum();
        ours / bare
    }
}

/// The middle of some numbers.
pub(crate) fn median(numbers: impl Iterator<Item = f64>) -> f64 {
    let mut numbers: Vec<f64> = numbers.collect();
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}

/// CPU seconds of this process's children that have ended.
fn children_cpu() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    // The second field is the program's name in parentheses and may hold anything.
    let (_, rest) = stat.rsplit_once(')').unwrap();
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let ticks = |field: usize| -> f64 { fields[field - 3].parse().unwrap() };
    (ticks(16) + ticks(17)) / TICKS
}

fn seconds(clock: ClockId) -> f64 {
    let now = clock_gettime(clock);
    now.tv_sec as f64 + now.tv_nsec as f64 / 1e9
}
