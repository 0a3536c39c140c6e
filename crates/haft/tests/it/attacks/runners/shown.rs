//! AP-08 and AP-09: what people are shown is what will be run, whole. The controls are displays as
//! one would write them in a hurry, drawn from the very questions that Haft put on record.

use haft::{contract::preview::MAX_PREVIEW_BYTES, prelude::*, runtime::digest_of};

use super::desk::Desk;
use crate::attacks::{
    attempt::{Verdict, check},
    corpus::Case,
};

/// A command with something where nobody looks.
struct Hidden {
    what: &'static str,
    command: String,
    /// What a careless display does not show of it.
    lost: &'static str,
}

fn hidden() -> Vec<Hidden> {
    let hidden = |what, command: String, lost| Hidden {
        what,
        command,
        lost,
    };
    vec![
        hidden(
            "5,000 characters",
            format!("echo {}; touch evil", "x".repeat(5_000)),
            "touch evil",
        ),
        hidden(
            "2,000 spaces",
            format!("echo ok;{}touch evil", " ".repeat(2_000)),
            "touch evil",
        ),
        hidden(
            "2,000 lines",
            format!("echo ok{}touch evil", "\n".repeat(2_000)),
            "touch evil",
        ),
        hidden(
            "escape sequences",
            "echo ok\u{1b}[2K\u{1b}[1A; touch evil".to_owned(),
            "echo ok",
        ),
        hidden(
            "another direction",
            "echo \u{202e}live hcuot; touch evil".to_owned(),
            "; touch evil",
        ),
        hidden(
            "a carriage return",
            "touch evil #\recho harmless".to_owned(),
            "touch evil",
        ),
    ]
}

/// What a display shows that obeys what it is given (erases the line, turns round, starts the line
/// again) and cuts at a thousand characters.
fn careless(text: &str) -> String {
    let left = text.rsplit("\u{1b}[2K").next().unwrap_or(text);
    let turned: String = match left.split_once('\u{202e}') {
        Some((before, after)) => before.chars().chain(after.chars().rev()).collect(),
        None => left.to_owned(),
    };
    let over = turned.rsplit('\r').next().unwrap_or(&turned);
    over.chars().take(1_000).collect()
}

/// What a display shows that takes blanks for layout.
fn tidied(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ")
}

/// AP-08: what is asked about is there whole, or nobody is asked.
pub(super) async fn hidden_suffix(case: &Case, verdict: &mut Verdict) {
    let desk = Desk::new(case).await;
    for Hidden {
        what,
        command,
        lost,
    } in hidden()
    {
        let call = desk.begin("bash", json!({ "command": command }));
        let asked = desk.open(1).await.remove(0);
        let form = asked.form.clone().unwrap();
        let access = form["accesses"][0]["command"]["shell"].as_str();
        let whole = access == Some(command.as_str())
            && form["input"]["command"] == json!(command)
            && form["preview"].to_string().contains("touch evil")
            && digest_of(&form) == asked.digest;
        verdict.attempt(what, check(whole, || format!("{:?}", form["preview"])));
        let asked_about = access.unwrap_or_default();
        let drawn = careless(asked_about);
        verdict.control(
            what,
            check(asked_about.contains(lost) && !drawn.contains(lost), || {
                drawn.clone()
            }),
        );
        call.abort();
        let _ = call.await;
        desk.open(0).await;
    }
    let call = desk.begin("bash", json!({ "command": "echo ok\0; touch evil" }));
    verdict.attempt("a NUL", desk.is_invalid(call).await);
    let long = json!({ "path": "big", "content": "x\n".repeat(MAX_PREVIEW_BYTES) });
    let outcome = desk.begin("write", long).await.unwrap();
    let told = outcome.terminal == Terminal::Denied && outcome.model_text().contains("split it");
    verdict.attempt("too long to show", check(told, || outcome.model_text()));
    let evil = desk.scene.workspace.join("evil").exists();
    verdict.attempt("no effect", check(!evil, || "it ran".to_owned()));
    let call = desk.mark("short");
    let asked = desk.open(1).await.remove(0);
    desk.approve(&asked).await;
    let outcome = call.await.unwrap();
    verdict.twin(
        "a short command",
        check(outcome.succeeded(), || outcome.model_text()),
    );
    desk.haft.close().await.unwrap();
}

/// AP-09: the command in the form that was hashed is the command that the kernel was given.
pub(super) async fn shown_is_run(case: &Case, verdict: &mut Verdict) {
    let desk = Desk::new(case).await;
    let commands = [
        "tr '\\0' '\\n' < /proc/$$/cmdline; : plain",
        "tr '\\0' '\\n' < /proc/$$/cmdline;    : 'a  b' \"$HOME\" $((1+1))",
        "tr '\\0' '\\n' < /proc/$$/cmdline; : \u{202e}\u{e9} e\u{301} \u{1b}[0m",
        "tr '\\0' '\\n' < /proc/$$/cmdline\n\n: after empty lines   ",
    ];
    let mut apart = Vec::new();
    for command in commands {
        let call = desk.begin("bash", json!({ "command": command }));
        let asked = desk.open(1).await.remove(0);
        let form = asked.form.clone().unwrap();
        desk.approve(&asked).await;
        let outcome = call.await.unwrap();
        let shown = form["accesses"][0]["command"]["shell"].as_str().unwrap();
        let raw = outcome.text();
        // Output is cleaned of escape sequences on its way, so they are not compared.
        let clean = |text: &str| text.replace("\u{1b}[0m", "");
        let same = shown == command && raw.contains(clean(shown).trim_end());
        verdict.attempt(command, check(same, || format!("{shown:?} {raw:?}")));
        if !raw.contains(&tidied(&clean(shown))) {
            apart.push(command);
        }
    }
    let call = desk.begin("write", json!({ "path": "w", "content": "exact\n" }));
    let asked = desk.open(1).await.remove(0);
    let form = asked.form.clone().unwrap();
    desk.approve(&asked).await;
    let outcome = call.await.unwrap();
    let written = std::fs::read_to_string(desk.scene.workspace.join("w")).unwrap_or_default();
    let diff = form["preview"][0]["text"].as_str().unwrap_or_default();
    verdict.twin(
        "a file",
        check(
            outcome.succeeded() && diff.contains("+exact") && written == "exact\n",
            || format!("{diff} {written}"),
        ),
    );
    desk.haft.close().await.unwrap();
    // Two of them are written with blanks that mean something.
    let differ = apart == [commands[1], commands[3]];
    verdict.control(
        "a display that is drawn apart from the plan",
        check(differ, || format!("{apart:?}")),
    );
}
