//! Many tenants in one process: one record, one policy, and a workspace for each of them.
//!
//! Run it with `cargo run -p haft --example many_tenants`. The rules are in
//! `examples/many-tenants/haft.toml`.
#![allow(clippy::print_stdout, reason = "an example prints what it does")]

use std::time::Duration;

use haft::{contract::TenantId, prelude::*};

/// Runs the example and returns the lines to print.
pub(crate) async fn run() -> Result<Vec<String>, Box<dyn std::error::Error>> {
    let mut said = Vec::new();
    let (acme, beta) = (tempfile::tempdir()?, tempfile::tempdir()?);
    let host = Host::builder()
        .in_memory()
        .policy_text(
            "haft.toml",
            include_str!("../../../examples/many-tenants/haft.toml"),
        )
        .build()
        .await?;

    // One handle for each conversation. Nothing is opened before the first call.
    let places = [("acme", &acme), ("beta", &beta)];
    let mut handles = Vec::new();
    for (tenant, directory) in places {
        let workspace = host.workspace(directory.path()).tenant(tenant);
        handles.push(workspace.agent("writer").session("s1").haft()?);
    }

    // The same path is another file for each.
    for haft in &handles {
        let tenant = &haft.principal().tenant;
        let note = json!({"path": "notes/today.txt", "content": format!("of {tenant}\n")});
        let written = haft.call("write", note).await;
        let read = haft.call("read", json!({"path": "notes/today.txt"})).await;
        said.push(format!(
            "{tenant}: {}, reads: {}",
            written.terminal,
            read.model_text().trim()
        ));
    }

    // A directory is one tenant's.
    let refused = host.workspace(acme.path()).tenant("beta").haft();
    said.push(format!("beta in acme's directory: {}", refused.is_err()));

    // Another agent of the same tenant has the rules of its own.
    let reader = host.workspace(acme.path()).tenant("acme").agent("reader");
    let note = json!({"path": "notes/today.txt", "content": "mine"});
    let denied = reader.haft()?.call("write", note).await;
    said.push(format!("acme's reader writes: {}", denied.terminal));

    // The record is asked by tenant.
    for (tenant, _) in places {
        let tenant = TenantId::parse(tenant)?;
        let query = CallQuery {
            limit: 100,
            ..CallQuery::default()
        };
        let calls = host.ledger().calls(&tenant, &query).await?;
        said.push(format!("on record for {tenant}: {} calls", calls.len()));
    }

    let report = host.shutdown(Duration::from_secs(5)).await?;
    said.push(format!("stopped at the end: {}", report.stopped.len()));
    Ok(said)
}

#[tokio::main]
#[allow(dead_code, reason = "tests run the example without `main`")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    for line in run().await? {
        println!("{line}");
    }
    Ok(())
}
