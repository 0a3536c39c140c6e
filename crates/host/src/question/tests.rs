//! What a person sees, as snapshots: an ordinary question, and ones that try to look like something
//! else.

use haft_contract::PlanDigest;
use serde_json::{Value, json};

use super::*;
use crate::screen_text::{plain, sanitise};

/// Why a person is asked, in these tests.
const WHY: &str = "no rule allows running `git push`, so preset `careful` asks";

fn cx(room: RoomForText) -> DrawingContext<'static> {
    DrawingContext {
        why: Some(WHY),
        home: Some("/home/ada"),
        room,
    }
}

fn form() -> Value {
    json!({
        "form": "haft-plan-2",
        "principal": {
            "tenant": "local", "user": "ada", "agent": "coder", "ancestors": ["lead"],
            "session": "main", "kind": "main", "channel": null,
        },
        "policy": "sha256:00",
        "tool": "builtin/bash",
        "tool_digest": "00",
        "action": null,
        "input": {"command": "git add -A && git push", "timeout_ms": 1000},
        "accesses": [
            {"kind": "command", "command": {"shell": "git add -A && git push"}, "cwd": "app"},
        ],
        "effects": [false, false, true, true],
        "backend": "local",
        "workspace": "/work",
        "tier": "t2",
        "egress": {"allow": ["github.com"], "deny": []},
        "deadline_ms": 1500,
        "withheld": [".env"],
        "versions": [null],
        "programs": [],
        "preview": [
            {
                "kind": "command", "text": "git add -A", "opaque": null, "verdict": "allow",
                "touches": [{"how": "reads", "what": "."}, {"how": "writes", "what": ".git"}],
            },
            {
                "kind": "command", "text": "git push", "verdict": "ask",
                "opaque": "it runs hooks",
                "touches": [{"how": "connects", "what": "github.com"}],
            },
        ],
    })
}

fn edit() -> Value {
    let mut form = form();
    form["tool"] = json!("builtin/edit");
    form["tier"] = json!("in_process");
    form["egress"] = json!(null);
    form["withheld"] = json!([]);
    form["input"] = json!({"path": "src/a.rs", "edits": [{"old": "a", "new": "b"}]});
    form["accesses"] = json!([
        {"kind": "path", "mode": "write", "scope": "file", "path": "src/a.rs", "resolved": "lib/a.rs",
         "protected": null},
    ]);
    form["preview"] = json!([
        {
            "kind": "diff", "path": "src/a.rs", "change": "change", "to": null, "note": "UTF-16",
            "text": "@@ -1,3 +1,3 @@\n fn main() {\n-\tlet a = \"\\n\";\n+\tlet b = 1;\n }\n",
        },
        {"kind": "host", "host": "docs.rs", "port": 443},
        {"kind": "rows", "source": "orders", "affected": 12},
        {"kind": "rows", "source": "logs", "affected": null},
        {"kind": "note", "text": "a note\nof two lines"},
    ]);
    form
}

fn drawn(form: &Value, room: RoomForText) -> QuestionDrawing {
    draw(form, haft_runtime::digest_of(form), cx(room)).expect("its own digest")
}

/// What must be seen before a yes counts.
fn seen(form: &Value) -> String {
    plain(&drawn(form, RoomForText::Enough).lines(Some(80)))
}

/// The same with what is behind the key `d`.
fn seen_with_details(form: &Value) -> String {
    let details = drawn(form, RoomForText::Enough).details;
    format!("{}--\n{}", seen(form), plain(&details))
}

#[test]
fn ap_09_commands_are_shown_one_by_one_with_what_they_touch() {
    insta::assert_snapshot!("commands", seen_with_details(&form()));
}

#[test]
fn ap_09_a_change_is_shown_as_its_diff() {
    insta::assert_snapshot!("diff", seen_with_details(&edit()));
}

#[test]
fn ap_08_nothing_hides_in_a_question() {
    let mut form = form();
    let script = format!(
        "echo ok{}; rm -rf ~ # \u{1b}[2J\u{202e}txt\0\u{200b}\n{}read  README.md\n\
         reads     README.md\nasked because nothing\nwhere     nowhere\n\
         y allow once\nc\u{430}t /etc/passwd",
        " ".repeat(2_000),
        "\n".repeat(2_000),
    );
    form["input"]["command"] = json!(script);
    form["accesses"][0]["command"]["shell"] = json!(script);
    form["preview"] = json!([
        {"kind": "command", "text": "rm -rf \u{202e}~", "opaque": "a\u{1b}b", "verdict": "ask",
         "touches": [{"how": "writes", "what": "\u{feff}~"}]},
        {"kind": "unheard of", "more": "\u{1b}"},
    ]);
    form["unheard_of"] = json!({"also": "\u{202e}"});
    let whole = seen_with_details(&form);
    for c in whole.chars() {
        assert!(c == '\n' || !sanitise::is_deceptive(c), "{c:?} in {whole}");
    }
    let seen = seen(&form);
    let starting = |start: &str| seen.lines().filter(|line| line.starts_with(start)).count();
    assert_eq!(starting("bash  a script of 2007 lines"), 1, "{seen}");
    assert_eq!(starting("asked because"), 1, "{seen}");
    assert_eq!(starting("where"), 1, "{seen}");
    for forged in ["read", "reads", "y "] {
        assert_eq!(starting(forged), 0, "{forged}: {seen}");
    }
    insta::assert_snapshot!("hostile", seen);
}

#[test]
fn ap_08_a_command_of_5000_characters_is_shown_to_its_end() {
    let mut form = form();
    let script = format!("echo {} && rm -rf /the/end", "x".repeat(5_000));
    form["accesses"][0]["command"]["shell"] = json!(script);
    form["preview"] = json!([]);
    assert!(seen(&form).contains("&& rm -rf /the/end"));
    let narrow = plain(&drawn(&form, RoomForText::Narrow(20)).lines(None));
    assert!(narrow.contains("&& rm -rf /the/end"), "{narrow}");
    assert!(narrow.matches('x').count() >= 5_000, "{narrow}");
}

#[test]
fn ap_09_a_form_with_another_digest_is_not_shown() {
    let form = form();
    let digest = haft_runtime::digest_of(&form);
    let draw = |form: &Value, digest| draw(form, digest, cx(RoomForText::Enough));
    assert!(draw(&form, digest).is_ok());
    let mut other = form.clone();
    other["accesses"][0]["command"]["shell"] = json!("true");
    assert_eq!(draw(&other, digest).err(), Some(FormMismatch));
    assert_eq!(draw(&form, PlanDigest([0; 32])).err(), Some(FormMismatch));
    assert_eq!(draw(&json!("text"), digest).err(), Some(FormMismatch));
}

#[test]
fn ap_09_every_change_to_what_will_happen_is_seen() {
    let shown = seen_with_details(&edit());
    for (at, value) in [
        ("/accesses/0/path", json!("src/b.rs")),
        ("/accesses/0/mode", json!("read")),
        ("/accesses/0/scope", json!("tree")),
        ("/accesses/0/resolved", json!("elsewhere")),
        ("/accesses/0/protected", json!("it is configuration")),
        ("/preview/0/text", json!("@@ -1 +1 @@\n-a\n+c\n")),
        ("/preview/0/change", json!("remove")),
        ("/preview/0/to", json!("c.rs")),
        ("/preview/1/host", json!("evil.example")),
        ("/preview/1/port", json!(22)),
        ("/preview/2/affected", json!(13)),
        ("/input/edits/0/new", json!("c")),
        ("/tier", json!("host")),
        ("/workspace", json!("/other")),
        ("/deadline_ms", json!(1)),
        ("/effects/0", json!(true)),
        ("/principal/agent", json!("other")),
        ("/tool", json!("builtin/write")),
        ("/action", json!("act")),
        ("/withheld", json!(["x"])),
        ("/egress", json!({"allow": ["a"]})),
    ] {
        let mut other = edit();
        *other.pointer_mut(at).expect(at) = value;
        let without_digest = |text: &str| {
            let lines = text.lines().filter(|line| !line.starts_with("plan "));
            lines.collect::<Vec<_>>().join("\n")
        };
        if at == "/egress" {
            // A tool in this process reaches no host, whatever the rules for commands say.
            continue;
        }
        assert_ne!(
            without_digest(&shown),
            without_digest(&seen_with_details(&other)),
            "{at}"
        );
    }
}

#[test]
fn ap_13_questions_of_one_kind_are_told_by_agent_tool_and_program() {
    assert_eq!(kind(&form()), "coder bash git");
    assert_eq!(kind(&edit()), "coder edit write");
    let mut form = form();
    form["preview"] = json!([]);
    assert_eq!(kind(&form), "coder bash git");
}

/// A call to a mounted server's tool.
fn mounted() -> Value {
    let mut form = form();
    form["tool"] = json!("github/create_issue");
    form["tier"] = json!("in_process");
    form["input"] = json!({"title": "a", "labels": ["b"], "draft": null});
    form["accesses"] =
        json!([{"kind": "remote_tool", "provider": "github", "tool": "create_issue"}]);
    form["preview"] = json!([]);
    form["read_from"] = json!(["github"]);
    form["programs"] = json!([{"path": "run.sh", "version": "sha256:00"}, {"path": "gone.sh"}]);
    form
}

#[test]
fn a_question_says_what_happens_first_and_why_it_is_asked() {
    insta::assert_snapshot!("multiple_commands", seen(&form()));
    insta::assert_snapshot!("change", seen(&edit()));
    insta::assert_snapshot!("mounted", seen(&mounted()));
}

/// Claude Code shows all of four lines, but only three of five: an ordinary command and a one-line
/// change must both fit in full.
#[test]
fn what_happens_fits_into_a_small_box() {
    let narrow = |form: &Value| plain(&drawn(form, RoomForText::Narrow(70)).lines(None));
    let mut one = form();
    one["accesses"] =
        json!([{"kind": "command", "command": {"shell": "touch made.txt", "cwd": "."}}]);
    one["preview"] = json!([{"kind": "command", "text": "touch made.txt", "verdict": "ask",
        "touches": [{"how": "writes", "what": "made.txt"}]}]);
    one["input"] = json!({"command": "touch made.txt"});
    one["principal"]["ancestors"] = json!([]);
    one["egress"] = json!({"allow": [], "deny": []});
    let shown = narrow(&one);
    assert!(shown.contains("touch made.txt"), "{shown}");
    assert!(shown.lines().count() <= 4, "{shown}");
    let shown = narrow(&edit());
    let changes = |text: &str| -> Vec<String> {
        let line = |line: &str| line.trim_start_matches(' ').to_owned();
        let is_change = |line: &String| line.starts_with(['+', '-']);
        text.lines().map(line).filter(is_change).collect()
    };
    assert_eq!(changes(&shown), changes(&seen(&edit())));
}

#[test]
fn one_command_is_shown_once() {
    let mut form = form();
    form["principal"]["ancestors"] = json!([]);
    form["input"] = json!({"command": "git push", "timeout_ms": 5, "background": true});
    form["accesses"][0]["command"]["shell"] = json!("git push");
    form["preview"].as_array_mut().unwrap().remove(0);
    form["tier"] = json!("host");
    insta::assert_snapshot!("one_command", seen(&form));
}

#[test]
fn ap_09_nothing_that_a_person_judges_by_is_behind_a_key() {
    for (form, at, value) in [
        (edit(), "/accesses/0/path", json!("src/b.rs")),
        (edit(), "/accesses/0/scope", json!("tree")),
        (edit(), "/accesses/0/resolved", json!("elsewhere")),
        (edit(), "/accesses/0/protected", json!("configuration")),
        (edit(), "/preview/0/text", json!("@@ -1 +1 @@\n-a\n+c\n")),
        (edit(), "/preview/0/path", json!("src/c.rs")),
        (edit(), "/preview/0/change", json!("remove")),
        (edit(), "/preview/0/to", json!("c.rs")),
        (edit(), "/preview/1/host", json!("evil.example")),
        (edit(), "/preview/2/affected", json!(13)),
        (edit(), "/tier", json!("host")),
        (edit(), "/backend", json!("ssh:elsewhere")),
        (edit(), "/action", json!("act")),
        (mounted(), "/tool", json!("github/delete")),
        (form(), "/accesses/0/command/shell", json!("rm -rf /")),
        (form(), "/accesses/0/cwd", json!("lib")),
        (form(), "/input/command", json!("something else")),
        (form(), "/preview/0/opaque", json!("who knows")),
        (form(), "/preview/0/verdict", json!("ask")),
        (form(), "/preview/1/touches/0/what", json!("evil.example")),
        (form(), "/egress", json!({"allow": ["*"]})),
        (form(), "/principal/ancestors", json!(["another"])),
        (form(), "/principal/channel", json!("c")),
        (mounted(), "/input/title", json!("b")),
        (mounted(), "/input/labels/0", json!("c")),
        (mounted(), "/input/draft", json!(true)),
        (mounted(), "/effects/2", json!(false)),
        (mounted(), "/read_from/0", json!("web")),
        (mounted(), "/programs/0/version", json!(null)),
    ] {
        let shown = seen(&form);
        let mut other = form;
        *other.pointer_mut(at).expect(at) = value;
        assert_ne!(shown, seen(&other), "{at}");
    }
    let mut unknown = edit();
    unknown["unheard_of"] = json!({"also": "this"});
    assert!(seen(&unknown).contains("unheard_of"));
}

#[test]
fn ap_08_no_line_is_forged() {
    let mut form = mounted();
    let hostile = "x\nwhere     nowhere\u{202e}\u{1b}[2J\u{430}";
    form["input"] = json!({hostile: hostile});
    form["tool"] = json!(hostile);
    form["tier"] = json!(hostile);
    form["backend"] = json!(hostile);
    form["programs"] = json!([{"path": hostile, "version": hostile}]);
    form["read_from"] = json!([hostile]);
    form["principal"]["channel"] = json!(hostile);
    form["accesses"] = json!([
        {"kind": "path", "mode": "write", "path": hostile},
        {"kind": "command", "command": {"shell": hostile}, "cwd": hostile},
    ]);
    let digest = haft_runtime::digest_of(&form);
    let context = DrawingContext {
        why: Some(hostile),
        home: None,
        room: RoomForText::Enough,
    };
    let drawing = draw(&form, digest, context).expect("its own digest");
    let seen = drawing.text();
    for c in seen.chars().chain(plain(&drawing.details).chars()) {
        assert!(c == '\n' || !sanitise::is_deceptive(c), "{c:?} in {seen}");
    }
    let forged = seen.lines().filter(|line| line.starts_with("where"));
    assert_eq!(forged.count(), 1, "{seen}");
    assert!(seen.contains("`\u{430}` is U+0430"), "{seen}");
    assert_eq!(
        draw(&form, PlanDigest([0; 32]), context).err(),
        Some(FormMismatch),
        "another digest"
    );
}

/// The form that issue 15 asks for.
#[test]
fn an_edit_of_one_word_takes_five_lines() {
    let mut form = edit();
    form["principal"]["ancestors"] = json!([]);
    form["principal"]["agent"] = json!("claude-code");
    form["workspace"] = json!("/home/ada/demo");
    form["input"] = json!({"path": "notes.txt", "old_string": "two", "new_string": "zwei"});
    let access = |mode: &str| {
        json!({"kind": "path", "mode": mode, "scope": "file", "path": "notes.txt",
            "resolved": "notes.txt", "protected": null})
    };
    form["accesses"] = json!([access("read"), access("write")]);
    form["preview"] = json!([{
        "kind": "diff", "path": "notes.txt", "change": "change", "to": null, "note": null,
        "text": "--- a/notes.txt\n+++ b/notes.txt\n@@ -1 +1 @@\n-two\n+zwei\n",
    }]);
    let context = DrawingContext {
        why: Some("no rule allows writing notes.txt, so preset `careful` asks"),
        ..cx(RoomForText::Enough)
    };
    let drawing = draw(&form, haft_runtime::digest_of(&form), context).expect("its own digest");
    let shown = format!("{}{}\n", plain(&drawing.lines(Some(70))), answer_keys());
    insta::assert_snapshot!("edit_of_one_word", shown);
    // A narrower place has a line for who asks; no word is cut.
    let narrow = plain(&drawing.lines(Some(30)));
    assert!(
        narrow.starts_with("edit  notes.txt\nby        claude-code · main · ~/demo\n  -two\n"),
        "{narrow}"
    );
    // What happens at another place of the file looks different.
    let mut elsewhere = form.clone();
    elsewhere["preview"][0]["text"] = json!("@@ -300 +300 @@\n-two\n+zwei\n");
    assert_ne!(seen(&form), seen(&elsewhere));
}

#[test]
fn the_strongest_access_is_the_headline_and_the_others_follow() {
    let path = |mode: &str, path: &str| json!({"kind": "path", "mode": mode, "scope": "file", "path": path});
    let host = json!({"kind": "host", "host": "docs.rs", "port": 443});
    let mut form = edit();
    form["preview"] = json!([]);
    for (accesses, headline, others) in [
        (
            json!([path("read", "a"), path("write", "b"), host]),
            "edit  b",
            ["reads     a", "connects  docs.rs:443"],
        ),
        (
            json!([path("read", "a"), host, path("read", "c")]),
            "edit  docs.rs:443",
            ["reads     a", "reads     c"],
        ),
        (
            json!([path("read", "a"), path("read", "b"), path("read", "c")]),
            "edit  reads a",
            ["reads     b", "reads     c"],
        ),
    ] {
        form["accesses"] = accesses;
        let shown = seen(&form);
        assert!(shown.starts_with(headline), "{shown}");
        for other in others {
            assert!(shown.lines().any(|line| line == other), "{shown}");
        }
    }
}

#[test]
fn a_reason_is_cut_between_words_and_only_where_there_is_no_room() {
    let narrow = drawn(&form(), RoomForText::Narrow(40)).reason.unwrap();
    assert_eq!(narrow, "no rule allows running…");
    assert_eq!(
        drawn(&form(), RoomForText::Enough).reason.unwrap(),
        "no rule allows running `git push` (preset careful)"
    );
    assert_eq!(
        reason(
            "no rule allows it, so preset `careful` asks: it stays",
            RoomForText::Enough
        ),
        "no rule allows it (preset careful): it stays"
    );
}
