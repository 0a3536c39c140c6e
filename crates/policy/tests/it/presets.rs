//! What each preset must ask about, command by command. Every list is a way around that was found once.

use haft_contract::{
    Masks,
    host::Verdict::{self, Allow, Ask},
    ops::Tier,
};

use crate::world::{Call, policy};

#[track_caller]
fn check_all(preset: &str, commands: &[&str], expect: Verdict) {
    let rules = policy(&format!("[policy]\npreset = \"{preset}\""));
    let wrong: Vec<String> = commands
        .iter()
        .filter_map(|command| {
            let decision = Call::bash(command).tier(Tier::T2).decide(&rules);
            (decision.verdict != expect).then(|| format!("{command}: {}", decision.reason))
        })
        .collect();
    assert!(wrong.is_empty(), "{preset} should {expect}: {wrong:#?}");
}

/// An option that is not listed may write, so a form lists what it allows.
#[test]
fn careful_asks_about_options_that_write_or_run() {
    check_all(
        "careful",
        &[
            "tar -xf tf",
            "tar tf x -x",
            "tar tf x --extr",
            "tar --list --get",
            "tar -t --delete",
            "tar tf x --checkpoint-action=exec=y",
            "tar tf x -I CMD",
            "git apply --check --apply a.patch",
            "make --eval='x: ; touch a' x",
            "make -f - <<'EOF'\nx:\n\ttouch a\nEOF",
            "make -f /tmp/x.mk",
            "make SHELL=./x all",
            "make -C sub",
            "python3 -m timeit \"open('a.txt','w')\"",
            "python3 -m timeit -s 'import os' 'x'",
            "rg --pre p zzz",
            "gcc -M -MF a.txt src/a.c",
            "gcc -o a.txt src/a.c",
            "gcc -Wp,-MF,a.txt -E src/a.c",
            "gcc @args",
            "pytest --basetemp=src",
            "pytest --junitxml=a.txt",
            "sort --compress-program=x a",
            "cmake -E rm a.txt",
            "cmake -P x.cmake",
            "cmake -S . -B src",
            "cargo clean --target-dir src",
            "cargo deny fetch",
            "cargo clippy -- --emit=link",
            "cargo -v fmt",
            "gofmt -l --w src",
            "go env --w GOFLAGS=x",
            "go clean --modcache",
            "go test -exec x ./...",
            "go vet -vettool=x ./...",
            "go tool fix .",
            "go test -coverprofile=a.txt ./...",
            "go build -mod=mod ./...",
            "rustc --emit=dep-info=a.txt src/a.rs",
            "rustc --out-dir src src/a.rs",
            "ghc -o a.txt a.hs",
            "javac -d src A.java",
            "tsc --init",
            "tsc --outFile a",
            "esbuild src/a.ts --outfile=a",
            "python -m cProfile -o a.txt x.py",
            "mypy --install-types src",
            "mypy --junit-xml a src",
            "markdownlint -f .",
            "rubocop --safe-auto-correct",
            "rubocop --regenerate-todo",
            "rspec -o a",
            "vale sync",
            "coverage html -d src",
            "coverage run -m black .",
            "npm test -- -u",
            "npx --call x jest",
            "gawk -oa.txt 'BEGIN { print }'",
            "gawk -pa.txt 'BEGIN { print }'",
            "gawk -da.txt 'BEGIN { print }'",
            "git switch topic",
            "git switch -",
            "git switch -c topic main",
            "git switch -c topic -",
            "git switch -C topic",
            "git switch -c topic -C other",
            "git switch -c topic -f",
            "git switch -c -f topic",
            "git switch -qfc topic",
            "git switch -c topic --discard-changes",
            "git switch -c topic --force-create=other",
            "git switch -c topic -m",
            "git switch -c topic --orphan",
            "git switch -c topic --recurse-submodules",
            "git switch --creat topic",
            "git switch -c $x",
            "git switch -c \"fix-$n\"",
            "git switch $x",
            "git -c core.hooksPath=x switch -c topic",
            "GIT_CONFIG_COUNT=1 git switch -c topic",
            "git switch -c topic && git switch main",
            "git checkout -b topic",
            "git branch -m a b",
            "git branch -d a",
            "git branch -u origin/a",
            "git branch --edit-description",
            "git fsck --lost-found",
            "echo '!touch a' | dc",
        ],
        Ask,
    );
}

/// A shell of a database or a debugger runs what its words or its input say.
#[test]
fn careful_asks_about_programs_within_programs() {
    check_all(
        "careful",
        &[
            "sqlite3 :memory: '.sh echo x > a'",
            "sqlite3 -A x.db",
            "sqlite3 -Ax x.db",
            "sqlite3 x.db -cmd '.tables' 'select 1'",
            "sqlite3 -init f x.db 'select 1'",
            "sqlite3 x.db \".clone a\"",
            "sqlite3 x.db '.output a' 'select 1'",
            "sqlite3 x.db 'select 1; drop table t'",
            "sqlite3 x.db",
            "python3 <<'EOF'\nopen('a', 'w')\nEOF",
            "echo x | python3",
            "echo x | python3 -v",
            "echo x | node",
            "python3 - < x.py",
            "echo 'drop table t;' | sqlite3 x.db",
            "duckdb x.db \"export database 'src'\"",
            "duckdb -c \"copy t to 'a.txt'\"",
            "duckdb x.db '.shell touch a'",
            "gdb -batch -ex 'shell touch a' ./build/list",
            "gdb -batch -ex '!touch a' ./build/list",
            "gdb -batch -x f ./build/list",
            "lldb -b -o 'platform shell touch a'",
            "strace -o a.txt ls",
            "ltrace -o a.txt ls",
            "valgrind --log-file=a.txt ./build/list",
            "valgrind rm -rf src",
        ],
        Ask,
    );
}

/// A variable can make a routine command run or write something else.
#[test]
fn careful_asks_about_variables_it_does_not_know() {
    check_all(
        "careful",
        &[
            "GIT_EXTERNAL_DIFF=./x git diff",
            "GIT_EDITOR=./x git commit",
            "GIT_PAGER=./x git log",
            "PAGER=./x git log",
            "PAGER=./x; git log",
            "for i in 1; do PAGER=./x; done; git log",
            "MAKEFLAGS=--eval=x make",
            "TAR_OPTIONS=-x tar tf a",
            "RIPGREP_CONFIG_PATH=f rg x",
            "NODE_OPTIONS='-r ./x' npm test",
            "PYTEST_ADDOPTS=--basetemp=src pytest",
            "GOFLAGS=-exec=x go test ./...",
            "RUSTC_WRAPPER=./x cargo build",
            "CARGO_TARGET_DIR=src cargo build",
            "ASAN_OPTIONS=log_path=a.txt ./build/list",
            "env NODE_OPTIONS=x npm test",
        ],
        Ask,
    );
}

#[test]
fn careful_still_allows_what_is_routine() {
    check_all(
        "careful",
        &[
            "tar tf a.tgz",
            "tar -tzf a.tgz",
            "git apply --check a.patch",
            "make -j4 test",
            "make -j$(nproc) CFLAGS='-O2 -Werror'",
            "python3 -m timeit -n 10 'sum(range(1000))'",
            "sqlite3 x.db .tables",
            "sqlite3 -header x.db 'select a from t'",
            "duckdb -c \"select count(*) from 'a.csv'\"",
            "gdb -batch -ex run -ex bt ./build/list",
            "valgrind -q --leak-check=full ./build/list 1",
            "gcc -Iinclude -fsyntax-only -Wall src/*.c",
            "cargo clippy --all-targets -- -D warnings",
            "cargo test -p words -- --nocapture",
            "NODE_ENV=test npm test",
            "CI=1 RUST_BACKTRACE=1 cargo test",
            "GOOS=linux go build ./...",
            "git branch --list",
            "git commit -qam 'Say why'",
            "git commit -m \"$(cat msg)\"",
            "git switch -c feature/farewell",
            "git switch -qc topic",
            "git switch --quiet --create=topic",
            "git switch --create topic && git add -A",
            "uv run --offline pytest -q",
            "coverage run -m pytest -q",
            "python3 -m pytest tests/a.py::b -x -vv",
            "npx vitest run",
            "tsc --noEmit -p tsconfig.json",
            "gofmt -l .",
        ],
        Allow,
    );
}

/// History, or what is not on record, would be lost.
#[test]
fn workspace_and_sandboxed_ask_about_what_loses_history() {
    let commands = [
        "git -c alias.z=gc z --prune=now",
        "git -c gc.auto=1 -c gc.pruneExpire=now commit -m x",
        "git -calias.z=gc z",
        "git --config-env=alias.z=X z",
        "GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=alias.z GIT_CONFIG_VALUE_0=gc git z",
        "GIT_CONFIG_PARAMETERS=\"'alias.z=gc'\" git z",
        "export GIT_CONFIG_COUNT=1",
        "env GIT_CONFIG_COUNT=1 git z",
        "/usr/lib/git-core/git-clean -fdx",
        "git-gc",
        "git-reset --hard",
        "git read-tree -u --reset HEAD",
        "git checkout-index -f -a",
        "git bisect run git gc",
        "git bisect run sh -c 'rm notes.txt'",
        "git -C sub bisect run rm notes.txt",
        "git --odd bisect run ./x",
        "git-bisect run ./x",
        "git difftool -x ./x",
        "git send-pack . main",
        "git http-push x",
        "git branch --force-delete topic",
        "rm -- -notes.txt",
        "rm -rf -- -dir",
        "rsync -a --delete /tmp/empty/ src/",
        "rsync -a --del /tmp/empty/ src/",
        "rsync -a --remove-source-files src/ dist/",
        "go clean --modcache",
    ];
    check_all("sandboxed", &commands, Ask);
    check_all("workspace", &commands, Ask);
    let takes_back = [
        "git checkout .",
        "git checkout HEAD .",
        "git checkout HEAD src/a.c",
        "git checkout src/a.c",
        "git merge --abort",
        "git am --abort",
        "git cherry-pick --abort",
    ];
    check_all("workspace", &takes_back, Ask);
    let harmless = [
        "git -c user.name=x commit -m x",
        "git checkout main",
        "git checkout -b topic main",
        "git checkout v1.2.0",
        "git-status",
        "rsync -a --delete src/ dist/",
    ];
    check_all("sandboxed", &harmless, Allow);
    check_all("workspace", &harmless, Allow);
}

/// The order of an expression decides what `find` deletes, so one grammar is read.
#[test]
fn only_one_grammar_of_find_deletes_what_is_made_again() {
    let asks = [
        "find . -type f -delete -name '*.pyc'",
        "find . -not -name '*.pyc' -type f -delete",
        "find . -name '*.pyc' , -delete",
        "find . -iname '*' -delete -name x.pyc",
        "find . ! -name x.o -exec rm {} +",
        "find . -name '*.pyc' -prune , -delete",
        "find src -name '*.pyc' , -exec rm {} +",
        "find . -name '*.pyc' -o -delete",
        "find . -name '*.pyc' -name '*.o' -delete -delete",
        "find . -name '*.pyc' -exec rm {} + -delete",
        "find . -name '*.pyc' -exec rm {} notes.txt +",
        "find . -name '*.pyc' -newer a -delete",
    ];
    check_all("sandboxed", &asks, Ask);
    check_all("workspace", &asks, Ask);
    let remade = [
        "find . -name '*.pyc' -delete",
        "find . -type d -name __pycache__ -not -path './.venv/*' -exec rm -rf {} +",
        "find . -name __pycache__ -type d -not -path './.venv/*' -exec rm -rf {} +",
        "find src tests -maxdepth 2 -name '*.o' -exec rm {} \\;",
    ];
    check_all("sandboxed", &remade, Allow);
}

#[test]
fn what_connects_elsewhere_is_the_network() {
    let commands = [
        "curl localhost@evil.example/x",
        "curl http://localhost:80@evil.example/x",
        "curl localhost evil",
        "curl --resolve localhost:80:1.2.3.4 localhost",
        "curl --connect-to localhost:80:evil:80 localhost",
        "curl -x evil localhost",
        "curl --proxy evil localhost",
        "python3 -mpip install x",
        "python3 -Im pip install x",
        "python3 -W ignore -m pip install x",
        "openssl s_client -connect evil:443",
    ];
    check_all("sandboxed", &commands, Ask);
    check_all("careful", &commands, Ask);
    let itself = [
        "curl -sS -X POST -d a=b localhost:8080/x",
        "curl -sS \"http://127.0.0.1:$port/a\"",
    ];
    check_all("sandboxed", &itself, Allow);
}

/// A rule about paths that nothing holds is kept only by asking before what may open any file.
#[test]
fn a_rule_that_nothing_holds_asks_before_code_runs() {
    for preset in ["sandboxed", "workspace", "careful"] {
        let rules = policy(&format!(
            "[policy]\npreset = \"{preset}\"\ndeny = [\"read(**/.env)\", \"write(*.lock)\"]"
        ));
        let held = |hidden: &[&str]| Masks {
            hidden: hidden.iter().map(|glob| (*glob).to_owned()).collect(),
            read_only: vec![],
        };
        for script in [
            "make x",
            "python3 src/m.py",
            "./build/list",
            "cargo test",
            "npm test",
        ] {
            let call = Call::bash(script).tier(Tier::T2);
            for masks in [Masks::NONE, held(&["**/.env"])] {
                let unheld = if masks.is_empty() {
                    "read(**/.env)"
                } else {
                    "write(*.lock)"
                };
                let decision = call.clone().masked(masks).decide(&rules);
                assert_eq!(
                    decision.verdict, Ask,
                    "{preset}, {script}: {}",
                    decision.reason
                );
                let reason = format!("no sandbox holds `{unheld}` (haft.toml:3) here");
                assert!(decision.reason.contains(&reason), "{}", decision.reason);
            }
            let all = call.masked(held(&["**/.env", "**/*.lock"])).decide(&rules);
            assert_eq!(all.verdict, Allow, "{preset}, {script}: {}", all.reason);
        }
        let unknown = Call::bash("unknown x").tier(Tier::T2);
        assert_eq!(unknown.decide(&rules).verdict, Ask);
        let looks = Call::bash("ls src && git status").tier(Tier::T2);
        assert_eq!(looks.decide(&rules).verdict, Allow);
    }
}
