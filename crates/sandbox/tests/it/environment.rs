//! EN-01 to EN-09: what a call can put into a child's environment, as data and a runner.

use std::collections::BTreeMap;

use haft_contract::{
    ErrorKind, WorkPath,
    access::Command,
    ops::{OpsError, Spawn, Tier},
};

use crate::workspace::{Workspace, refused};

/// The child's environment with these variables asked for.
async fn environment(
    ws: &Workspace,
    asked: &[(&str, &str)],
) -> Result<BTreeMap<String, String>, OpsError> {
    let mut spawn = Spawn::new(
        Command::Argv(vec!["env".to_owned(), "-0".to_owned()]),
        WorkPath::root(),
        Tier::Host,
    );
    for (name, value) in asked {
        spawn
            .environment
            .insert((*name).to_owned(), (*value).to_owned());
    }
    let mut child = ws.backend.operations().processes.spawn(spawn).await?;
    let mut output = Vec::new();
    while let Some(chunk) = child.next_chunk().await {
        output.extend(chunk.bytes);
    }
    let text = String::from_utf8(output).unwrap();
    Ok(text
        .split_terminator('\0')
        .map(|variable| variable.split_once('=').unwrap())
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect())
}

/// Names that are refused, by attack.
const REFUSED: [(&str, &[&str]); 5] = [
    (
        "EN-01",
        &[
            "LD_PRELOAD",
            "LD_LIBRARY_PATH",
            "LD_AUDIT",
            "GLIBC_TUNABLES",
            "GCONV_PATH",
        ],
    ),
    (
        "EN-02",
        &[
            "BASH_ENV",
            "ENV",
            "PS4",
            "SHELLOPTS",
            "BASHOPTS",
            "PROMPT_COMMAND",
            "IFS",
            "CDPATH",
            "BASH_FUNC_ls%%",
        ],
    ),
    (
        "EN-04",
        &[
            "GIT_SSH_COMMAND",
            "GIT_EXTERNAL_DIFF",
            "GIT_EXEC_PATH",
            "GIT_DIR",
            "GIT_CONFIG_COUNT",
            "GIT_CONFIG_KEY_0",
            "GIT_CONFIG_VALUE_0",
            "GIT_PROXY_COMMAND",
        ],
    ),
    (
        "EN-05",
        &[
            "PYTHONSTARTUP",
            "PYTHONPATH",
            "PYTHONHOME",
            "PYTHONBREAKPOINT",
            "PERL5OPT",
            "PERL5LIB",
            "RUBYOPT",
            "NODE_OPTIONS",
            "JAVA_TOOL_OPTIONS",
            "DOTNET_STARTUP_HOOKS",
            "RUSTC_WRAPPER",
            "CARGO_HOME",
            "MAKEFLAGS",
            "GOFLAGS",
        ],
    ),
    (
        "EN-06",
        &[
            "HTTP_PROXY",
            "https_proxy",
            "NO_PROXY",
            "ALL_PROXY",
            "SSL_CERT_FILE",
            "NODE_TLS_REJECT_UNAUTHORIZED",
            "ANTHROPIC_BASE_URL",
            "openai_base_url",
        ],
    ),
];

#[tokio::test]
async fn en_01_to_en_06_names_that_steer_code_are_refused() {
    let ws = Workspace::new();
    for (attack, names) in REFUSED {
        for name in names {
            println!("{attack} {name}");
            refused(
                environment(&ws, &[(name, "/tmp/evil")])
                    .await
                    .map_err(without_path),
                ErrorKind::InvalidInput,
            );
        }
    }
    // Benign twins: names that look a little like them.
    for name in [
        "PORT",
        "DEBUG",
        "LDAP_URL",
        "PROXYLESS",
        "GITHUB_SHA",
        "RUST_LOG",
        "MY_ENV",
    ] {
        let found = environment(&ws, &[(name, "value")]).await.unwrap();
        assert_eq!(found[name], "value");
    }
}

/// The refusal names the variable and not its value.
fn without_path(error: OpsError) -> OpsError {
    assert!(!error.to_string().contains("evil"), "{error}");
    error
}

/// EN-03 and EN-07: where Haft has a value, that value wins.
#[tokio::test]
async fn en_03_and_en_07_the_runtimes_values_win() {
    let ws = Workspace::new();
    let plain = environment(&ws, &[]).await.unwrap();
    let evil = ws.root.join("bin").to_str().unwrap().to_owned();
    let names = [
        "PATH",
        "HOME",
        "TMPDIR",
        "USER",
        "LANG",
        "TERM",
        "SHELL",
        "PAGER",
        "GIT_PAGER",
        "MANPAGER",
        "EDITOR",
        "VISUAL",
        "BROWSER",
        "GIT_ASKPASS",
    ];
    let asked: Vec<(&str, &str)> = names
        .into_iter()
        .chain(["XDG_CONFIG_HOME", "XDG_DATA_DIRS", "OLDPWD"])
        .map(|name| (name, evil.as_str()))
        .collect();
    let found = environment(&ws, &asked).await.unwrap();
    for name in names {
        assert_eq!(found[name], plain[name], "{name}");
    }
    assert!(found.values().all(|value| *value != evil), "{found:?}");
    assert_eq!(found["PAGER"], "cat");
    assert!(!found["PATH"].contains(ws.root.to_str().unwrap()));
}

/// EN-08: nothing of this process's own environment is there.
#[tokio::test]
async fn en_08_the_environment_is_built_from_empty() {
    let ws = Workspace::new();
    let found = environment(&ws, &[]).await.unwrap();
    let ours: Vec<String> = std::env::vars().map(|(name, _)| name).collect();
    assert!(
        ours.iter().any(|name| name == "CARGO_MANIFEST_DIR"),
        "the control"
    );
    let expected = [
        "BROWSER",
        "EDITOR",
        "GIT_ASKPASS",
        "GIT_CONFIG_COUNT",
        "GIT_CONFIG_KEY_0",
        "GIT_CONFIG_VALUE_0",
        "GIT_EDITOR",
        "GIT_PAGER",
        "GIT_TERMINAL_PROMPT",
        "HAFT_PROCESS_TREE",
        "HOME",
        "LANG",
        "LC_ALL",
        "LOGNAME",
        "MANPAGER",
        "NO_COLOR",
        "PAGER",
        "PATH",
        "SHELL",
        "SSH_ASKPASS",
        "SYSTEMD_PAGER",
        "TERM",
        "TMPDIR",
        "USER",
        "VISUAL",
    ];
    assert_eq!(found.keys().collect::<Vec<_>>(), expected);
}

/// EN-09: names that are none, and sizes without measure.
#[tokio::test]
async fn en_09_bad_names_and_sizes_are_refused() {
    let ws = Workspace::new();
    for name in ["A=B", "A\0B", "A\nB", "", "1A", "A B", "A-B", "Ä"] {
        refused(
            environment(&ws, &[(name, "x")]).await,
            ErrorKind::InvalidInput,
        );
    }
    refused(
        environment(&ws, &[("A", "x\0y")]).await,
        ErrorKind::InvalidInput,
    );
    let huge = "x".repeat(2 << 20);
    refused(
        environment(&ws, &[("A", &huge)]).await,
        ErrorKind::LimitExceeded,
    );
    let names: Vec<String> = (0..10_000).map(|number| format!("V{number}")).collect();
    let many: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "x")).collect();
    refused(environment(&ws, &many).await, ErrorKind::LimitExceeded);
    // Benign twins.
    let long = "x".repeat(60_000);
    let found = environment(&ws, &[("A", &long), ("_B2", "two\nlines")])
        .await
        .unwrap();
    assert_eq!(found["A"], long);
    assert_eq!(found["_B2"], "two\nlines");
}
