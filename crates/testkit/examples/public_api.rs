//! Compares what the library crates offer to others with the pages in `docs/public-api/`, so that a
//! change others would notice is seen in review. It has rustdoc describe each crate first, in a form that
//! only a nightly would write without being told to.
//!
//! ```sh
//! just public-api
//! HAFT_UPDATE=1 just public-api
//! ```
#![expect(
    clippy::disallowed_methods,
    clippy::print_stderr,
    reason = "a program for maintainers that compares two pages"
)]

use std::{
    collections::BTreeSet,
    env, fs,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// The crates that others build on.
const CRATES: [&str; 2] = ["haft-contract", "haft"];

/// The variable that has the pages written anew.
const UPDATE: &str = "HAFT_UPDATE";

fn main() -> ExitCode {
    let mut ok = true;
    for name in CRATES {
        match compare(name) {
            Ok(()) => {}
            Err(problem) => {
                eprintln!("{problem}");
                ok = false;
            }
        }
    }
    if ok {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn compare(name: &str) -> Result<(), String> {
    let described = describe(name)?;
    let api = public_api::Builder::from_rustdoc_json(&described)
        .omit_blanket_impls(true)
        .omit_auto_trait_impls(true)
        .omit_auto_derived_impls(true)
        .build()
        .map_err(|error| format!("{}: {error}", described.display()))?;
    let lines: Vec<String> = api.items().map(ToString::to_string).collect();
    let now = lines.join("\n") + "\n";
    let page = Path::new(ROOT).join(format!("docs/public-api/{name}.txt"));
    if env::var_os(UPDATE).is_some() {
        return fs::write(&page, now).map_err(|error| format!("{}: {error}", page.display()));
    }
    let then = fs::read_to_string(&page).map_err(|error| format!("{}: {error}", page.display()))?;
    if then == now {
        return Ok(());
    }
    let (old, new): (BTreeSet<&str>, BTreeSet<&str>) =
        (then.lines().collect(), now.lines().collect());
    let gone = old.difference(&new).map(|line| format!("- {line}"));
    let added = new.difference(&old).map(|line| format!("+ {line}"));
    let changes: Vec<String> = gone.chain(added).collect();
    let changes = changes.join("\n");
    Err(format!(
        "what `{name}` offers is not what docs/public-api/{name}.txt says:\n{changes}\n\
         if that is meant, run `HAFT_UPDATE=1 just public-api`, and say it in the changelog"
    ))
}

/// Has rustdoc describe a crate; where the description is.
fn describe(name: &str) -> Result<PathBuf, String> {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    // What is built with `RUSTC_BOOTSTRAP` is not what the other steps build, and in their directory
    // each would build everything anew after the other.
    let target = env::var_os("CARGO_TARGET_DIR");
    let target = target.map_or_else(|| Path::new(ROOT).join("target"), PathBuf::from);
    let target = target.join("public-api");
    let status = Command::new(cargo)
        .current_dir(ROOT)
        .args([
            "rustdoc",
            "--package",
            name,
            "--lib",
            "--locked",
            "--quiet",
            "--",
        ])
        .args(["-Z", "unstable-options", "--output-format", "json"])
        // The form is versioned, and the reader refuses one it does not know.
        .env("CARGO_TARGET_DIR", &target)
        .env("RUSTC_BOOTSTRAP", name.replace('-', "_"))
        .env_remove("RUSTDOCFLAGS")
        .status()
        .map_err(|error| format!("cargo could not be started: {error}"))?;
    if !status.success() {
        return Err(format!("rustdoc could not describe `{name}`"));
    }
    Ok(target.join(format!("doc/{}.json", name.replace('-', "_"))))
}
