//! The home directory of a sandboxed command: private, at the path of the user's own, with what
//! development needs and nothing else.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command as Program,
};

use haft_backends::LocalOptions;
use haft_contract::{
    access::Command,
    ops::{ExitStatus, Spawn, Tier},
};
use haft_sandbox::{Profile, SandboxOptions};

use crate::workspace::{Workspace, at, finish, sandbox_options};

const GIT_SETTINGS: &str = "[user]\n\tname = Dana Developer\n\temail = dana@example.org\n\
    [alias]\n\tlast = log -1 --format=%s\n\tsecret = !cat ~/.ssh/id\n\
    [core]\n\thooksPath = /nowhere\n\tpager = steal\n\
    [commit]\n\tgpgSign = true\n[include]\n\tpath = ~/more\n";

/// A workspace in a home that holds settings, toolchains and secrets.
struct Home {
    ws: Workspace,
    path: PathBuf,
}

impl Home {
    fn new() -> Self {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().canonicalize().unwrap();
        for (file, text) in [
            (".gitconfig", GIT_SETTINGS),
            (".ssh/id", "secret"),
            (".cargo/credentials.toml", "secret"),
            (".local/bin/own-tool", "#!/bin/sh\necho own tool\n"),
            (".netrc", "secret"),
        ] {
            let file = path.join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        }
        let tool = path.join(".local/bin/own-tool");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(tool, mode).unwrap();
        let inner = tempfile::tempdir_in(&path).unwrap();
        let ws = Workspace::with(inner, options(&path));
        let home = Self { ws, path };
        // The workspace is deeper, and goes with the home.
        std::mem::forget(temp);
        home
    }

    async fn run(&self, tier: Tier, script: &str) -> String {
        let script = format!("exec 2>&1; set -e; {script}");
        let spawn = Spawn::new(Command::Shell(script), at("."), tier);
        let (output, exit) = finish(&mut *self.ws.start(spawn).await).await;
        assert_eq!(exit.status, ExitStatus::Code(0), "{tier}: {output}");
        output
    }

    /// Git outside, with the user's own settings.
    fn git(&self, arguments: &[&str]) -> String {
        let output = Program::new("git")
            .args(arguments)
            .current_dir(&self.ws.root)
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("HOME", &self.path)
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap()
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

fn options(home: &Path) -> LocalOptions {
    LocalOptions {
        user: "dana".to_owned(),
        sandbox: SandboxOptions {
            profile: Profile {
                home: Some(home.to_owned()),
                ..Profile::default()
            },
            ..sandbox_options()
        },
        ..LocalOptions::default()
    }
}

#[tokio::test]
#[ignore = "ci: needs bubblewrap"]
async fn git_commits_in_the_users_name_and_runs_none_of_their_programs() {
    let home = Home::new();
    home.git(&["init", "-q", "-b", "main", "."]);
    for tier in [Tier::T1, Tier::T2] {
        let output = home
            .run(
                tier,
                "echo text >> file; git add file; git commit -q -m Text; git last; git config -l",
            )
            .await;
        assert!(output.starts_with("Text\n"), "{tier}: {output}");
        for word in ["hookspath", "steal", "gpgsign", "include", "secret"] {
            assert!(!output.contains(word), "{tier}: {word}:\n{output}");
        }
        let author = home.git(&["log", "-1", "--format=%an <%ae>"]);
        assert_eq!(author, "Dana Developer <dana@example.org>\n");
    }
    // What a command sets for itself ends with it.
    home.run(Tier::T2, "git config --global user.name Mallory")
        .await;
    let name = home.run(Tier::T2, "git config user.name").await;
    assert_eq!(name, "Dana Developer\n");
    let own = fs::read_to_string(home.path.join(".gitconfig")).unwrap();
    assert_eq!(own, GIT_SETTINGS);
}

#[tokio::test]
#[ignore = "ci: needs bubblewrap"]
async fn the_home_has_its_real_path_and_name_and_holds_no_secret() {
    let home = Home::new();
    let output = home
        .run(
            Tier::T2,
            "echo $HOME; whoami; getent passwd $USER | cut -d: -f6; own-tool; ls -A ~ ~/.local",
        )
        .await;
    let path = home.path.display();
    let start = format!("{path}\ndana\n{path}\nown tool\n{path}:\n.gitconfig\n.local\n");
    assert!(output.starts_with(&start), "{output}");
    for secret in [".ssh", ".cargo", ".netrc"] {
        assert!(!output.contains(secret), "{output}");
    }
}

#[tokio::test]
#[ignore = "ci: needs bubblewrap"]
async fn what_is_written_to_the_home_stays_in_the_sandbox() {
    let home = Home::new();
    let output = home
        .run(
            Tier::T2,
            "echo x > ~/made; echo x > ~/.ssh-not || true; mkdir -p ~/.cache/x
             if echo x > ~/.local/bin/made; then echo TOOLS; fi
             if echo x > ../made; then echo BESIDE; fi; echo over",
        )
        .await;
    assert!(output.ends_with("over\n"), "{output}");
    for word in ["TOOLS", "BESIDE"] {
        assert!(!output.contains(word), "{output}");
    }
    for made in ["made", ".ssh-not", ".cache", ".local/bin/made"] {
        assert!(!home.path.join(made).exists(), "{made}");
    }
    assert!(!home.ws.root.parent().unwrap().join("made").exists());
}

/// What a made toolchain has, below the home: each holds a token.
const WITH_TOKENS: [(&str, &str); 12] = [
    (
        ".nvm/versions/node/v20.1.0/etc/npmrc",
        "//r.example/:_authToken=token-77\n",
    ),
    (
        ".nvm/versions/node/v20.1.0/lib/node_modules/npm/npmrc",
        "_password=token-77\n",
    ),
    (
        ".local/share/fnm/node-versions/v18/installation/etc/npmrc",
        "_auth=token-77\n",
    ),
    (".volta/tools/image/node/20/etc/npmrc", "_auth=token-77\n"),
    (
        ".local/share/pipx/venvs/tool/pipx_metadata.json",
        "{\"pip_args\": [\"--index-url\", \"https://me:token-77@pypi.example/simple\"]}\n",
    ),
    (
        ".local/share/uv/tools/tool/uv-receipt.toml",
        "index = [{ url = \"https://me:token-77@pypi.example/simple\" }]\n",
    ),
    (
        ".local/share/virtualenvs/app/pip.conf",
        "[global]\nindex-url = https://me:token-77@pypi.example\n",
    ),
    (
        ".pyenv/versions/3.12.1/pip.conf",
        "[global]\nindex-url = https://me:token-77@pypi.example\n",
    ),
    (
        "go/pkg/mod/cache/vcs/0a1b/config",
        "[remote \"origin\"]\n\turl = https://token-77@git.example/x\n",
    ),
    (
        "go/pkg/mod/cache/vcs/0a1b.info",
        "git3:https://token-77@git.example/x\n",
    ),
    (
        ".cargo/git/db/x-1/config",
        "[remote \"origin\"]\n\turl = https://me:token-77@git.example/x\n",
    ),
    (
        ".cargo/git/checkouts/x-1/abc/.git/config",
        "[http]\n\textraHeader = Authorization: token-77\n",
    ),
];

#[tokio::test]
#[ignore = "ci: needs bubblewrap"]
async fn tokens_in_toolchains_are_covered_and_what_is_beside_them_is_shown() {
    let home = Home::new();
    let put = |file: &str, text: &str| {
        let file = home.path.join(file);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    };
    let plain = "[remote \"origin\"]\n\turl = ssh://git@git.example/beside-77\n";
    put(".cargo/git/db/y-2/config", plain);
    put("go/pkg/mod/cache/vcs/ffff/config", plain);
    for (file, text) in WITH_TOKENS {
        put(file, text);
        // The control: the directory is shown.
        put(&format!("{file}.beside"), "beside-77\n");
    }
    fs::write(
        home.path.join(".gitconfig"),
        "[alias]\n\tup = fetch https://token-77@git.example/x\n\tlast = log -1\n",
    )
    .unwrap();
    // The home is looked at once, when a workspace is opened.
    let inner = tempfile::tempdir_in(&home.path).unwrap();
    let ws = Workspace::with(inner, options(&home.path));
    let run = async |script: String| {
        let spawn = Spawn::new(Command::Shell(script), at("."), Tier::T2);
        let (output, exit) = finish(&mut *ws.start(spawn).await).await;
        (output, exit.status)
    };
    for (file, _) in WITH_TOKENS {
        let (output, status) = run(format!("cat ~/{file} && cat ~/{file}.beside")).await;
        assert_eq!(output, "beside-77\n", "{file}");
        assert_eq!(status, ExitStatus::Code(0), "{file}");
    }
    let (output, _) = run("grep -rIs token-77 ~; git config -l; echo over".to_owned()).await;
    assert!(!output.contains("token-77"), "{output}");
    assert!(output.contains("alias.last=log -1"), "{output}");
    for file in [
        ".cargo/git/db/y-2/config",
        "go/pkg/mod/cache/vcs/ffff/config",
    ] {
        let (output, _) = run(format!("cat ~/{file}")).await;
        assert_eq!(output, plain, "{file}");
    }
    // One that is gone since stops no command.
    fs::remove_file(home.path.join(".pyenv/versions/3.12.1/pip.conf")).unwrap();
    let (output, status) = run("echo still".to_owned()).await;
    assert_eq!((output.as_str(), status), ("still\n", ExitStatus::Code(0)));
}
