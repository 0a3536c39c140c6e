//! SL-07, SL-08, SL-15: a directory that is swapped for a symlink to the outside, over and over,
//! while the back end works in it. The control does the same with realpath-then-open and loses.

use std::{
    fs,
    os::unix::fs::symlink,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::JoinHandle,
};

use haft_contract::ops::{Expected, Overwrite, RemoveScope, WriteFile, WriteMode};
use rustix::fs::{CWD, RenameFlags, renameat_with};

use crate::workspace::{SECRET, Workspace, at};

/// Rounds of each race at least, in a test of a second and in the soak.
const FEW: u64 = 1_000;
const MANY: u64 = 20_000;

/// Swaps that a race must have met. Where the machine gives the swapping thread too little time, the
/// race goes on until they have happened.
const LEAST_SWAPS: u64 = 100;

/// A race that is still not one after so many times its rounds fails.
const MOST_TIMES: u64 = 100;

/// Swaps `d` and `link` until dropped.
pub(crate) struct Swapper {
    stop: Arc<AtomicBool>,
    swaps: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl Swapper {
    pub(crate) fn start(root: &Path) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let swaps = Arc::new(AtomicU64::new(0));
        let (d, link) = (root.join("d"), root.join("link"));
        let thread = std::thread::spawn({
            let (stop, swaps) = (Arc::clone(&stop), Arc::clone(&swaps));
            move || {
                while !stop.load(Ordering::Relaxed) {
                    // Both may be gone for a moment while a tree is removed.
                    if renameat_with(CWD, &d, CWD, &link, RenameFlags::EXCHANGE).is_ok() {
                        swaps.fetch_add(1, Ordering::Relaxed);
                    }
                }
            }
        });
        Self {
            stop,
            swaps,
            thread: Some(thread),
        }
    }

    pub(crate) fn swaps(&self) -> u64 {
        self.swaps.load(Ordering::Relaxed)
    }
}

impl Drop for Swapper {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

/// `d` is a directory with a harmless file called `secret`; `link` leads to the real one.
fn prepare() -> Workspace {
    let ws = Workspace::in_memory();
    ws.put("d/secret", "harmless");
    symlink(&ws.outside, ws.root.join("link")).unwrap();
    ws
}

/// A race: how many rounds there were, and in how many of them the back end did its work.
#[derive(Default)]
pub(crate) struct Race {
    pub(crate) rounds: u64,
    pub(crate) worked: u64,
}

impl Race {
    /// Whether another round is due: until there were enough of them, and the race was one.
    pub(crate) fn goes_on(&mut self, least: u64, swapper: &Swapper) -> bool {
        let met = self.worked > 0 && self.worked < self.rounds && swapper.swaps() > LEAST_SWAPS;
        let over = self.rounds >= least && (met || self.rounds >= least * MOST_TIMES);
        self.rounds += u64::from(!over);
        !over
    }

    pub(crate) fn report(&self, name: &str, swapper: &Swapper) {
        let Self { rounds, worked } = self;
        let swaps = swapper.swaps();
        println!("{name}: {rounds} rounds, {worked} worked, {swaps} swaps, 0 escapes");
        assert!(swaps > LEAST_SWAPS, "the race did not take place");
        assert!(*worked > 0, "nothing ever worked, so nothing was shown");
        assert!(worked < rounds, "the swap was never met");
    }
}

/// The control: the naive way loses this race, so the harness can see an escape.
#[test]
fn sl_07_control_realpath_then_open_loses() {
    let ws = prepare();
    let swapper = Swapper::start(&ws.root);
    let mut escapes = 0;
    let mut rounds = 0;
    while escapes == 0 && rounds < 2_000_000 {
        rounds += 1;
        let Ok(real) = fs::canonicalize(ws.root.join("d/secret")) else {
            continue;
        };
        if !real.starts_with(&ws.root) {
            continue;
        }
        if fs::read_to_string(ws.root.join("d/secret")).is_ok_and(|text| text == SECRET) {
            escapes += 1;
        }
    }
    println!(
        "control: {escapes} escape after {rounds} rounds, {} swaps",
        swapper.swaps()
    );
    assert!(escapes > 0, "the control never lost; the race is not real");
}

async fn reads(rounds: u64) {
    let ws = prepare();
    let swapper = Swapper::start(&ws.root);
    let mut race = Race::default();
    while race.goes_on(rounds, &swapper) {
        if let Ok(resolved) = ws.resolve("d/secret").await {
            assert_eq!(resolved.path.as_str(), "d/secret");
        }
        if let Ok(text) = ws.read("d/secret").await {
            assert_eq!(text, "harmless");
            race.worked += 1;
        }
    }
    race.report("read", &swapper);
}

async fn writes(rounds: u64) {
    let ws = prepare();
    let swapper = Swapper::start(&ws.root);
    let mut race = Race::default();
    while race.goes_on(rounds, &swapper) {
        let round = race.rounds;
        let text = round.to_string();
        let write = WriteFile {
            bytes: text.as_bytes(),
            expected: Expected::Anything,
            mode: WriteMode::AsItIs,
        };
        if ws.files.write(&at("d/new"), write).await.is_ok() {
            race.worked += 1;
        }
    }
    race.report("write", &swapper);
    drop(swapper);
    ws.outside_is_untouched();
    ws.no_leftovers();
}

/// As `edit` does it: read, remember the version, write back only over that version.
async fn edits(rounds: u64) {
    let ws = prepare();
    let swapper = Swapper::start(&ws.root);
    let mut race = Race::default();
    while race.goes_on(rounds, &swapper) {
        let Ok(file) = ws.files.open(&at("d/secret")).await else {
            continue;
        };
        let bytes = file.read_at(0, 100, Vec::new()).await.unwrap();
        assert_eq!(bytes, b"harmless");
        let version = file.stat().version.clone();
        let edited = ws
            .write_expecting("d/secret", "harmless", Expected::Version(&version))
            .await;
        if edited.is_ok() {
            race.worked += 1;
        }
    }
    race.report("edit", &swapper);
    drop(swapper);
    ws.outside_is_untouched();
    ws.no_leftovers();
}

async fn directories(rounds: u64) {
    let ws = prepare();
    let swapper = Swapper::start(&ws.root);
    let mut race = Race::default();
    while race.goes_on(rounds, &swapper) {
        let round = race.rounds;
        let path = format!("d/{}/{}/{}", round % 7, round % 11, round % 500);
        if ws.files.make_dir(&at(&path)).await.is_ok() {
            race.worked += 1;
        }
    }
    race.report("make_dir", &swapper);
    drop(swapper);
    ws.outside_is_untouched();
}

async fn copies(rounds: u64) {
    let ws = prepare();
    ws.put("source", "copied");
    let swapper = Swapper::start(&ws.root);
    let mut race = Race::default();
    while race.goes_on(rounds, &swapper) {
        let round = race.rounds;
        let target = format!("d/{round}");
        if ws.copy("source", &target, Overwrite::Never).await.is_ok() {
            race.worked += 1;
        }
        let stolen = format!("stolen-{round}");
        if ws.copy("d/secret", &stolen, Overwrite::Never).await.is_ok() {
            assert_eq!(ws.text(&stolen), "harmless");
            fs::remove_file(ws.root.join(&stolen)).unwrap();
        }
    }
    race.report("copy", &swapper);
    drop(swapper);
    ws.outside_is_untouched();
    ws.no_leftovers();
}

async fn removals(rounds: u64) {
    let ws = Workspace::in_memory();
    let swapper = Swapper::start(&ws.root.join("tree"));
    let mut race = Race::default();
    while race.goes_on(rounds, &swapper) {
        // The swapped directory lies inside the tree that is removed.
        let fresh = ws.root.join("fresh");
        if fs::create_dir_all(fresh.join("d")).is_ok() {
            fs::write(fresh.join("d/secret"), "harmless").unwrap();
            let _ = symlink(&ws.outside, fresh.join("link"));
            let _ = fs::rename(&fresh, ws.root.join("tree"));
        }
        if ws
            .files
            .remove(&at("tree"), RemoveScope::Tree)
            .await
            .is_ok()
        {
            race.worked += 1;
        }
        assert!(
            ws.outside.join("secret").exists(),
            "the removal followed a symlink out of the workspace"
        );
    }
    race.report("remove", &swapper);
    drop(swapper);
    ws.outside_is_untouched();
}

#[tokio::test]
async fn sl_07_reads_never_escape() {
    reads(FEW).await;
}

#[tokio::test]
async fn sl_08_writes_never_escape() {
    writes(FEW).await;
}

#[tokio::test]
async fn sl_08_edits_never_escape() {
    edits(FEW).await;
}

#[tokio::test]
async fn sl_08_making_directories_never_escapes() {
    directories(FEW).await;
}

#[tokio::test]
async fn sl_08_copies_never_escape() {
    copies(FEW).await;
}

#[tokio::test]
async fn sl_15_removing_a_tree_never_leaves_the_workspace() {
    removals(FEW).await;
}

/// The same for long.
mod soak {
    use super::MANY;

    #[tokio::test]
    #[ignore = "soak: 20,000 rounds of a race"]
    async fn sl_07_reads_never_escape() {
        super::reads(MANY).await;
    }

    #[tokio::test]
    #[ignore = "soak: 20,000 rounds of a race"]
    async fn sl_08_writes_never_escape() {
        super::writes(MANY).await;
    }

    #[tokio::test]
    #[ignore = "soak: 20,000 rounds of a race"]
    async fn sl_08_edits_never_escape() {
        super::edits(MANY).await;
    }

    #[tokio::test]
    #[ignore = "soak: 20,000 rounds of a race"]
    async fn sl_08_making_directories_never_escapes() {
        super::directories(MANY).await;
    }

    #[tokio::test]
    #[ignore = "soak: 20,000 rounds of a race"]
    async fn sl_08_copies_never_escape() {
        super::copies(MANY).await;
    }

    #[tokio::test]
    #[ignore = "soak: 20,000 rounds of a race"]
    async fn sl_15_removing_a_tree_never_leaves_the_workspace() {
        super::removals(MANY).await;
    }
}
