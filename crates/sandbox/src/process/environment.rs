//! The environment of a child, built from empty. Nothing of the parent's environment gets in, so it
//! cannot leak a secret.
//!
//! A call may add variables, but none that changes how other programs find, load or run code: a
//! plan that was approved as `ls` must not run something else. Where Haft sets a value itself
//! (`PATH`, `HOME`, pagers), that value wins.

use std::{collections::BTreeMap, ffi::CString};

use haft_contract::{ErrorKind, ops::OpsError};

use super::ProcessOptions;

/// The most variables a call may add.
const MAX_VARIABLES: usize = 256;

/// The longest name of a variable, in bytes.
const MAX_NAME_BYTES: usize = 256;

/// The longest value, in bytes; the kernel accepts twice that for name and value together.
const MAX_VALUE_BYTES: usize = 64 * 1024;

/// The most bytes of all added variables together.
const MAX_TOTAL_BYTES: usize = 512 * 1024;

/// The variable that marks every process of one tree, so that a stop also finds those that left the
/// session.
pub(super) const TREE_MARK: &str = "HAFT_PROCESS_TREE";

/// The environment of one child, as `NAME=value` strings.
pub(super) fn build(
    options: &ProcessOptions,
    added: &BTreeMap<String, String>,
    mark: &str,
) -> Result<Vec<CString>, OpsError> {
    variables(options, added, mark)?
        .into_iter()
        .map(|(name, value)| {
            CString::new(format!("{name}={value}")).map_err(|_| {
                refuse(
                    ErrorKind::InvalidInput,
                    format!("the value of variable `{name}` holds a NUL byte"),
                )
            })
        })
        .collect()
}

/// The environment of one child.
pub(super) fn variables<'a>(
    options: &'a ProcessOptions,
    added: &'a BTreeMap<String, String>,
    mark: &'a str,
) -> Result<BTreeMap<&'a str, &'a str>, OpsError> {
    check_sizes(added)?;
    let mut variables = BTreeMap::new();
    for (name, value) in added {
        check_name(name)?;
        if value.contains('\0') {
            return Err(refuse(
                ErrorKind::InvalidInput,
                format!("the value of variable `{name}` holds a NUL byte"),
            ));
        }
        if !ours(name) {
            variables.insert(name.as_str(), value.as_str());
        }
    }
    for (name, value) in FIXED {
        variables.insert(name, value);
    }
    // The operator's variables are trusted and win.
    for (name, value) in &options.environment {
        variables.insert(name.as_str(), value.as_str());
    }
    variables.insert("PATH", &options.search_path);
    variables.insert("HOME", &options.home);
    variables.insert("TMPDIR", &options.temporary);
    variables.insert("USER", &options.user);
    variables.insert("LOGNAME", &options.user);
    variables.insert(TREE_MARK, mark);
    Ok(variables)
}

/// What every child gets. Programs that would wait for a person fail at once instead, and git
/// accepts no directory as a repository just because it looks like one: a crafted one could name
/// programs to run.
const FIXED: [(&str, &str); 19] = [
    ("LANG", "C.UTF-8"),
    ("LC_ALL", "C.UTF-8"),
    ("TERM", "dumb"),
    ("NO_COLOR", "1"),
    ("SHELL", "/bin/bash"),
    ("PAGER", "cat"),
    ("GIT_PAGER", "cat"),
    ("MANPAGER", "cat"),
    ("SYSTEMD_PAGER", "cat"),
    ("EDITOR", "false"),
    ("VISUAL", "false"),
    ("GIT_EDITOR", "false"),
    ("BROWSER", "false"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_ASKPASS", "false"),
    ("SSH_ASKPASS", "false"),
    ("GIT_CONFIG_COUNT", "1"),
    ("GIT_CONFIG_KEY_0", "safe.bareRepository"),
    ("GIT_CONFIG_VALUE_0", "explicit"),
];

/// Names whose value Haft sets, whatever a call says.
fn ours(name: &str) -> bool {
    const NAMES: [&str; 9] = [
        "PATH", "HOME", "TMPDIR", "TMP", "TEMP", "USER", "LOGNAME", "PWD", "OLDPWD",
    ];
    NAMES.contains(&name)
        || name.starts_with("XDG_")
        || FIXED.iter().any(|(fixed, _)| *fixed == name)
}

/// Refuses an invalid name, and names that make other programs load or run code, send traffic
/// elsewhere or trust other certificates.
fn check_name(name: &str) -> Result<(), OpsError> {
    let is_name = !name.is_empty()
        && name.len() <= MAX_NAME_BYTES
        && !name.starts_with(|first: char| first.is_ascii_digit())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if !is_name {
        return Err(refuse(
            ErrorKind::InvalidInput,
            format!(
                "`{}` is not a name for a variable; use letters, digits and `_`",
                name.escape_debug().take(64).collect::<String>()
            ),
        ));
    }
    // A name Haft sets is silently left out, but a call that sets git's configuration gets an
    // error.
    let left_out = ours(name) && !name.starts_with("GIT_CONFIG_");
    if !left_out && steers_code(&name.to_ascii_uppercase()) {
        return Err(refuse(
            ErrorKind::InvalidInput,
            format!(
                "the variable `{name}` may not be set: it changes how other programs load code, \
                 run code or connect; the operator can set it in the configuration"
            ),
        ));
    }
    Ok(())
}

/// Expects upper case: proxies and npm's configuration are read in either case.
fn steers_code(name: &str) -> bool {
    const PREFIXES: [&str; 24] = [
        "LD_",
        "DYLD_",
        "BASH_",
        "GIT_",
        "PYTHON",
        "PERL",
        "RUBY",
        "GEM_",
        "BUNDLE_",
        "NODE_",
        "NPM_CONFIG_",
        "YARN_",
        "JAVA_",
        "_JAVA_",
        "JDK_JAVA_",
        "DOTNET_",
        "CORECLR_",
        "CARGO_",
        "RUSTC",
        "RUSTDOC",
        "RUSTUP_",
        "LUA_",
        "MALLOC_",
        "HAFT_",
    ];
    const SUFFIXES: [&str; 5] = ["_PROXY", "_BASE_URL", "_API_BASE", "_ASKPASS", "_CA_BUNDLE"];
    const NAMES: [&str; 41] = [
        "ENV",
        "PS0",
        "PS1",
        "PS2",
        "PS4",
        "SHELLOPTS",
        "BASHOPTS",
        "PROMPT_COMMAND",
        "IFS",
        "CDPATH",
        "GLOBIGNORE",
        "FPATH",
        "ZDOTDIR",
        "INPUTRC",
        "GLIBC_TUNABLES",
        "GCONV_PATH",
        "LOCPATH",
        "NLSPATH",
        "TERMINFO",
        "TERMCAP",
        "HOSTALIASES",
        "RES_OPTIONS",
        "LESS",
        "LESSOPEN",
        "LESSCLOSE",
        "MAKEFLAGS",
        "MFLAGS",
        "MAKEFILES",
        "GNUMAKEFLAGS",
        "GOFLAGS",
        "GOTOOLCHAIN",
        "GOPROXY",
        "MAVEN_OPTS",
        "GRADLE_OPTS",
        "CLASSPATH",
        "PHPRC",
        "PHP_INI_SCAN_DIR",
        "RIPGREP_CONFIG_PATH",
        "SSL_CERT_FILE",
        "SSL_CERT_DIR",
        "SSH_AUTH_SOCK",
    ];
    NAMES.contains(&name)
        || PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        || SUFFIXES.iter().any(|suffix| name.ends_with(suffix))
}

fn check_sizes(added: &BTreeMap<String, String>) -> Result<(), OpsError> {
    if added.len() > MAX_VARIABLES {
        return Err(refuse(
            ErrorKind::LimitExceeded,
            format!("more than {MAX_VARIABLES} variables"),
        ));
    }
    let mut total = 0;
    for (name, value) in added {
        if value.len() > MAX_VALUE_BYTES {
            return Err(refuse(
                ErrorKind::LimitExceeded,
                format!(
                    "the value of variable `{}` is longer than {MAX_VALUE_BYTES} bytes",
                    name.escape_debug().take(64).collect::<String>()
                ),
            ));
        }
        total += name.len() + value.len();
    }
    if total > MAX_TOTAL_BYTES {
        return Err(refuse(
            ErrorKind::LimitExceeded,
            format!("the variables take more than {MAX_TOTAL_BYTES} bytes together"),
        ));
    }
    Ok(())
}

fn refuse(kind: ErrorKind, message: String) -> OpsError {
    OpsError::new(kind, message)
}
