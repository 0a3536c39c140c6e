//! A network with only loopback in it, one per test: an agent that tries to reach anything else
//! cannot, and the kernel counts the attempt.
//!
//! The test re-runs itself in its own user and network namespace, without privileges in it, so that
//! the model, the agent and Haft share a loopback that no other process uses.

use std::{
    env, fs,
    process::{Command, exit},
    thread,
};

/// Set when a test already runs in its own network.
const ALONE: &str = "HAFT_AGENTS_ALONE";

/// Brings loopback up, drops every privilege in the namespace, and runs the rest of its arguments.
const ENTER: &str =
    "ip link set lo up && exec setpriv --inh-caps=-all --ambient-caps=-all -- \"$@\"";

/// Runs a test in its own network.
///
/// # Panics
///
/// If anything in it tried to leave the network.
pub fn alone(test: impl FnOnce()) {
    if env::var_os(ALONE).is_some() {
        test();
        let tried = attempts_to_leave();
        assert!(
            tried.is_empty(),
            "the agent tried to leave loopback: {tried:?}"
        );
        return;
    }
    let this = env::current_exe().expect("the test's own program");
    let name = thread::current().name().map(str::to_owned);
    let name = name.expect("tests run on threads with their name");
    let status = Command::new("unshare")
        .args(["--user", "--map-current-user", "--net", "--keep-caps"])
        .args(["sh", "-c", ENTER, "sh"])
        .arg(this)
        .args(["--exact", &name, "--include-ignored", "--nocapture"])
        .env(ALONE, "1")
        .status()
        .expect("unshare, from util-linux");
    // The test's own output is already on the same streams.
    if !status.success() {
        exit(status.code().unwrap_or(1));
    }
}

/// What the kernel counted: packets without a route, and name-server queries that nobody answers.
fn attempts_to_leave() -> Vec<String> {
    let mut tried = Vec::new();
    let snmp = fs::read_to_string("/proc/self/net/snmp").expect("the counters of IPv4");
    for (protocol, counter) in [("Ip:", "OutNoRoutes"), ("Udp:", "NoPorts")] {
        let mut lines = snmp.lines().filter(|line| line.starts_with(protocol));
        let (names, values) = (lines.next().expect("names"), lines.next().expect("values"));
        let mut counters = names.split(' ').zip(values.split(' '));
        let value = counters
            .find(|(name, _)| *name == counter)
            .expect("a counter")
            .1;
        if value != "0" {
            tried.push(format!("{protocol} {counter} {value}"));
        }
    }
    let snmp6 = fs::read_to_string("/proc/self/net/snmp6").unwrap_or_default();
    let no_routes = snmp6
        .lines()
        .find(|line| line.starts_with("Ip6OutNoRoutes"));
    if let Some(line) = no_routes
        && line.split_whitespace().last() != Some("0")
    {
        tried.push(line.to_owned());
    }
    tried
}
