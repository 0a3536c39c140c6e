//! Names that no tool may write, whatever the rules say: what a shell, git, an editor, a package
//! manager, an agent or Haft itself would run or obey later. This is the only such list: policy
//! denies what is on it, and a back end uses it to recognise other spellings where a directory
//! ignores case.
//!
//! This module compares spellings only; it never looks at a disk. A name is on the list if a file
//! of that name takes effect without anybody choosing to run it, so build files are not.

use std::fmt;

/// A protected name. Covers the name itself and everything beneath it, at any depth of the
/// workspace, whether it exists or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProtectedName {
    /// Its components, usually one. ASCII, so that a spelling can be compared without case.
    pub components: &'static [&'static str],
    /// Why it is protected, phrased as the end of a sentence that names the path.
    pub reason: &'static str,
}

const GIT: &str = "git runs programs named in files here";
const SHELL: &str = "a shell runs it when it starts or ends";
const SESSION: &str = "the system starts what it names at login";
const EDITOR: &str = "an editor runs or obeys it when it opens the directory";
const DEBUGGER: &str = "a debugger or an interpreter runs it when it starts in the directory";
const HOOKS: &str = "git runs it as a hook once it is installed";
const AGENT: &str = "an agent takes its permissions and servers from it";
const PACKAGES: &str = "a package manager takes its sources, programs and credentials from it";
const CREDENTIALS: &str = "it decides which credentials are used, and where they are sent";
const LOGIN: &str = "it decides who can log in, and what runs when somebody does";
const HAFT: &str = "Haft takes its configuration from it";

/// Every protected name.
pub const PROTECTED_NAMES: &[ProtectedName] = &[
    name(&[".git"], GIT),
    name(&[".gitmodules"], GIT),
    name(&[".gitconfig"], GIT),
    name(&[".config", "git"], GIT),
    name(&[".bashrc"], SHELL),
    name(&[".bash_profile"], SHELL),
    name(&[".bash_login"], SHELL),
    name(&[".bash_logout"], SHELL),
    name(&[".bash_aliases"], SHELL),
    name(&[".profile"], SHELL),
    name(&[".zshrc"], SHELL),
    name(&[".zshenv"], SHELL),
    name(&[".zprofile"], SHELL),
    name(&[".zlogin"], SHELL),
    name(&[".zlogout"], SHELL),
    name(&[".kshrc"], SHELL),
    name(&[".cshrc"], SHELL),
    name(&[".tcshrc"], SHELL),
    name(&[".login"], SHELL),
    name(&[".logout"], SHELL),
    name(&[".envrc"], SHELL),
    name(&[".config", "fish"], SHELL),
    name(&[".xprofile"], SESSION),
    name(&[".xsession"], SESSION),
    name(&[".xsessionrc"], SESSION),
    name(&[".xinitrc"], SESSION),
    name(&[".pam_environment"], SESSION),
    name(&[".config", "autostart"], SESSION),
    name(&[".config", "environment.d"], SESSION),
    name(&[".config", "systemd"], SESSION),
    name(&[".vscode"], EDITOR),
    name(&[".idea"], EDITOR),
    name(&[".zed"], EDITOR),
    name(&[".vimrc"], EDITOR),
    name(&[".exrc"], EDITOR),
    name(&[".nvimrc"], EDITOR),
    name(&[".nvim.lua"], EDITOR),
    name(&[".config", "nvim"], EDITOR),
    name(&[".dir-locals.el"], EDITOR),
    name(&[".devcontainer"], EDITOR),
    name(&[".devcontainer.json"], EDITOR),
    name(&[".gdbinit"], DEBUGGER),
    name(&[".lldbinit"], DEBUGGER),
    name(&[".ghci"], DEBUGGER),
    name(&[".Rprofile"], DEBUGGER),
    name(&[".husky"], HOOKS),
    name(&["mise.toml"], SHELL),
    name(&[".mise.toml"], SHELL),
    name(&[".mcp.json"], AGENT),
    name(&[".claude"], AGENT),
    name(&[".codex"], AGENT),
    name(&[".cursor"], AGENT),
    name(&[".gemini"], AGENT),
    name(&[".windsurf"], AGENT),
    name(&[".continue"], AGENT),
    name(&[".roo"], AGENT),
    name(&[".kiro"], AGENT),
    name(&[".qwen"], AGENT),
    name(&[".pi"], AGENT),
    name(&[".opencode"], AGENT),
    name(&["opencode.json"], AGENT),
    name(&["opencode.jsonc"], AGENT),
    name(&[".aider.conf.yml"], AGENT),
    name(&["AGENTS-policy"], AGENT),
    name(&["AGENTS-policy.md"], AGENT),
    name(&["AGENTS-policy.toml"], AGENT),
    name(&[".npmrc"], PACKAGES),
    name(&[".yarnrc"], PACKAGES),
    name(&[".yarnrc.yml"], PACKAGES),
    name(&[".pypirc"], PACKAGES),
    name(&["pip.conf"], PACKAGES),
    name(&["pip.ini"], PACKAGES),
    name(&[".pip"], PACKAGES),
    name(&[".config", "pip"], PACKAGES),
    name(&[".cargo"], PACKAGES),
    name(&[".gemrc"], PACKAGES),
    name(&[".mvn"], PACKAGES),
    name(&[".bundle"], PACKAGES),
    name(&["bunfig.toml"], PACKAGES),
    name(&[".pnpmfile.cjs"], PACKAGES),
    name(&[".m2"], PACKAGES),
    name(&[".gradle", "init.d"], PACKAGES),
    name(&[".gradle", "init.gradle"], PACKAGES),
    name(&[".gradle", "gradle.properties"], PACKAGES),
    name(&[".netrc"], CREDENTIALS),
    name(&["_netrc"], CREDENTIALS),
    name(&[".git-credentials"], CREDENTIALS),
    name(&[".pgpass"], CREDENTIALS),
    name(&[".aws"], CREDENTIALS),
    name(&[".kube"], CREDENTIALS),
    name(&[".gnupg"], CREDENTIALS),
    name(&[".docker", "config.json"], CREDENTIALS),
    name(&[".ssh"], LOGIN),
    name(&["haft.toml"], HAFT),
    name(&[".haft"], HAFT),
    name(&[".config", "haft"], HAFT),
];

/// For each byte, the lengths that the first components beginning with it have, as a set of bits.
/// Almost no component of a path begins like a name and is as long, so almost none is compared with
/// the list, and every word of every command is asked about.
static LENGTHS_BY_FIRST_BYTE: [u64; 256] = lengths_by_first_byte();

/// The protected name in this path, in exactly this spelling.
pub fn protected_name(path: &str) -> Option<&'static ProtectedName> {
    if !path.split('/').any(may_begin_a_name) {
        return None;
    }
    let components: Vec<&str> = path.split('/').collect();
    protected_name_where(&components, |component, name| *component == name)
}

/// The protected name in these components, where `same` says whether a component equals a name.
pub fn protected_name_where<C>(
    components: &[C],
    same: impl Fn(&C, &str) -> bool,
) -> Option<&'static ProtectedName> {
    (0..components.len())
        .filter_map(|start| components.get(start..))
        .find_map(|rest| {
            PROTECTED_NAMES.iter().find(|name| {
                name.components.len() <= rest.len()
                    && name
                        .components
                        .iter()
                        .zip(rest)
                        .all(|(name, component)| same(component, name))
            })
        })
}

impl fmt::Display for ProtectedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.components.join("/"))
    }
}

/// Whether a component begins like the first one of a protected name, and is as long.
fn may_begin_a_name(component: &str) -> bool {
    let first = component.bytes().next().map(usize::from);
    let lengths = first.and_then(|first| LENGTHS_BY_FIRST_BYTE.get(first));
    lengths.is_some_and(|lengths| lengths & length_bit(component) != 0)
}

const fn name(components: &'static [&'static str], reason: &'static str) -> ProtectedName {
    ProtectedName { components, reason }
}

#[expect(
    clippy::indexing_slicing,
    reason = "runs when it is compiled, where an index that is too large is an error"
)]
const fn lengths_by_first_byte() -> [u64; 256] {
    let mut lengths = [0; 256];
    let mut place = 0;
    while place < PROTECTED_NAMES.len() {
        let component = PROTECTED_NAMES[place].components[0];
        lengths[component.as_bytes()[0] as usize] |= length_bit(component);
        place += 1;
    }
    lengths
}

/// The bit of a length; all long ones share the last.
const fn length_bit(component: &str) -> u64 {
    let longest = u64::BITS as usize - 1;
    let length = component.len();
    1 << if length < longest { length } else { longest }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(path: &str, expect: Option<&str>) {
        let found = protected_name(path).map(ToString::to_string);
        assert_eq!(found.as_deref(), expect, "{path}");
    }

    #[test]
    fn protection_is_by_whole_components_at_any_depth() {
        check(".git", Some(".git"));
        check(".git/objects/info/alternates", Some(".git"));
        check("sub/.git/config", Some(".git"));
        check("home/.ssh/authorized_keys", Some(".ssh"));
        check("home/.config/git/config", Some(".config/git"));
        check(".idea", Some(".idea"));
        check(".github/workflows/ci.yml", None);
        check(".gitignore", None);
        check(".config/nextest.toml", None);
        check("config/git", None);
        check(".config", None);
        check("docs/bashrc", None);
        check(".Git/hooks/x", None);
        check(".", None);
    }

    #[test]
    fn every_name_is_found_beneath_another_directory() {
        for name in PROTECTED_NAMES {
            let found = protected_name(&format!("some/place/{name}/beneath"));
            assert!(found.is_some(), "{name}");
        }
    }

    #[test]
    fn every_name_can_be_compared_without_case() {
        for name in PROTECTED_NAMES {
            assert!(!name.components.is_empty());
            assert!(name.components.iter().all(|part| part.is_ascii()), "{name}");
        }
    }
}
