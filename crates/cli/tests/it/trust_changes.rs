//! `haft trust` after an edit: what changed in the rules is shown, and a deny rule does not go
//! without a person's yes.

use std::fs;

use serde_json::json;

use crate::support::Stage;

const BEFORE: &str = "[policy]\npreset = \"careful\"\nallow = [\"bash(make)\"]\ndeny = [\"read(**/.env)\", \"bash(git push *)\"]\n";

#[test]
fn what_changed_in_the_rules_is_shown_and_more_denials_ask_nobody() {
    let stage = Stage::with_config(BEFORE);
    stage.write(
        "haft.toml",
        "# mine\n[policy]\npreset = \"sandboxed\"\nallow = [\"bash(make *)\"]\nask = [\"copy\"]\n\
         deny = [\"read(**/.env)\", \"bash(git push *)\", \"bash(rm *)\"]\n[agents.cli]\n",
    );
    let said = stage.haft(&["trust"]).ok();
    insta::assert_snapshot!("trust_changes", stage.normal(&said));
    // Trusted as it is: there is nothing to compare.
    let said = stage.haft(&["trust"]).ok();
    assert!(said.starts_with("trusted as before"), "{said}");
    let text = format!("# a comment\n{}", stage.read("haft.toml"));
    stage.write("haft.toml", text);
    let said = stage.haft(&["trust"]).ok();
    assert!(said.starts_with("its rules are the same"), "{said}");
}

#[test]
fn a_deny_rule_goes_only_with_a_persons_yes() {
    for (after, word) in [
        (BEFORE.replace(", \"bash(git push *)\"", ""), "gone"),
        (BEFORE.replace("git push *", "git push origin"), "changed"),
        (BEFORE.replace("deny =", "ask ="), "changed"),
    ] {
        let stage = Stage::with_config(BEFORE);
        stage.write("haft.toml", &after);
        let refused = stage.haft(&["trust"]);
        assert!(
            refused.stdout.contains(&format!("{word} ")),
            "{}",
            refused.all()
        );
        assert!(
            refused.stdout.contains("so it denies less"),
            "{}",
            refused.all()
        );
        let error = refused.fails(2);
        assert!(error.contains("no longer denies"), "{error}");
        assert!(error.contains("`haft trust --yes`"), "{error}");
        // Nothing was trusted, and it is refused the same way again.
        let error = stage.haft(&["call", "list", "path=."]).fails(7);
        assert!(
            error.contains("has changed since it was trusted"),
            "{error}"
        );
        stage.haft(&["trust", "--json"]).fails(2);
        let said = stage.json(&["trust", "--yes", "--json"]);
        assert_eq!(said["state"], "trusted again", "{said}");
        let changes = said["changes"].as_array().unwrap();
        assert!(
            changes.iter().any(|change| change["loses_denial"] == true),
            "{said}"
        );
        stage.haft(&["call", "list", "path=."]).ok();
    }
}

#[test]
fn at_a_terminal_a_person_is_asked_about_a_deny_rule_that_goes() {
    let stage = Stage::with_config(BEFORE);
    stage.write("haft.toml", BEFORE.replace("\"read(**/.env)\", ", ""));
    let mut terminal = stage.terminal(&["trust"]);
    let screen = terminal.until("[y/N]");
    assert!(screen.contains("deny `read(**/.env)`"), "{screen}");
    terminal.types("n\n");
    let (code, screen) = terminal.end();
    assert_eq!(code, 3, "{screen}");
    stage.haft(&["call", "list", "path=."]).fails(7);
    let mut terminal = stage.terminal(&["trust"]);
    terminal.until("[y/N]");
    terminal.types("y\n");
    let (code, screen) = terminal.end();
    assert_eq!(code, 0, "{screen}");
    stage.haft(&["call", "list", "path=."]).ok();
}

/// The text that was trusted is evidence only while it is that text.
#[test]
fn where_the_trusted_text_is_missing_or_altered_a_person_decides() {
    let stage = Stage::with_config(BEFORE);
    let kept = stage.home.join(".local/share/haft/trusted");
    let files: Vec<_> = fs::read_dir(&kept).unwrap().map(Result::unwrap).collect();
    assert_eq!(files.len(), 1);
    let file = files[0].path();
    assert_eq!(fs::read_to_string(&file).unwrap(), BEFORE);
    // Altered so that it would look as if nothing had been denied before.
    fs::write(&file, "[policy]\n").unwrap();
    stage.write("haft.toml", "[policy]\nallow = [\"read\"]\n");
    let refused = stage.haft(&["trust"]);
    assert!(
        refused.stdout.contains("cannot be shown"),
        "{}",
        refused.all()
    );
    let error = refused.fails(2);
    assert!(error.contains("it is not known what"), "{error}");
    let said = stage.json(&["trust", "--yes", "--json"]);
    assert_eq!(said["changes"], json!(null), "{said}");
    // From now on it is known again, and forgetting leaves nothing behind.
    stage.write("haft.toml", "[policy]\n");
    let said = stage.haft(&["trust"]).ok();
    assert!(said.contains("gone      allow `read`"), "{said}");
    stage.haft(&["trust", "--forget"]).ok();
    assert_eq!(fs::read_dir(&kept).unwrap().count(), 0);
}

#[test]
fn what_is_loosened_outside_of_rules_is_named_too() {
    let stage = Stage::with_config(BEFORE);
    let more = "[tools.bash]\nsandbox = \"off\"\n[[mcp.servers]]\nid = \"x\"\n\
        url = \"https://x.example/mcp\"\n[approvals.webhook]\nurl = \"https://y.example/hook\"\n\
        key = \"env:HOOK_KEY\"\n";
    stage.write("haft.toml", format!("{BEFORE}{more}"));
    let loosened = [
        "`bash` runs without a sandbox",
        "an MCP server is mounted: `x` at https://x.example/mcp",
        "questions are also answered by the webhook `https://y.example/hook`",
    ];
    let said = stage.json(&["trust", "--json"]);
    assert_eq!(said["loosens"], json!(loosened), "{said}");
    stage.write("haft.toml", BEFORE);
    stage.haft(&["trust"]).ok();
    stage.write("haft.toml", format!("{BEFORE}{more}"));
    let said = stage.haft(&["trust"]).ok();
    for text in loosened {
        assert!(said.contains(&format!("loosens   {text}")), "{said}");
    }
}
