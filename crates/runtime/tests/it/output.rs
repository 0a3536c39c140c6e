//! Promise 7: output never floods and is never lost. Mistakes 13 and 20, RX-02 to RX-04.

use haft_contract::{Terminal, ops::Stream};
use haft_runtime::{Limits, OutputLimits};
use haft_testkit::{Harness, harness::HarnessBuilder};
use serde_json::json;
use std::time::Duration;

use crate::scripted::Scripted;

const MIB: usize = 1024 * 1024;

fn small_caps() -> Limits {
    let output = OutputLimits {
        head_bytes: 1024,
        tail_bytes: 1024,
        artifact_bytes: 64 * MIB as u64,
        ..OutputLimits::default()
    };
    Limits {
        output,
        ..Limits::default()
    }
}

fn flood(bytes: usize, line: &'static str) -> HarnessBuilder {
    let tool = Scripted::new("flood", move |_, cx| async move {
        let chunk = line.repeat(64 * 1024 / line.len());
        let mut left = bytes;
        while left > 0 {
            let part = &chunk.as_bytes()[..left.min(chunk.len())];
            cx.output().push(Stream::Stdout, part).await;
            left -= part.len();
        }
        Ok(json!(null))
    });
    Harness::memory()
        .tools(vec![tool.tool()])
        .limits(small_caps())
}

#[tokio::test]
async fn rx_02_a_flood_is_capped_counted_exactly_and_kept() {
    let total = 10 * MIB;
    let harness = flood(total, "yes\n").build();
    let outcome = harness.succeed("flood", json!({})).await;
    let text = outcome.text();
    assert!(text.len() < 4096, "{}", text.len());
    let first = text.lines().next().unwrap();
    let call = outcome.call.to_string();
    assert!(
        first.contains("read_output") && first.contains(&call),
        "{first}"
    );
    assert!(text.contains("]\nyes\nyes\n"));
    assert_eq!(outcome.facts.bytes_omitted, (total - 2048) as u64);
    assert_eq!(outcome.facts.lines_omitted, (total - 2048) as u64 / 4);
    assert!(
        text.contains(&format!("{} bytes in", total - 2048)),
        "{text}"
    );
    let kept = outcome.facts.artifact.unwrap();
    assert_eq!(kept.bytes, total as u64, "the whole output is kept");
}

#[tokio::test]
async fn rx_04_one_endless_line_is_bounded() {
    let harness = flood(32 * MIB, "x").build();
    let outcome = harness.succeed("flood", json!({})).await;
    assert!(outcome.text().len() < 4096);
    assert_eq!(outcome.facts.lines_omitted, 0);
    assert_eq!(outcome.facts.bytes_omitted, (32 * MIB - 2048) as u64);
}

#[tokio::test]
async fn rx_03_both_streams_keep_their_order() {
    let tool = Scripted::new("both", |_, cx| async move {
        for n in 0..3 {
            cx.output()
                .push(Stream::Stdout, format!("out {n}\n").as_bytes())
                .await;
            cx.output()
                .push(Stream::Stderr, format!("err {n}\n").as_bytes())
                .await;
        }
        Ok(json!(null))
    });
    let harness = Harness::memory().tools(vec![tool.tool()]).build();
    let text = harness.succeed("both", json!({})).await.text();
    assert!(
        text.starts_with("out 0\nerr 0\nout 1\nerr 1\nout 2\nerr 2\n"),
        "{text}"
    );
}

/// Mistake 20: a sequence that is split over two chunks survives stripping chunk by chunk.
#[tokio::test]
async fn mistake_20_split_sequences_do_not_reach_the_model() {
    let tool = Scripted::new("split", |_, cx| async move {
        cx.output().push(Stream::Stdout, b"a\x1b[3").await;
        cx.output().push(Stream::Stderr, b"x").await;
        cx.output().push(Stream::Stdout, b"1mb").await;
        Ok(json!(null))
    });
    let harness = Harness::memory().tools(vec![tool.tool()]).build();
    assert!(
        harness
            .succeed("split", json!({}))
            .await
            .text()
            .starts_with("axb")
    );
}

#[tokio::test(start_paused = true)]
async fn output_is_kept_when_a_call_is_stopped() {
    let tool = Scripted::new("stuck", |_, cx| async move {
        cx.output().push(Stream::Stdout, b"so far so good\n").await;
        std::future::pending::<()>().await;
        Ok(json!(null))
    });
    let harness = Harness::memory().tools(vec![tool.tool()]).build();
    let request = harness
        .request("stuck", json!({}))
        .timeout(Duration::from_secs(1));
    let outcome = harness.runtime.call(request).await;
    assert_eq!(outcome.terminal, Terminal::TimedOut);
    assert_eq!(outcome.text(), "so far so good\n");
}

#[tokio::test]
async fn text_a_tool_returns_whole_is_capped_too() {
    let tool = Scripted::new("wordy", |_, _| async { Ok(json!("word ".repeat(10_000))) });
    let harness = Harness::memory()
        .tools(vec![tool.tool()])
        .limits(small_caps())
        .build();
    let outcome = harness.succeed("wordy", json!({})).await;
    assert!(outcome.text().len() < 4096);
    assert_eq!(outcome.facts.artifact.unwrap().bytes, 50_002);
}

#[tokio::test]
async fn what_is_left_out_of_a_whole_text_is_counted() {
    let tools = vec![haft_contract::erased::erase(haft_testkit::sample::Echo).unwrap()];
    let harness = Harness::memory().tools(tools).limits(small_caps()).build();
    let text = "0123456789abcde\n".repeat(1_000);
    let outcome = harness.succeed("echo", json!({ "text": text })).await;
    // Of 16,000 bytes the first and the last 1,024 are shown, which are whole lines.
    assert_eq!(outcome.facts.bytes_omitted, 16_000 - 2 * 1_024);
    assert_eq!(outcome.facts.lines_omitted, 1_000 - 2 * 64);
}

#[tokio::test]
async fn structured_output_beyond_its_limit_is_left_out_and_said_to_be() {
    let tool = Scripted::new("wordy", |input: serde_json::Value, _| async move {
        let bytes = usize::try_from(input["bytes"].as_u64().unwrap()).unwrap();
        Ok(json!("x".repeat(bytes)))
    });
    let limits = Limits {
        structured_bytes: 1_000,
        ..Limits::default()
    };
    let harness = Harness::memory().tools(vec![tool.tool()]).limits(limits);
    let harness = harness.build();
    // Two of the bytes are its quotes.
    let fits = harness.succeed("wordy", json!({"bytes": 998})).await;
    assert_eq!(fits.structured, Some(json!("x".repeat(998))));
    let larger = harness.succeed("wordy", json!({"bytes": 999})).await;
    let said = "the structured output is larger than 1000 bytes";
    assert_eq!(larger.structured, Some(json!({ "omitted": said })));
}

/// MC-28: what a tool says of an exit code is a datum. The fact is what a process Haft ran ended with.
#[tokio::test]
async fn mc_28_an_exit_code_that_a_tool_says_is_no_fact() {
    let said = json!({"exit_code": 0, "signal": 9});
    let told = said.clone();
    let tool = Scripted::new("liar", move |_, _| {
        let told = told.clone();
        async move { Ok(told) }
    });
    let harness = Harness::memory().tools(vec![tool.tool()]).build();
    let outcome = harness.call("liar", json!({})).await;
    assert_eq!(outcome.structured, Some(said));
    assert_eq!(
        (outcome.facts.exit_code, outcome.facts.signal),
        (None, None)
    );
}
