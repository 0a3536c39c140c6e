# What a person and `.ci/run` both run. One command each; anything longer is Rust.

# Lists the recipes.
default:
    @just --list --unsorted

# Everything CI does, in the same order.
ci:
    .ci/run

# Formatting, without changing anything.
fmt:
    cargo fmt --all --check

# Lints, including the ban list in clippy.toml.
lint:
    cargo clippy --workspace --all-targets --locked -- -D warnings

# The fast tests, green on a bare machine; `just test -p haft-policy` for one crate.
test *args="--workspace":
    cargo nextest run --locked {{ args }}

# Every test that guards correctness, the fast ones too. Not as root: root hides what the kernel would refuse.
test-ci *args:
    cargo nextest run --workspace --locked --run-ignored all -E "$(just tier ci)" {{ args }}

# The same on a machine with a third of a processor that stops for 200 ms of every second. As root; it sets up what `.ci/run` does.
test-slow:
    HAFT_CI_SLOW=1 .ci/run

# The large counts: races, kill loops, storms, replays. Hours on a slow machine, and nothing else beside it.
soak:
    cargo nextest run --workspace --locked --profile soak --run-ignored only -E "$(just tier soak)" && "${CARGO_TARGET_DIR:-target}/debug/examples/soak_page" target/nextest/soak/junit.xml

# The filter expression of a tier (`ci` or `soak`); see crates/testkit/src/tier.rs.
tier name:
    @cargo nextest run --workspace --locked --no-run --cargo-quiet 2>/dev/null && "${CARGO_TARGET_DIR:-target}/debug/examples/tiers" {{ name }}

# The slowest tests of the last run with the profile `ci`, and why each is there.
test-times report="target/nextest/ci/junit.xml":
    @"${CARGO_TARGET_DIR:-target}/debug/examples/test_times" {{ report }}

# The attack corpus alone. Not as root: root hides what the kernel would refuse.
security:
    cargo nextest run --workspace --locked --profile security --run-ignored all

# Hostile input against every parser written by hand, a minute for each harness; `just fuzz shell` for some.
fuzz name="" $HAFT_FUZZ_SECONDS="60":
    cargo nextest run --workspace --locked -E 'test(/(^|::)fuzz::.*{{ name }}/) - package(haft-testkit)'

# Scripts made by mutation, decided, and run by a real bash that reports what started; an hour, or as long as you say.
fuzz-shell $HAFT_FUZZ_SECONDS="3600":
    cargo nextest run -p haft-policy --locked --profile soak --run-ignored only -E 'test(/fuzz::differential::/)'

# Examples in documentation, among them the README's quick start.
doctest:
    cargo test --workspace --doc --locked

# The documentation; a broken link is an error.
doc $RUSTDOCFLAGS="-D warnings":
    cargo doc --workspace --no-deps --locked

# What the library crates offer to others, compared with docs/public-api; HAFT_UPDATE=1 writes the pages anew.
public-api:
    cargo run --package haft-testkit --example public_api --locked --quiet

# What features of the library cost, compared with docs/build-cost.md; `--check` lints them alone, `--measure` writes the page.
build-cost *args:
    cargo run --package haft-testkit --example build_cost --locked --quiet -- {{ args }}

# Every library crate as it would be published, and a project of somebody else, built and run against those packages.
package:
    cargo run --package haft-testkit --example outside --locked --quiet

# Licences, banned crates and sources of the dependency graph.
deny:
    cargo deny --locked check bans licenses sources

# Measures Haft beside the bare thing and writes docs/benchmarks.md; `--profile dev -- --smoke` is the short run.
bench *args:
    cargo bench --workspace --bench scoreboard --locked {{ args }}

# Breaks the code and looks whether a test notices (cargo-mutants 27.1.0); `just mutants haft-runtime --re start.rs`.
mutants package *args:
    cargo mutants --package {{ package }} {{ args }}
