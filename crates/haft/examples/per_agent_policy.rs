//! One workspace, different rules for each agent: a reviewer that only reads, a writer that may
//! change the documentation, and an agent that no rule names.
//!
//! Run it with `cargo run -p haft --example per_agent_policy`. The rules are in
//! `examples/per-agent-policy/haft.toml`.
#![allow(clippy::print_stdout, reason = "an example prints what it does")]

use haft::prelude::*;

/// Runs the example and returns the lines to print.
pub(crate) async fn run() -> Result<Vec<String>, Box<dyn std::error::Error>> {
    let mut said = Vec::new();
    let (workspace, data) = (tempfile::tempdir()?, tempfile::tempdir()?);
    let haft = Haft::open(workspace.path())
        .data_dir(data.path())
        .policy_text(
            "haft.toml",
            include_str!("../../../examples/per-agent-policy/haft.toml"),
        )
        .build()
        .await?;

    for agent in ["writer", "reviewer", "stranger"] {
        // Clones share the runtime and the record; only the principal differs.
        let haft = haft.agent(agent)?;
        let tools = haft.tools();
        let names: Vec<&str> = tools.iter().map(|tool| tool.key().tool.as_str()).collect();
        said.push(format!("{agent} is shown: {}", names.join(" ")));

        for path in ["docs/guide.md", "src/main.rs"] {
            let input = json!({"path": path, "content": "text\n"});
            let outcome = haft.call("write", input).await;
            let rule = outcome.facts.decision.as_ref().and_then(|d| d.rule.clone());
            let by = rule.map_or("no rule".to_owned(), |rule| rule.to_string());
            said.push(format!(
                "{agent} writes {path}: {} by {by}",
                outcome.terminal
            ));
        }
    }
    haft.close().await?;
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
