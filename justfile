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

# Every test but the doctests, and builds the examples; `just test -p haft-policy` for one crate.
test *args="--workspace":
    cargo nextest run --locked {{ args }}

# The attack corpus alone. Not as root: root hides what the kernel would refuse.
security:
    cargo nextest run --workspace --locked --profile security

# Examples in documentation, among them the README's quick start.
doctest:
    cargo test --workspace --doc --locked

# The documentation; a broken link is an error.
doc $RUSTDOCFLAGS="-D warnings":
    cargo doc --workspace --no-deps --locked

# Licences, banned crates and sources of the dependency graph.
deny:
    cargo deny --locked check bans licenses sources

# Measures Haft beside the bare thing and writes docs/benchmarks.md; `--profile dev -- --smoke` is the short run.
bench *args:
    cargo bench --workspace --bench scoreboard --locked {{ args }}
