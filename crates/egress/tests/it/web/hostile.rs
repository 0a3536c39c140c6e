//! Answers made to hurt whoever fetches or reads them. Each costs its own call: the host goes on, its
//! memory does not grow with what was sent, and every call ends within its time.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use haft_contract::Terminal;
use haft_testkit::{Harness, PATIENCE};
use haft_tools::web::web_fetch::WebFetchConfig;
use serde_json::json;
use tokio::sync::Semaphore;

use super::{
    at_home, documents,
    site::{Site, ok},
};

/// How long each call may take.
const WITHIN: Duration = Duration::from_secs(8);

/// The most bytes of an answer that are taken.
const TAKEN: usize = 4 * 1024 * 1024;

/// How much the memory of the host may grow: a few answers at a time, and what is kept of them.
const GROWTH_KB: u64 = 224 * 1024;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_document_made_to_hurt_costs_its_own_call() {
    let documents = Arc::new(documents::all());
    assert!(documents.len() >= 150, "{}", documents.len());
    let served = Arc::clone(&documents);
    let site = Site::start(move |path| {
        let number = path.trim_start_matches('/').parse::<usize>();
        match number.ok().and_then(|number| served.get(number)) {
            Some((_, say)) => say(),
            None => ok("text/html", "<p>an ordinary page"),
        }
    });
    let config = WebFetchConfig {
        max_bytes: Some(TAKEN),
        ..WebFetchConfig::default()
    };
    let harness = Arc::new(at_home(&[site.port], config).build());
    ordinary(&harness, &site).await;
    let before = resident_kb();
    let most = Arc::new(AtomicU64::new(0));
    let (places, mut running) = (Arc::new(Semaphore::new(4)), Vec::new());
    for (number, (name, _)) in documents.iter().enumerate() {
        let place = Arc::clone(&places).acquire_owned().await.unwrap();
        let (harness, most) = (Arc::clone(&harness), Arc::clone(&most));
        let (url, name) = (site.url(&format!("/{number}")), name.clone());
        running.push(tokio::spawn(async move {
            let request = harness
                .request("web_fetch", json!({ "url": url }))
                .timeout(WITHIN);
            let began = Instant::now();
            let outcome = harness.runtime.call(request).await;
            let took = began.elapsed();
            drop(place);
            most.fetch_max(resident_kb(), Ordering::Relaxed);
            let kind = outcome.error.as_ref().map(|error| error.message.clone());
            println!(
                "{:9} {took:>9.3?} {name}: {}",
                outcome.terminal,
                kind.unwrap_or_default()
            );
            assert!(took < WITHIN + PATIENCE, "{name}: {took:?}");
            let ended = [
                Terminal::Succeeded,
                Terminal::Failed,
                Terminal::TimedOut,
                Terminal::Denied,
            ];
            assert!(ended.contains(&outcome.terminal), "{name}: {outcome:?}");
            let text = outcome.model_text();
            assert!(text.len() < 300_000, "{name}");
            assert_ne!(
                outcome.error.as_ref().map(|error| error.kind),
                Some(haft_contract::ErrorKind::Internal),
                "{name}"
            );
            outcome.terminal
        }));
    }
    let mut ends = Vec::new();
    for one in running {
        ends.push(one.await.unwrap());
    }
    ordinary(&harness, &site).await;
    let grown = most.load(Ordering::Relaxed).saturating_sub(before);
    let read = ends
        .iter()
        .filter(|end| **end == Terminal::Succeeded)
        .count();
    println!(
        "{} documents, {read} read; the host grew by {grown} kB at most",
        ends.len()
    );
    assert!(grown < GROWTH_KB, "{grown} kB");
}

async fn ordinary(harness: &Harness, site: &Site) {
    // Each time another address, so that it is no copy.
    let url = site.url(&format!("/fine?{}", site.asked().len()));
    let outcome = harness.succeed("web_fetch", json!({ "url": url })).await;
    assert!(outcome.model_text().contains("an ordinary page"));
}

/// The memory this process has now.
fn resident_kb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmRSS:"))
        .unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}
