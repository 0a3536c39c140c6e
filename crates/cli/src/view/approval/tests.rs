//! What a person sees, kept as golden texts: an ordinary question, and ones that try to look like
//! something else.

use haft_contract::PlanDigest;
use serde_json::{Value, json};

use super::*;
use crate::terminal::Colours;
use crate::terminal::sanitise;

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

fn seen(form: &Value) -> String {
    let digest = haft_runtime::digest_of(form);
    let drawn = draw(form, digest).expect("its own digest");
    drawn.whole().render(Colours::Off)
}

#[test]
fn ap_09_commands_are_shown_one_by_one_with_what_they_touch() {
    insta::assert_snapshot!("commands", seen(&form()));
}

#[test]
fn ap_09_a_change_is_shown_as_its_diff() {
    insta::assert_snapshot!("diff", seen(&edit()));
}

#[test]
fn ap_08_nothing_hides_in_a_question() {
    let mut form = form();
    let script = format!(
        "echo ok{}; rm -rf ~ # \u{1b}[2J\u{202e}txt\0\u{200b}\n{}tool      builtin/read\n\
         will      read README.md\nc\u{430}t /etc/passwd",
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
    let seen = seen(&form);
    for c in seen.chars() {
        assert!(c == '\n' || !sanitise::is_deceptive(c), "{c:?} in {seen}");
    }
    let starting = |start: &str| seen.lines().filter(|line| line.starts_with(start)).count();
    assert_eq!(starting("tool"), 1, "{seen}");
    assert_eq!(starting("will"), 1, "{seen}");
    insta::assert_snapshot!("hostile", seen);
}

#[test]
fn ap_08_a_command_of_5000_characters_is_shown_to_its_end() {
    let mut form = form();
    let script = format!("echo {} && rm -rf /the/end", "x".repeat(5_000));
    form["accesses"][0]["command"]["shell"] = json!(script);
    form["preview"] = json!([]);
    let digest = haft_runtime::digest_of(&form);
    let page = draw(&form, digest).expect("its own digest").whole();
    for width in [20, 80, 200] {
        let narrow = page.wrapped(width).render(Colours::Off);
        let x = narrow.matches('x').count();
        assert!(x >= 5_000, "{x}");
        let flat: String = narrow
            .lines()
            .map(|line| line.strip_prefix("        ↳ ").unwrap_or(line))
            .collect();
        assert!(flat.contains("&& rm -rf /the/end"), "{narrow}");
    }
}

#[test]
fn ap_09_a_form_with_another_digest_is_not_shown() {
    let form = form();
    let digest = haft_runtime::digest_of(&form);
    assert!(draw(&form, digest).is_ok());
    let mut other = form.clone();
    other["accesses"][0]["command"]["shell"] = json!("true");
    assert_eq!(draw(&other, digest).err(), Some(Altered));
    assert_eq!(draw(&form, PlanDigest([0; 32])).err(), Some(Altered));
    assert_eq!(draw(&json!("text"), digest).err(), Some(Altered));
}

#[test]
fn ap_09_every_change_to_what_will_happen_is_seen() {
    let shown = seen(&edit());
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
            // A tool in this process reaches no host whatever the rules for commands say.
            continue;
        }
        assert_ne!(
            without_digest(&shown),
            without_digest(&seen(&other)),
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
