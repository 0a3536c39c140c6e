//! `haft policy`: the rules, what they say about a call, mistakes in them.

use serde_json::json;

use crate::support::Stage;

const CONFIG: &str = "[policy]\npreset = \"careful\"\nallow = [\"bash(uname -a)\"]\nask = [\"read(private/**)\"]\ndeny = [\n  \"read(**/.env)\",\n]\n\n[agents.cli]\n\n[agents.bot]\npreset = \"locked\"\n\n[tools.bash]\nsandbox = \"off\"\n";

#[test]
fn check_names_the_rule_its_file_and_its_line() {
    let stage = Stage::with_config(CONFIG);
    let check = |args: &[&str], code: i32| {
        let mut all = vec!["policy", "check"];
        all.extend(args);
        let ran = stage.haft(&all);
        assert_eq!(ran.code, code, "{}", ran.all());
        ran.stdout + &ran.stderr
    };
    assert!(check(&["bash", "uname -a"], 0).contains("`bash(uname -a)` at haft.toml:3"));
    assert!(check(&["read", "private/a"], 9).contains("`read(private/**)` at haft.toml:4"));
    assert!(check(&["read", ".env"], 3).contains("`read(**/.env)` at haft.toml:6"));
    let asks = check(&["bash", "git push"], 9);
    insta::assert_snapshot!("policy_check", stage.normal(&asks));
    assert!(check(&["bash", "uname -a", "--agent", "bot"], 0).contains("allow"));
    assert!(check(&["read", "a.txt", "--agent", "bot"], 3).contains("locked"));
    assert!(check(&["read", "../etc/passwd"], 3).contains("outside the workspace"));
    assert_eq!(
        stage.haft(&["log", "--jsonl"]).ok(),
        "",
        "a check is not a call"
    );
    let view = stage.json(&["policy", "check", "read", ".env", "--json"]);
    assert_eq!(
        view["rule"],
        json!({"text": "read(**/.env)", "source": "haft.toml", "line": 6})
    );
}

#[test]
#[ignore = "ci: needs bubblewrap"]
fn what_check_says_would_allow_a_call_does() {
    let stage = Stage::with_config("[policy]\n");
    let view = stage.json(&["policy", "check", "bash", "echo \"a\" > b", "--json"]);
    let hint = view["to_allow"].as_str().unwrap();
    let start = hint.find(", or add ").unwrap() + 9;
    let end = hint.find(" to `allow`").unwrap();
    stage.write(
        "haft.toml",
        format!("[policy]\nallow = [{}]\n", &hint[start..end]),
    );
    stage.haft(&["trust"]).ok();
    stage.haft(&["call", "bash", "echo \"a\" > b"]).ok();
    assert!(stage.exists("b"));
}

#[test]
#[ignore = "ci: needs bubblewrap"]
fn what_a_rule_denies_is_hidden_from_a_command_that_does_not_name_it() {
    let config = "[policy]\nallow = [\"bash\"]\ndeny = [\"read(**/.env)\"]\n";
    let stage = Stage::with_config(config);
    stage.write(".env", "TOKEN=zebra\n");
    stage.write(".plain", "to be seen\n");
    let script = "cat .p* .e* || true";
    let checked = stage.haft(&["policy", "check", "bash", script]);
    assert_eq!(checked.code, 0, "{}", checked.all());
    assert!(
        checked.all().contains("the sandbox hides `**/.env`"),
        "{}",
        checked.all()
    );
    let output = stage.haft(&["call", "bash", script]).all();
    assert!(output.contains("to be seen"), "{output}");
    assert!(!output.contains("zebra"), "{output}");
    stage.haft(&["call", "bash", "cat .env"]).fails(3);
    // The record has what was masked, so the same rules decide the same again.
    let replayed = stage.json(&["policy", "replay", "haft.toml", "--json"]);
    assert_eq!(replayed["changed"], 0, "{replayed:#}");
}

#[test]
fn show_lists_the_rules_and_their_cedar() {
    let stage = Stage::with_config(CONFIG);
    let shown = stage.haft(&["policy", "show"]).ok();
    insta::assert_snapshot!("policy_show", stage.normal(&shown));
    let cedar = stage.haft(&["policy", "show", "--cedar"]).ok();
    assert!(
        cedar.contains("forbid") && cedar.contains("permit"),
        "{cedar}"
    );
    let json = stage.json(&["policy", "show", "--json"]);
    assert_eq!(json["preset"], "careful");
    assert_eq!(json["rules"].as_array().unwrap().len(), 3);
}

#[test]
fn lint_finds_rules_that_do_nothing() {
    let stage = Stage::with_config(CONFIG);
    assert_eq!(
        stage.haft(&["policy", "lint"]).ok(),
        "no mistakes in 3 rules\n"
    );
    // In a file of the operator's own, which counts without `haft trust`.
    let stage = Stage::bare();
    let rules = stage.home.join("rules.toml");
    std::fs::write(&rules, "[policy]\ndeny = [\"raed\"]\n").unwrap();
    let ran = stage.haft(&["--config", rules.to_str().unwrap(), "policy", "lint"]);
    assert_eq!(ran.code, 7, "{}", ran.all());
    assert!(
        ran.stdout.contains("rules.toml:2") && ran.stdout.contains("hint: did you mean `read`?"),
        "{}",
        ran.all()
    );
    let stage = Stage::bare();
    stage.write("haft.toml", "[policy]\nallow = [\"bash(* --version)\"]\n");
    let error = stage.haft(&["trust"]).fails(7);
    assert!(
        error.contains("haft.toml:2"),
        "mistake 18 is refused before it is trusted: {error}"
    );
}

#[test]
fn lint_looks_at_a_file_that_nobody_trusts_yet() {
    let stage = Stage::bare();
    stage.write("haft.toml", "[policy]\nalow = []\n");
    let error = stage.haft(&["trust"]).fails(7);
    let (_, command) = error.split_once("`haft ").unwrap();
    let (command, _) = command.split_once('`').unwrap();
    let hinted: Vec<&str> = command.split(' ').collect();
    assert_eq!(hinted[..2], ["policy", "lint"]);
    // The hint leads back to the mistake, and after the correction to an all-clear.
    let again = stage.haft(&hinted).fails(7);
    assert!(again.contains("haft.toml:2:1: unknown key"), "{again}");
    stage.write("haft.toml", "[policy]\nallow = [\"raed\"]\n");
    let ran = stage.haft(&hinted);
    assert_eq!(ran.code, 7);
    assert!(ran.stdout.contains("did you mean `read`?"), "{}", ran.all());
    stage.write("haft.toml", "[policy]\nallow = [\"read\"]\n");
    for file in ["haft.toml", hinted[2]] {
        let clear = stage.haft(&["policy", "lint", file]).ok();
        assert_eq!(clear, "no mistakes in 1 rules\n");
    }
    assert_eq!(stage.haft(&["trust", "--list"]).ok(), "");
    let error = stage.haft(&["policy", "lint", "none.toml"]).fails(7);
    assert!(error.contains("there is no configuration file"), "{error}");
}

#[test]
fn r20_agents_differ_and_r21_a_dm_is_never_main() {
    let stage = Stage::with_config(
        "[policy]\n[agents.cli]\n[agents.reader]\npreset = \"locked\"\nallow = [\"read\"]\n[tools.list]\nsession = \"main\"\n",
    );
    stage.write("a.txt", "x");
    stage
        .haft(&["call", "read", "a.txt", "--agent", "reader"])
        .ok();
    stage
        .haft(&["call", "list", "path=.", "--agent", "reader"])
        .fails(3);
    stage
        .haft(&["call", "list", "path=.", "--agent", "cli"])
        .ok();
    let error = stage
        .haft(&["call", "list", "path=.", "--session-kind", "dm"])
        .fails(3);
    assert!(error.contains("haft.toml:"), "{error}");
    stage
        .haft(&["call", "read", "a.txt", "--agent", "stranger"])
        .fails(3);
}

/// Each family that `haft init` promises to deny, in spellings that are not the rule's own, and an
/// ordinary command that looks like it.
#[test]
fn what_init_denies_is_denied_in_every_spelling() {
    let stage = Stage::bare();
    stage.haft(&["init", "--preset", "workspace"]).ok();
    let check = |script: &str| stage.json(&["policy", "check", "bash", script, "--json"]);
    for (ruinous, ordinary) in [
        ("cd x; sudo make install", "echo sudo"),
        ("su - root -c ls", "summary --su"),
        ("env A=b doas ls", "ls doas"),
        ("/sbin/mkfs.ext4 -q disk.img", "cat mkfs.ext4"),
        ("cat x | dd bs=1M of=/dev/sda", "dd if=a of=b"),
        ("dd if=/dev/zero of=/dev/nvme0n1", "dd if=a of=/dev/null"),
        ("rm -fr -- /", "rm -fr -- ./x/"),
        ("rm -r -f /*", "rm -rf ./*"),
        ("echo ok && rm -rf ~/", "rm -rf ~/x/y"),
        ("rm -rf \"$HOME\"", "rm -rf \"$HOME/.cache/x\""),
        ("cd x; rm -rf $HOME", "cd x; rm -rf home"),
        ("bash -c 'rm -rf ${HOME}/*'", "bash -c 'rm -rf x'"),
        ("echo; :(){ :|:& };:", "echo ':(){ :|:& };:'"),
        ("b() { b | b & }\nb", "b() { ls | cat & }\nb"),
        ("function x { x & x & }; x", "x() { make & wait; }; x"),
    ] {
        let denied = check(ruinous);
        assert_eq!(denied["verdict"], "deny", "{ruinous}: {denied}");
        assert_eq!(denied["rule"]["text"], "bash(@ruinous)", "{denied}");
        let other = check(ordinary);
        assert_ne!(other["verdict"], "deny", "{ordinary}: {other}");
        assert_ne!(other["rule"]["text"], "bash(@ruinous)", "{other}");
    }
}
