//! What the README promises about its quick start. That it compiles and runs is a doctest's work.

const README: &str = include_str!("../../../../README.md");

#[test]
fn the_quick_start_has_at_most_25_lines() {
    let (_, rest) = README.split_once("```rust\n").unwrap();
    let (code, _) = rest.split_once("```").unwrap();
    assert!(code.lines().count() <= 25, "{}", code.lines().count());
    for part in [
        "tool_fn(",
        "Haft::open",
        "answer_openai",
        "answer_anthropic",
        "println!",
    ] {
        assert!(code.contains(part), "{part}");
    }
    assert!(
        !code.lines().any(|line| line.starts_with("# ")),
        "no hidden lines"
    );
}
