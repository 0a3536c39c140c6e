//! Whether the process that runs Haft stays well while it is attacked: its memory, and how long
//! another caller waits for a call that does nothing.

use std::{
    fs,
    path::Path,
    time::{Duration, Instant},
};

use haft::{Haft, prelude::*};

use crate::attacks::attempt::check;

/// The most memory an attack may cost, whatever its size.
const MEMORY: u64 = 96 << 20;

/// A difference between two waits that says nothing on a busy machine.
const NOISE: Duration = Duration::from_millis(50);

/// How long what is usual is measured.
const USUAL: Duration = Duration::from_secs(2);

/// The longest it is measured again after an attack.
const LONGEST_USUAL: Duration = Duration::from_secs(10);

/// Runs an attack while another caller makes calls that do nothing; whether memory stays bounded.
pub(super) async fn memory_during<T>(
    haft: &Haft,
    attack: impl Future<Output = T>,
) -> (T, Result<(), String>) {
    let before = resident();
    let (done, _) = waits(haft, attack).await;
    let grown = peak_since(before);
    println!("memory grew by {} MiB", grown >> 20);
    (done, bounded(grown))
}

fn bounded(grown: u64) -> Result<(), String> {
    check(grown < MEMORY, || {
        format!("memory grew by {} MiB", grown >> 20)
    })
}

/// What an attack did to the process.
pub(super) struct Health {
    grown: u64,
    usual: Duration,
    attacked: Duration,
}

impl Health {
    /// Runs an attack while another caller makes calls that do nothing. What is usual is measured
    /// before, and again afterwards if others waited longer, for as long as the attack took: other work
    /// on the machine comes and goes.
    pub(super) async fn during<T>(haft: &Haft, attack: impl Future<Output = T>) -> (T, Self) {
        let ((), usual) = waits(haft, tokio::time::sleep(USUAL)).await;
        let before = resident();
        let began = Instant::now();
        let (done, attacked) = waits(haft, attack).await;
        let as_long = began.elapsed().clamp(USUAL, LONGEST_USUAL);
        let grown = peak_since(before);
        let mut health = Self {
            grown,
            usual,
            attacked,
        };
        if health.others().is_err() {
            let ((), last) = waits(haft, tokio::time::sleep(as_long)).await;
            health.usual = usual.max(last);
        }
        println!(
            "memory grew by {} MiB; p99 of a call that does nothing {:?}, usually {:?}",
            health.grown >> 20,
            health.attacked,
            health.usual
        );
        (done, health)
    }

    pub(super) fn memory(&self) -> Result<(), String> {
        bounded(self.grown)
    }

    pub(super) fn others(&self) -> Result<(), String> {
        check(self.attacked <= self.usual * 2 + NOISE, || {
            format!(
                "others waited {:?}, usually {:?}",
                self.attacked, self.usual
            )
        })
    }
}

/// Makes calls that do nothing until something else is done; the 99th percentile of their waits. The time
/// in which the kernel let nobody of this control group run is not counted: an attack uses up the quota of
/// a machine that has one, and no program can help the others over that.
async fn waits<T>(haft: &Haft, until: impl Future<Output = T>) -> (T, Duration) {
    let mut took = Vec::new();
    let mut until = std::pin::pin!(until);
    let done = loop {
        let (begun, held_before) = (Instant::now(), held_back());
        let nothing = haft.call("list", json!({ "path": ".", "limit": 1 }));
        tokio::select! {
            biased;
            outcome = nothing => {
                assert!(outcome.succeeded(), "{}", outcome.model_text());
                let held = held_back().saturating_sub(held_before);
                took.push(begun.elapsed().saturating_sub(held));
            }
            done = &mut until => break done,
        }
        tokio::select! {
            done = &mut until => break done,
            () = tokio::time::sleep(Duration::from_millis(5)) => {}
        }
    };
    took.sort();
    let at = took.len() * 99 / 100;
    (
        done,
        took.get(at.min(took.len().saturating_sub(1)))
            .copied()
            .unwrap_or_default(),
    )
}

/// How long the kernel has held back this control group and those above it, because a quota was used up.
fn held_back() -> Duration {
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap();
    let mut held = Duration::ZERO;
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else {
            continue;
        };
        // Version 2 has one hierarchy for everything.
        let root = match controllers {
            "" => "/sys/fs/cgroup",
            _ if controllers.split(',').any(|name| name == "cpu") => "/sys/fs/cgroup/cpu",
            _ => continue,
        };
        for group in Path::new(path).ancestors() {
            let group = Path::new(root).join(group.strip_prefix("/").unwrap_or(group));
            let stat = fs::read_to_string(group.join("cpu.stat")).unwrap_or_default();
            for line in stat.lines() {
                held += match line.split_once(' ') {
                    Some(("throttled_time", nanoseconds)) => {
                        Duration::from_nanos(nanoseconds.parse().unwrap())
                    }
                    Some(("throttled_usec", microseconds)) => {
                        Duration::from_micros(microseconds.parse().unwrap())
                    }
                    Some(_) | None => Duration::ZERO,
                };
            }
        }
    }
    held
}

fn status(field: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with(field)).unwrap();
    let kilobytes: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kilobytes << 10
}

/// What this process holds now; the peak is counted from here.
pub(super) fn resident() -> u64 {
    // 5 resets the peak.
    fs::write("/proc/self/clear_refs", "5").unwrap();
    status("VmRSS")
}

pub(super) fn peak_since(before: u64) -> u64 {
    status("VmHWM").saturating_sub(before)
}
