//! The answers of presets and rules, and what they say.

use std::sync::Arc;

use haft_contract::{
    Access, Effects, WorkPath,
    egress::EgressRules,
    host::{
        Policy as _,
        Verdict::{Allow, Ask, Deny},
    },
    ops::Tier,
    preview::CommandPreview,
};

use crate::world::{Call, check, path, policy};

#[test]
fn careful_allows_looking_and_asks_before_changes() {
    let careful = policy("");
    check(&careful, &Call::read("src/lib.rs"), Allow);
    check(&careful, &Call::grep("."), Allow);
    check(&careful, &Call::write("src/lib.rs"), Ask);
    check(&careful, &Call::bash("ls"), Ask);
    for tier in [Tier::T1, Tier::T2, Tier::T3] {
        for looks in [
            "ls -la",
            "git status",
            "cat src/*.rs | grep -n x | sort",
            "rg x",
            "gofmt -l .",
        ] {
            check(&careful, &Call::bash(looks).tier(tier), Allow);
        }
        for changes in [
            "touch a",
            "ls > list",
            "python3 -c 'print(1)'",
            "ls $(npm install)",
        ] {
            check(&careful, &Call::bash(changes).tier(tier), Ask);
        }
    }
    check(&careful, &Call::bash("cat /etc/passwd").tier(Tier::T1), Ask);
    for routine in [
        "ls $(make)",
        "cargo test 2>&1 | tail -5",
        "make -j$(nproc) && ./build/list 1 2",
        "python3 -m pytest -q",
        "npx tsc --noEmit",
        "for f in src/*.c; do grep -c x \"$f\"; done",
        "bash tests/run.sh",
        "git add -A && git commit -m 'Say why'",
        "sqlite3 a.db 'select * from t'",
        "awk -F, 'NR > 1 { n += $2 } END { print n }' data/a.csv",
        "ruff check . && ruff format --check .",
        "python3 -m json.tool a.json",
    ] {
        check(&careful, &Call::bash(routine).tier(Tier::T2), Allow);
        check(&careful, &Call::staying_bash(routine).tier(Tier::T2), Ask);
        // What is changed there is not on record.
        check(&careful, &Call::bash(routine).tier(Tier::T1), Ask);
    }
    for changes in [
        "cargo clippy --fix",
        "cargo $x",
        "npx eslint src --fix",
        "npx prettier --write src",
        ".venv/bin/black .",
        "sed -i s/a/b/ f",
        "git commit --amend",
        "git -c core.fsmonitor=x status",
        "git checkout main",
        "git push",
        "node -e 'x'",
        "python3 - <<'EOF'\nx\nEOF",
        "perl -pi -e s/a/b/ f",
        "sqlite3 a.db 'update t set x = 1'",
        "curl -o f localhost:80",
        "make > log",
        "python3 -m black .",
        "python3 -m venv v",
        "python3 -m json.tool a.json b.json",
        "ruff format .",
        "ruff check --fix .",
        "black -l 100 .",
        "isort .",
        "autopep8 -i a.py",
        "prettier -w src",
        "gofmt -w -l .",
        "golangci-lint run --fix",
        "rubocop --autocorrect",
        "biome check --write",
        "deno fmt",
        "wget localhost:80/f",
        "awk '{ print > \"f\" }' a",
        "awk '{ print $1 | \"sh\" }' a",
        "awk 'BEGIN { system(\"touch f\") }'",
        "awk -f program a",
        "git diff --output=f",
        "unknown",
    ] {
        let decision = Call::bash(changes).tier(Tier::T2).decide(&careful);
        assert_eq!(decision.verdict, Ask, "{changes}");
    }
    let decision = Call::write("a").decide(&careful);
    assert_eq!(
        decision.reason,
        "no rule allows writing `a`, so preset `careful` asks"
    );
    assert_eq!(decision.access.as_deref(), Some("write a"));
    assert_eq!(decision.rule, None);
}

/// What concerns a person asks wherever it runs; the rest is left to a sandbox without network.
#[test]
fn sandboxed_leaves_to_the_sandbox_what_it_holds() {
    let sandboxed = policy("[policy]\npreset = \"sandboxed\"");
    let workspace = policy("[policy]\npreset = \"workspace\"");
    check(&sandboxed, &Call::write("src/lib.rs"), Allow);
    for script in [
        "./build/list 1 2",
        "python3 -c 'print(1)'",
        "for f in src/*.c; do wc -l \"$f\"; done",
        "git commit -m \"$(cat <<'EOF'\nSay it\nEOF\n)\"",
        "cd tests && pytest -q . && cd ..",
        "curl -sS localhost:$(cat .port)",
        "python3 - <<'EOF' && echo done\nprint(1)\nEOF",
    ] {
        check(&sandboxed, &Call::bash(script).tier(Tier::T2), Allow);
        check(&workspace, &Call::bash(script).tier(Tier::T3), Allow);
        // Without the sandbox, or with less of one, the words decide.
        check(&sandboxed, &Call::bash(script).tier(Tier::T1), Ask);
        check(&sandboxed, &Call::bash(script).tier(Tier::Host), Ask);
        check(&sandboxed, &Call::staying_bash(script).tier(Tier::T2), Ask);
    }
    for script in ["rm -rf dist", "git rebase main", "git commit --amend"] {
        check(&sandboxed, &Call::bash(script).tier(Tier::T2), Allow);
        check(&workspace, &Call::bash(script).tier(Tier::T2), Ask);
    }
    for (script, why) in [
        (
            "git push",
            "it reaches for the network or for what others have",
        ),
        (
            "npx create-vite@latest",
            "it reaches for the network or for what others have",
        ),
        (
            "python3 -m pip install x",
            "it reaches for the network or for what others have",
        ),
        (
            "git reset --hard HEAD~1",
            "it can lose history that is nowhere else",
        ),
        (
            "rm notes.txt",
            "it may delete something that no command makes again",
        ),
        (
            "rm -rf \"$x\"",
            "it may delete something that no command makes again",
        ),
        (
            "git config core.hooksPath x",
            "it changes settings that act later",
        ),
        ("sudo ls", "it changes the system"),
        ("kill $(pgrep x)", "it ends processes that it did not start"),
        ("nohup make", "it may still run after the call"),
        ("./server &", "it may still run after the call"),
        ("cp a ../b", "it leads out of the workspace"),
        ("cat ~/x", "it leads out of the workspace"),
        ("cat $HOME/x", "it leads out of the workspace"),
        ("echo x > /etc/x", "it leads out of the workspace"),
        ("$CMD x", "which program it runs is known only when it runs"),
        (
            "eval \"$x\"",
            "some of its words are known only when it runs",
        ),
        (
            "echo x | sh",
            "the command that `sh` runs could not be determined",
        ),
        ("PATH=. ls", "it sets the variable `PATH`"),
    ] {
        let call = Call::bash(script).tier(Tier::T2);
        check(&sandboxed, &call, Ask);
        check(&workspace, &call, Ask);
        let reason = call.decide(&sandboxed).reason;
        assert!(reason.ends_with(why), "{script}: {reason}");
    }
    let mut online = Call::bash("./build/list").tier(Tier::T2);
    online.parts.egress = Some(Arc::new(EgressRules {
        allow: vec![],
        deny: vec![],
    }));
    online.plan = online.parts.clone().seal();
    check(&sandboxed, &online, Ask);
}

#[test]
fn workspace_allows_edits_and_commands_only_in_a_sandbox() {
    let workspace = policy("[policy]\npreset = \"workspace\"");
    check(&workspace, &Call::write("src/lib.rs"), Allow);
    check(&workspace, &Call::bash("ls").tier(Tier::T1), Allow);
    check(&workspace, &Call::bash("ls").tier(Tier::Host), Ask);
    check(&workspace, &Call::bash("ls").tier(Tier::InProcess), Ask);
    let fetch = Call::of(
        "web_fetch",
        vec![Access::Host {
            host: "docs.rs".to_owned(),
            port: 443,
        }],
    );
    check(&workspace, &fetch, Ask);
}

#[test]
fn a_rule_about_a_command_finds_it_inside_a_script() {
    let workspace = policy("[policy]\npreset = \"workspace\"\ndeny = [\"bash(rm *)\"]");
    let bash = |script: &str| Call::bash(script).tier(Tier::T2);
    for script in [
        "rm -rf x",
        "ls; rm -rf x",
        "/bin/rm -rf x",
        "ls && (cd src; timeout 5 rm x)",
        "sh -c 'rm x'",
        "echo $(rm x)",
        "find . -exec rm {} +",
        "find . -execdir rm {} +",
        "find . -ok rm {} ';'",
        "find . -okdir rm {} ';'",
    ] {
        check(&workspace, &bash(script), Deny);
    }
    check(&workspace, &bash("ls"), Allow);
    check(&workspace, &bash("ls; $X"), Ask);
    let decision = bash("ls; env rm -rf x").decide(&workspace);
    assert_eq!(
        decision.reason,
        "`bash(rm *)` (haft.toml:3) denies running `rm -rf x` (inside `env`)"
    );
    assert_eq!(decision.access.as_deref(), Some("command rm -rf x"));
    let unclear = bash("ls; $X").decide(&workspace);
    assert_eq!(
        unclear.reason,
        "running `$X` is not fully understood, so it asks: which program it runs is known only \
         when it runs"
    );
}

#[test]
fn a_rule_about_a_command_reaches_what_may_run_it() {
    let rules = policy("[policy]\nallow = [\"bash\"]\ndeny = [\"bash(rm *)\", \"bash(g*t push)\"]");
    let bash = |script: &str| Call::bash(script).tier(Tier::T2);
    for script in ["npx x", "crontab x", "tmux x", "chrt 1 rm x"] {
        check(&rules, &bash(script), Ask);
    }
    for script in ["git push", "git --no-pager push", "timeout 5 git push"] {
        check(&rules, &bash(script), Deny);
    }
    for script in ["deploy x", "git pull", "ls rm"] {
        check(&rules, &bash(script), Allow);
    }
}

#[test]
fn what_a_command_touches_is_judged_too() {
    let rules = policy(
        "[policy]\npreset = \"workspace\"\nallow = [\"bash\"]\n\
         deny = [\"read(**/.env)\", \"write(docs/**)\"]",
    );
    let bash = |script: &str| Call::bash(script).tier(Tier::T2);
    for script in [
        "cat .env",
        "cd sub && cat .env",
        "cat < sub/.env",
        "cat /w/.env",
        "grep x .env",
        "grep --file=.env x",
        "grep -f.env x",
        "ls | xargs -n1 cat .env",
        "echo x > docs/a",
        "cp a docs/b",
        "cd docs; echo x > a",
        "echo x > ../w/docs/a",
        "(echo x) > docs/a",
        "{ echo x; } > docs/a",
        "(echo x; echo y) > docs/a",
        "tee docs/a",
        "bash -c 'cat .env'",
    ] {
        check(&rules, &bash(script), Deny);
    }
    // Whether these read it cannot be told.
    for script in [
        "python3 x.py .env",
        "cat $F",
        "cat *",
        "cd $D; cat x",
        "cd ..; python3 x.py a",
        "cd -; python3 x.py a",
        "docker run --env-file=.env x",
    ] {
        check(&rules, &bash(script), Ask);
    }
    // One file more than are looked at.
    let many = format!("cat {}.env", "a ".repeat(64));
    assert_ne!(bash(&many).decide(&rules).verdict, Allow);
    for script in [
        "cat a",
        "echo .env",
        "grep .env a",
        "python3 x.py a",
        "echo x > src/a",
        "cp docs/a b",
    ] {
        check(&rules, &bash(script), Allow);
    }
    let reason = bash("ls; cat .env").decide(&rules).reason;
    assert_eq!(
        reason,
        "`read(**/.env)` (haft.toml:4) denies reading `.env` (by `cat .env`)"
    );
}

#[test]
fn a_wildcard_allows_words_of_one_command_and_nothing_beside() {
    let rules = policy(
        "[policy]\nallow = [\"bash(git add *)\", \"bash(npm run *)\", \"bash(touch a; touch b)\"]",
    );
    // Where no preset allows what only builds.
    let bash = |script: &str| Call::bash(script).tier(Tier::T1);
    for script in [
        "git add x",
        "git add -A x y",
        "npm run x",
        "git add x && npm run x",
        "timeout 5 npm run x",
        "touch a; touch b",
    ] {
        check(&rules, &bash(script), Allow);
    }
    for script in [
        "git log --output=f",
        "git add x > f",
        "git -C . add x",
        "/usr/bin/git add x",
        "git -c a=b add x",
        "npm run x; rm -rf ~",
        "npm run $X",
        "npm run x | sh",
        "X=1 npm run x",
        "touch b; touch a",
        "./npm run x",
    ] {
        check(&rules, &bash(script), Ask);
    }
}

#[test]
fn locked_denies_with_a_truthful_reason_and_never_asks() {
    let locked = policy(
        "[policy]\npreset = \"locked\"\nallow = [\"read(src/**)\", \"bash(cargo test)\"]\nask = [\"write\"]",
    );
    check(&locked, &Call::read("src/lib.rs"), Allow);
    check(&locked, &Call::bash("cargo test").tier(Tier::T2), Allow);
    check(&locked, &Call::bash("cargo test"), Deny);
    check(&locked, &Call::read("Cargo.toml"), Deny);
    check(&locked, &Call::bash("cargo test x").tier(Tier::T2), Deny);
    check(&locked, &Call::write("a"), Deny);
    assert_eq!(
        Call::read("Cargo.toml").decide(&locked).reason,
        "no rule allows reading `Cargo.toml`, and preset `locked` never asks"
    );
    assert_eq!(
        Call::write("a").decide(&locked).reason,
        "`write` (haft.toml:4) asks before using `write`, and preset `locked` never asks"
    );
}

#[test]
fn the_strictest_access_decides() {
    let rules = policy("[policy]\nallow = [\"copy\"]\ndeny = [\"read(**/.env)\"]");
    let copy = |from: &str| {
        let accesses = vec![Access::read(path(from)), Access::write(path("b"))];
        Call::of("copy", accesses)
    };
    check(&rules, &copy("a"), Allow);
    check(&rules, &copy("x/.env"), Deny);
}

/// What is typed into a running command is judged like a command, and looking like reading.
#[test]
fn typing_into_a_process_is_judged_like_a_command() {
    let looks = Call::of("process", vec![]).effects(Effects::READ_ONLY);
    let types = |tier| Call::types("y\n", "npm init").tier(tier);
    for (preset, look, host, sandboxed) in [
        ("careful", Allow, Ask, Ask),
        ("workspace", Allow, Ask, Allow),
        ("locked", Deny, Deny, Deny),
    ] {
        let preset = policy(&format!("[policy]\npreset = \"{preset}\""));
        check(&preset, &looks, look);
        check(&preset, &types(Tier::Host), host);
        check(&preset, &types(Tier::T2), sandboxed);
    }
    let careful = policy("");
    assert_eq!(
        types(Tier::Host).decide(&careful).reason,
        "no rule allows acting on a process: `type \"y\\n\" into p1, which runs: npm init`, so \
         preset `careful` asks"
    );
    check(
        &policy("[policy]\nallow = [\"process\"]"),
        &types(Tier::Host),
        Allow,
    );
    check(&policy("[policy]\ndeny = [\"@process\"]"), &looks, Deny);
}

/// A shell in the background is no way around a rule over commands.
#[test]
fn a_rule_over_commands_makes_typing_ask() {
    let typed = |text: &str| Call::types(text, "bash").tier(Tier::T2);
    let push = typed("git push\n");
    let open = policy("[policy]\npreset = \"workspace\"");
    check(&open, &push, Allow);
    let rule = policy("[policy]\npreset = \"workspace\"\ndeny = [\"bash(git push*)\"]");
    check(&rule, &push, Ask);
    // A rule over the tool itself speaks of what is typed and of what it is typed into.
    for pattern in ["git push*", "bash"] {
        let rule = format!("[policy]\npreset = \"workspace\"\ndeny = [\"process({pattern})\"]");
        check(&policy(&rule), &push, Deny);
        check(&policy(&rule), &typed(" git push\n"), Deny);
    }
    // What is typed a piece at a time matches no pattern, so having one is reason enough.
    let rule = policy("[policy]\npreset = \"workspace\"\ndeny = [\"process(git pull*)\"]");
    check(&rule, &push, Ask);
}

#[test]
fn a_script_that_is_spelt_out_may_write_what_it_names() {
    let bash = |script: &str| Call::bash(script).tier(Tier::T2);
    let whole = policy("[policy]\nallow = [\"bash(echo a > b)\"]");
    check(&whole, &bash("echo a > b"), Allow);
    check(&whole, &bash("echo a > c"), Ask);
    // A star matches words, and the file after `>` is none.
    let words = policy("[policy]\nallow = [\"bash(echo *)\"]");
    check(&words, &bash("echo a"), Allow);
    check(&words, &bash("echo a > b"), Ask);
}

#[test]
fn a_change_that_no_access_names_asks() {
    let careful = policy("");
    let quiet = Call::from("embedded", "greet", vec![]);
    check(&careful, &quiet.clone().effects(Effects::READ_ONLY), Allow);
    check(&careful, &quiet.effects(Effects::CHANGES), Ask);
    let reads = Call::from("embedded", "sync", vec![Access::read(path("a"))]);
    check(&careful, &reads.clone().effects(Effects::READ_ONLY), Allow);
    check(&careful, &reads.effects(Effects::CHANGES), Ask);
}

#[test]
fn foreign_tools_ask_until_a_rule_names_them() {
    let call = |tool: &str| {
        let remote = Access::RemoteTool {
            provider: "github".to_owned(),
            tool: "list_issues".to_owned(),
        };
        Call::from("github", tool, vec![remote]).effects(Effects::READ_ONLY)
    };
    let list = call("mcp__github__list_issues");
    check(&policy(""), &list, Ask);
    check(&policy("[policy]\nallow = [\"@read-only\"]"), &list, Ask);
    check(
        &policy("[policy]\nallow = [\"mcp__github__*\"]"),
        &list,
        Allow,
    );
    check(
        &policy("[policy]\nallow = [\"mcp__gitlab__*\"]"),
        &list,
        Ask,
    );
    let qualified = policy("[policy]\nallow = [\"github/mcp__github__list_issues\"]");
    check(&qualified, &list, Allow);
}

#[test]
fn groups_select_tools_by_name_membership_and_effects() {
    check(
        &policy("[policy]\nallow = [\"@files\"]"),
        &Call::write("a"),
        Allow,
    );
    check(
        &policy("[policy]\ndeny = [\"@search\"]"),
        &Call::grep("."),
        Deny,
    );
    check(
        &policy("[policy]\ndeny = [\"@all\"]"),
        &Call::read("a"),
        Deny,
    );
    check(
        &policy("[policy]\ndeny = [\"@destructive\"]"),
        &Call::write("a"),
        Deny,
    );
    let mine = policy("[policy]\ngroups = { edits = [\"write\", \"edit\"] }\nallow = [\"@edits\"]");
    check(&mine, &Call::write("a"), Allow);
    check(&mine, &Call::bash("ls"), Ask);
}

#[test]
fn a_search_leaves_out_what_may_not_be_read() {
    let rules = policy(
        "[policy]\ndeny = [\"read(**/.env)\", \"read(vault/**)\", \"write(x/**)\"]\nask = [\"grep(private)\"]",
    );
    let decision = Call::grep(".").decide(&rules);
    assert_eq!(decision.verdict, Allow);
    assert_eq!(
        decision.withheld,
        [
            "**/.env",
            "**/.env/**",
            "**/private",
            "**/private/**",
            "vault/**"
        ]
    );
    let beneath = Call::grep("src").decide(&rules);
    assert!(!beneath.withheld.contains(&"vault/**".to_owned()));
    // Wherever the search starts, above the rule's directory or in it.
    let nested = policy("[policy]\ndeny = [\"read(src/vault/**)\", \"read(src/*/key)\"]");
    let key = ["src/*/key", "src/*/key/**"];
    let above = Call::grep("src").decide(&nested);
    assert_eq!(above.withheld, [key[0], key[1], "src/vault/**"]);
    let inside = Call::grep("src/a/b").decide(&nested);
    assert_eq!(inside.withheld, key);
    // The person is asked about exactly this, so it is not withheld from the answer.
    let private = Call::grep("private").decide(&rules);
    assert_eq!(private.verdict, Ask);
    assert_eq!(private.withheld, ["**/.env", "**/.env/**"]);
    assert!(Call::read("a").decide(&rules).withheld.is_empty());
}

#[test]
fn an_allowed_path_is_itself_and_nothing_beneath_it() {
    let rules = policy("[policy]\nallow = [\"write(a)\", \"write(b/*)\", \"write(c/**)\"]");
    for inside in ["a", "b/x", "c/x", "c/x/y"] {
        check(&rules, &Call::write(inside), Allow);
    }
    for beneath in ["a/x", "b/x/y", "d/a"] {
        check(&rules, &Call::write(beneath), Ask);
    }
}

#[test]
fn an_allowed_tree_is_covered_whole() {
    let rules = policy("[policy]\npreset = \"locked\"\nallow = [\"grep(src/**)\"]");
    check(&rules, &Call::grep("src"), Allow);
    check(&rules, &Call::grep("src/a"), Allow);
    check(&rules, &Call::grep("."), Deny);
}

#[test]
fn hosts_are_matched_by_domain() {
    let fetch = |host: &str| {
        let access = Access::Host {
            host: host.to_owned(),
            port: 443,
        };
        Call::of("web_fetch", vec![access])
    };
    let rules = policy(
        "[policy]\nallow = [\"web_fetch(domain:docs.rs)\"]\ndeny = [\"web_fetch(domain:evil.example)\"]",
    );
    check(&rules, &fetch("docs.rs"), Allow);
    check(&rules, &fetch("DOCS.rs."), Allow);
    check(&rules, &fetch("docs.rs.evil.net"), Ask);
    check(&rules, &fetch("x.docs.rs"), Ask);
    check(&rules, &fetch("cdn.evil.example"), Deny);
    check(&rules, &fetch("notevil.example"), Ask);
}

#[test]
fn an_explanation_names_every_step_and_rule() {
    let rules = policy("[policy]\nask = [\"read\"]\ndeny = [\"read(**/.env)\"]");
    let call = Call::read("a/.env");
    let explanation = rules.explain(&call.question());
    assert_eq!(explanation.decision.verdict, Deny);
    let rule = explanation.decision.rule.unwrap();
    assert_eq!(rule.to_string(), "`read(**/.env)` (haft.toml:3)");
    let steps: Vec<_> = explanation
        .steps
        .iter()
        .map(|step| (step.action.as_str(), step.verdict, step.considered.len()))
        .collect();
    assert_eq!(steps, [("use", Ask, 1), ("read", Deny, 2)]);
    let careful = policy("");
    let default = careful.explain(&Call::bash("ls").question());
    assert!(
        default
            .steps
            .iter()
            .all(haft_policy::explain::Step::is_default)
    );
}

#[test]
fn cedar_text_is_what_is_in_force() {
    let rules = policy("[policy]\ndeny = [\"read(**/.env)\"]\nask = [\"bash\"]");
    let text = rules.cedar_text();
    let expect = "@rule(\"read(**/.env)\")\n@source(\"haft.toml:2\")\n\
        forbid (principal, action == Action::\"read\", resource in Pattern::\"**/.env\");\n";
    assert!(text.contains(expect), "{text}");
    assert!(text.contains("when { context.tool == \"bash\" }\nunless { context.approved };"));
    assert!(
        text.contains("preset careful") && !text.contains("preset locked"),
        "{text}"
    );
    text.parse::<cedar_policy::PolicySet>().unwrap();
}

#[test]
fn the_version_changes_with_the_rules() {
    use haft_contract::host::Policy as _;
    let one = policy("[policy]\ndeny = [\"bash\"]");
    assert_eq!(
        one.version(),
        policy("[policy]\ndeny = [\"bash\"]").version()
    );
    assert_ne!(
        one.version(),
        policy("[policy]\nask = [\"bash\"]").version()
    );
    assert_ne!(
        policy("").version(),
        policy("[policy]\npreset = \"locked\"").version()
    );
    let level = "[tools.bash]\nsandbox = \"full\"";
    assert_ne!(policy("").version(), policy(level).version());
}

#[test]
fn a_changed_whole_tree_meets_every_rule_inside_it() {
    let workspace = policy("[policy]\npreset = \"workspace\"\nask = [\"write(src/gen/**)\"]");
    let tree = |text: &str| {
        let mut access = Access::write(path(text));
        if let Access::Path(path) = &mut access {
            path.scope = haft_contract::PathScope::Tree;
        }
        Call::of("write", vec![access])
    };
    check(&workspace, &tree("src"), Deny);
    check(&workspace, &Call::write("src/gen/a"), Ask);
    check(&workspace, &Call::write("src/a"), Allow);
    check(
        &workspace,
        &Call::of(
            "bash",
            vec![Access::argv(vec!["ls".into()], WorkPath::root())],
        ),
        Ask,
    );
}

/// One line a command, with what it runs, reads, writes and reaches, and its own answer.
#[test]
fn a_person_sees_the_commands_one_by_one() {
    let rules = policy("[policy]\npreset = \"workspace\"\ndeny = [\"bash(git push)\"]");
    let seen = |script: &str| -> Vec<String> {
        let call = Call::bash(script).tier(Tier::T2);
        let commands = rules.commands(&call.question());
        let line = |command: &CommandPreview| {
            let touches: Vec<String> = command
                .touches
                .iter()
                .map(|touched| format!("{} {}", touched.how.as_str(), touched.what))
                .collect();
            let opaque = command.opaque.as_deref().unwrap_or("clear");
            let (verdict, text) = (command.verdict, &command.text);
            format!("{verdict}: {text} [{}] {opaque}", touches.join(", "))
        };
        commands.iter().map(line).collect()
    };
    assert_eq!(
        seen("cd sub && ./run 'a b' < in.txt; timeout 5 git -C . push; echo hi > /etc/x"),
        [
            "allow: cd sub [runs cd, reads sub] clear",
            "allow: ./run 'a b' < in.txt [runs /w/run, runs /w/sub/run, reads in.txt] clear",
            "allow: timeout 5 git -C . push [runs timeout] clear",
            "deny: git -C . push  (inside timeout) [runs git, reads .] clear",
            "ask: echo hi > /etc/x [runs echo, writes /etc/x] `/etc/x` is not known to be in the workspace",
        ]
    );
    assert_eq!(
        seen("X=1 bash build.sh $Y; cat <<EOF > out\nbody\nEOF\necho x > /dev/tcp/h/80"),
        [
            "ask: X=1 bash build.sh $Y [runs bash, runs /w/build.sh, reads build.sh] it sets the variable `X`",
            "allow: cat <<EOF > out\nbody\nEOF [runs cat, writes out] clear",
            "ask: echo x > /dev/tcp/h/80 [runs echo, connects h:80] clear",
        ]
    );
    assert_eq!(
        seen("echo 'unfinished"),
        ["deny: echo 'unfinished [] it is not a complete shell script"]
    );
    assert_eq!(rules.commands(&Call::read("a").question()), []);
}
