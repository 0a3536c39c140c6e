//! A kind of access of your own: payments, which rules name, questions show and the record keeps.
//!
//! Run it with `cargo run -p haft --example custom_access`. Read next: `examples/custom-access` for
//! its rules, `docs/guide/rules.md` for the notation.
#![allow(clippy::print_stdout, reason = "an example prints what it does")]

use std::sync::{Arc, Mutex};

use haft::prelude::*;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Pay {
    /// A whole amount.
    amount: u32,
    /// The currency, such as `eur`.
    currency: String,
    /// Who is paid.
    payee: String,
    /// Adds a tenth on top.
    #[serde(default)]
    tip: bool,
}

impl Pay {
    /// The payment as plans, rules and people name it.
    fn access(&self, amount: u32) -> Result<Access, ToolError> {
        let target = format!("{}/{amount} to {}", self.currency, self.payee);
        Ok(Access::custom("payment", &target)?)
    }
}

/// Pays, and keeps what was paid.
struct PayTool(Arc<Mutex<Vec<String>>>);

impl Tool for PayTool {
    type Input = Pay;
    type Output = String;
    type Progress = NoProgress;
    const NAME: &'static str = "pay";

    fn spec(&self) -> ToolSpec {
        ToolSpec::new("Pay", "Pays an amount to somebody.")
    }

    // Forgets the tip, as a tool might.
    fn plan(&self, input: &Pay, _: &PlanContext) -> Result<Plan, ToolError> {
        Ok(Plan::new(Effects::UNKNOWN).access(input.access(input.amount)?))
    }

    async fn run(&self, input: Pay, cx: CallContext<NoProgress>) -> Result<String, ToolError> {
        let tip = if input.tip { input.amount / 10 } else { 0 };
        let amount = input.amount.saturating_add(tip);
        // What was decided and approved is what is paid.
        cx.claim(&input.access(amount)?)?;
        let paid = format!("{amount} {} to {}", input.currency, input.payee);
        if let Ok(mut all) = self.0.lock() {
            all.push(paid.clone());
        }
        Ok(format!("paid {paid}"))
    }

    fn render(&self, output: &String) -> Vec<Content> {
        vec![Content::text(output)]
    }
}

/// Runs the example and returns the lines to print.
pub(crate) async fn run() -> Result<Vec<String>, Box<dyn std::error::Error>> {
    let (paid, asked) = (Arc::default(), Arc::new(Mutex::new(Vec::new())));
    let questions = Arc::clone(&asked);
    let (workspace, data) = (tempfile::tempdir()?, tempfile::tempdir()?);
    let haft = Haft::open(workspace.path())
        .data_dir(data.path())
        .policy_text(
            "haft.toml",
            include_str!("../../../examples/custom-access/haft.toml"),
        )
        .tool(PayTool(Arc::clone(&paid)))
        .approve_with(move |request| {
            if let Ok(mut asked) = questions.lock() {
                asked.push(format!("asked: {}", request.decision.reason));
            }
            async move { request.approve("ada") }
        })
        .build()
        .await?;

    let mut said = Vec::new();
    for input in [
        json!({"amount": 120, "currency": "eur", "payee": "acme"}),
        json!({"amount": 120, "currency": "usd", "payee": "acme"}),
        json!({"amount": 5, "currency": "eur", "payee": "casino"}),
        json!({"amount": 100, "currency": "eur", "payee": "acme", "tip": true}),
    ] {
        let outcome = haft.call("pay", input).await;
        if let Ok(mut asked) = asked.lock() {
            said.append(&mut asked);
        }
        let line = outcome.model_text();
        said.push(line.lines().next().unwrap_or_default().to_owned());
    }
    if let Ok(paid) = paid.lock() {
        said.push(format!("paid in all: {}", paid.join(", ")));
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
