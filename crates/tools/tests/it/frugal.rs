//! What a tool asks of the file system, counted from outside.

use haft_testkit::Harness;
use haft_tools::builtins;
use serde_json::{Value, json};

use crate::workspace::{first_text, structured};

const FILE_BYTES: u64 = 20_000_000;
const LINE: &str = "nineteen characters\n";

/// Mistake 11: a whole file read to return its first part. A page costs a page; a deep page costs
/// at most what lies before it.
#[tokio::test]
async fn mistake_11_read_reads_only_what_it_returns() {
    let harness = Harness::memory().tools(builtins()).build();
    harness.tree.put("large.txt", LINE.repeat(1_000_000));
    let mut image = b"\x89PNG\r\n\x1a\n".to_vec();
    image.resize(usize::try_from(FILE_BYTES).unwrap(), 0);
    harness.tree.put("large.png", image);
    let cost = async |input: Value| {
        harness.tree.take_bytes_read();
        let outcome = harness.call("read", input).await;
        (outcome, harness.tree.take_bytes_read())
    };

    let (page, bytes) = cost(json!({"path": "large.txt"})).await;
    assert_eq!(structured(&page)["lines"]["count"], 2_000);
    assert!(
        (40_000..=64 * 1024).contains(&bytes),
        "the first page cost {bytes} bytes"
    );

    // Lines have to be counted to find the five hundred thousandth; nothing behind it is read but
    // what is left of one block.
    let (page, bytes) = cost(json!({"path": "large.txt", "offset": 500_000, "limit": 5})).await;
    assert_eq!(first_text(&page).lines().next(), Some(LINE.trim_end()));
    assert!(
        bytes <= FILE_BYTES / 2 + 2 * 1024 * 1024,
        "a page in the middle cost {bytes} bytes"
    );

    // What is too large to be returned is not read to find that out.
    let (refused, bytes) = cost(json!({"path": "large.png"})).await;
    assert!(!refused.succeeded());
    assert!(bytes <= 64 * 1024, "the refusal cost {bytes} bytes");
}
