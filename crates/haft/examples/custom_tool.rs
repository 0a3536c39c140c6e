//! Your own tool next to the built-in ones: typed input, output and progress.
//!
//! Run it with `cargo run -p haft --example custom_tool`. Read next: `examples/custom-tool` for its
//! configuration, `docs/adding-a-tool.md` for what a good tool says about itself.
#![allow(clippy::print_stdout, reason = "an example prints what it does")]

use std::sync::{Arc, Mutex};

use haft::prelude::*;

/// How much of the file is read at once.
const CHUNK_BYTES: usize = 64 * 1024;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct CountWords {
    /// The file to count in, relative to the workspace.
    path: String,
}

#[derive(Serialize, JsonSchema)]
struct CountedWords {
    words: u64,
    bytes: u64,
}

/// The typed part of progress: a program can show it without parsing a status line.
#[derive(Serialize)]
struct SoFar {
    words: u64,
}

struct CountWordsTool;

impl Tool for CountWordsTool {
    type Input = CountWords;
    type Output = CountedWords;
    type Progress = SoFar;
    const NAME: &'static str = "count_words";

    fn spec(&self) -> ToolSpec {
        ToolSpec::new(
            "Count words",
            "Counts the words of a file. Use it for length limits; to see the text use `read`.",
        )
        .effects(Effects::READ_ONLY)
    }

    // What an input will touch. Policy judges this, and `run` can open nothing else.
    fn plan(&self, input: &CountWords, cx: &PlanContext) -> Result<Plan, ToolError> {
        Ok(Plan::read_only().access(Access::read(cx.path(&input.path, "/path")?)))
    }

    async fn run(
        &self,
        input: CountWords,
        cx: CallContext<SoFar>,
    ) -> Result<CountedWords, ToolError> {
        let file = cx.files().open(&cx.path(&input.path, "/path")?).await?;
        let size = file.stat().size;
        let (mut words, mut bytes, mut in_word) = (0, 0, false);
        let mut chunk = Vec::new();
        loop {
            let status = format!("{bytes} of {size} bytes");
            cx.report(Progress::of(bytes, Some(size), status).detail(SoFar { words }));
            chunk = file.read_at(bytes, CHUNK_BYTES, chunk).await?;
            for byte in &chunk {
                let space = byte.is_ascii_whitespace();
                words += u64::from(in_word && space);
                in_word = !space;
            }
            bytes += chunk.len() as u64;
            if chunk.len() < CHUNK_BYTES {
                break;
            }
        }
        words += u64::from(in_word);
        cx.report(Progress::of(bytes, Some(bytes), "counted").detail(SoFar { words }));
        Ok(CountedWords { words, bytes })
    }

    fn render(&self, output: &CountedWords) -> Vec<Content> {
        vec![Content::text(format!("{} words", output.words))]
    }
}

/// Runs the example and returns the lines to print.
pub(crate) async fn run() -> Result<Vec<String>, Box<dyn std::error::Error>> {
    let said = Arc::new(Mutex::new(Vec::new()));
    let say = {
        let said = Arc::clone(&said);
        move |line: String| {
            if let Ok(mut said) = said.lock() {
                said.push(line);
            }
        }
    };
    let progress = say.clone();

    let (workspace, data) = (tempfile::tempdir()?, tempfile::tempdir()?);
    let haft = Haft::open(workspace.path())
        .data_dir(data.path())
        .policy_text(
            "haft.toml",
            include_str!("../../../examples/custom-tool/haft.toml"),
        )
        .tool(CountWordsTool)
        .on_event(move |happened| {
            if let CallEvent::Progress(at) = &happened.event {
                let percent = at.percentage().unwrap_or_default();
                progress(format!("progress: {percent} % {}", at.detail));
            }
        })
        .build()
        .await?;

    // A built-in tool creates a file; the rules of `haft.toml` allow it without asking.
    let draft = json!({"path": "drafts/poem.txt", "content": "so much depends\nupon\n"});
    say(haft.call("write", draft).await.model_text());

    // And the model calls the new tool.
    let tool_calls = json!([{
        "id": "call_1",
        "type": "function",
        "function": {"name": "count_words", "arguments": "{\"path\": \"drafts/poem.txt\"}"},
    }]);
    for message in haft.answer_openai(&tool_calls).await {
        say(format!("answer: {message}"));
    }
    haft.close().await?;
    Ok(said.lock().map(|said| said.clone()).unwrap_or_default())
}

#[tokio::main]
#[allow(dead_code, reason = "tests run the example without `main`")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    for line in run().await? {
        println!("{line}");
    }
    Ok(())
}
