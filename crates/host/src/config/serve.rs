//! `[serve]` of `haft.toml`: where `haft serve` listens, the names it answers to, its caps, and the
//! directories it serves. Only your own file has it: what a repository says is never served to anybody.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
};

use haft_contract::TenantId;

use super::{
    file::{Reader, Table, Value},
    resolve::ConfigPlaces,
};
use crate::error::HostError;

/// The table, as it is called in messages.
const SECTION: &str = "[serve]";

/// The most directories that are served.
const MAX_WORKSPACES: usize = 10_000;

/// The longest name of a workspace.
const MAX_NAME: usize = 64;

/// The caps, each above 0.
pub const SERVE_CAPS: [&str; 5] = [
    "body_bytes",
    "streams",
    "streams_per_credential",
    "requests_per_second",
    "burst",
];

/// `[serve]`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServeSettings {
    /// Where to listen.
    pub listen: Option<SocketAddr>,
    /// The names by which people and programs call the server, in lower case.
    pub names: Vec<String>,
    /// The caps that are set.
    pub caps: Vec<(&'static str, u64)>,
    /// The directories to serve, in the order in which they are written.
    pub workspaces: Vec<ServedDirectory>,
}

/// A directory to serve.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServedDirectory {
    /// Whose it is.
    pub tenant: TenantId,
    /// What people call it.
    pub name: String,
    /// Where it is.
    pub path: PathBuf,
}

impl ServeSettings {
    /// Whether nothing is set.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// A cap, if it is set.
    pub fn cap(&self, name: &str) -> Option<u64> {
        let found = self.caps.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| *value)
    }
}

impl ConfigPlaces {
    /// Takes over `[serve]` of a file, which only the operator's own may have.
    pub(super) fn join_serve(
        &self,
        serve: &mut ServeSettings,
        of_file: ServeSettings,
        path: &Path,
    ) -> Result<(), HostError> {
        if of_file.is_empty() {
            return Ok(());
        }
        if *path == self.project_config && self.only_config.is_none() {
            return Err(HostError::config(
                format!("`{}` has [serve]", self.name_of(path)),
                "put [serve] into your own haft.toml: what a workspace's file says is never served",
            ));
        }
        *serve = of_file;
        Ok(())
    }
}

impl Reader<'_> {
    /// Reads `[serve]`.
    pub(super) fn serve(&mut self, table: &Table<'_>) -> ServeSettings {
        let keys = [&["listen", "names", "workspaces"][..], &SERVE_CAPS].concat();
        self.known_keys(table, SECTION, &keys);
        let caps = SERVE_CAPS.into_iter();
        ServeSettings {
            listen: table
                .get("listen")
                .and_then(|value| self.listen_address(value)),
            names: table
                .get("names")
                .map_or_else(Vec::new, |value| self.served_names(value)),
            caps: caps
                .filter_map(|name| Some((name, self.number(table, name)?)))
                .collect(),
            workspaces: table
                .get("workspaces")
                .map_or_else(Vec::new, |value| self.served(value)),
        }
    }

    fn listen_address(&mut self, value: &Value<'_>) -> Option<SocketAddr> {
        let text = value.get_ref().as_str().unwrap_or_default();
        let address = text.parse().ok();
        if address.is_none() {
            self.problem(
                value.span().start,
                "`listen` must be an address and a port",
                "write `listen = \"127.0.0.1:8930\"`",
            );
        }
        address
    }

    fn served_names(&mut self, value: &Value<'_>) -> Vec<String> {
        let written = value.get_ref().as_array().into_iter().flatten();
        let names: Option<Vec<String>> = written
            .map(|name| {
                let name = name.get_ref().as_str()?.to_ascii_lowercase();
                let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | ':');
                (!name.is_empty() && name.chars().all(fits)).then_some(name)
            })
            .collect();
        if value.get_ref().as_array().is_none() || names.is_none() {
            self.problem(
                value.span().start,
                "`names` must be a list of host names",
                "write `names = [\"haft.example.com\"]`",
            );
        }
        names.unwrap_or_default()
    }

    fn served(&mut self, value: &Value<'_>) -> Vec<ServedDirectory> {
        let Some(entries) = value.get_ref().as_array() else {
            self.problem(
                value.span().start,
                "`workspaces` must be a list of tables",
                "write [[serve.workspaces]] and `path` below",
            );
            return Vec::new();
        };
        let mut served: Vec<ServedDirectory> = Vec::new();
        for entry in entries.iter().take(MAX_WORKSPACES + 1) {
            let at = entry.span().start;
            let Some(directory) = self.served_directory(entry) else {
                continue;
            };
            let is_taken = |known: &ServedDirectory| {
                known.tenant == directory.tenant && known.name == directory.name
            };
            if served.iter().any(is_taken) {
                let message = format!(
                    "two workspaces of one tenant are called `{}`",
                    directory.name
                );
                self.problem(at, message, "give each a `name` of its own");
            }
            served.push(directory);
        }
        if served.len() > MAX_WORKSPACES {
            self.problem(
                value.span().start,
                format!("more than {MAX_WORKSPACES} workspaces"),
                "serve the others from another process",
            );
        }
        served
    }

    fn served_directory(&mut self, entry: &Value<'_>) -> Option<ServedDirectory> {
        let at = entry.span().start;
        let Some(table) = entry.get_ref().as_table() else {
            self.problem(
                at,
                "an entry of `workspaces` must be a table",
                "write [[serve.workspaces]] and `path` below",
            );
            return None;
        };
        self.known_keys(table, "[[serve.workspaces]]", &["tenant", "name", "path"]);
        let text = |key: &str| table.get(key).and_then(|value| value.get_ref().as_str());
        let path = text("path").map(PathBuf::from);
        let Some(path) = path.filter(|path| path.is_absolute()) else {
            self.problem(
                at,
                "a workspace without an absolute `path`",
                "write `path = \"/srv/app\"`",
            );
            return None;
        };
        let tenant = text("tenant").map_or(Ok(TenantId::local()), TenantId::parse);
        let tenant = match tenant {
            Ok(tenant) => tenant,
            Err(error) => {
                self.problem(at, error.to_string(), "choose a plainer name for `tenant`");
                return None;
            }
        };
        let last = path
            .file_name()
            .map(|name| name.to_string_lossy().into_owned());
        let name = text("name").map(str::to_owned).or(last).unwrap_or_default();
        let is_plain = !name.is_empty()
            && name.chars().count() <= MAX_NAME
            && !name.chars().any(|c| c.is_control() || c == '/');
        if !is_plain {
            self.problem(
                at,
                format!("a workspace's name has 1 to {MAX_NAME} characters and no `/`"),
                "write `name = \"app\"`",
            );
            return None;
        }
        Some(ServedDirectory { tenant, name, path })
    }
}

#[cfg(test)]
mod tests {
    use haft_policy::PolicySource;

    use super::{super::file::parse, *};

    fn serve(text: &str) -> ServeSettings {
        parse(&PolicySource::new("haft.toml", text)).unwrap().serve
    }

    #[test]
    fn directories_are_served_under_their_own_name_unless_they_have_another() {
        let settings = serve(
            "[serve]\nlisten = \"[::1]:9\"\nnames = [\"Haft.Example\"]\nburst = 5\n\
             [[serve.workspaces]]\npath = \"/srv/app\"\n\
             [[serve.workspaces]]\npath = \"/srv/app2\"\nname = \"app\"\ntenant = \"acme\"\n",
        );
        assert_eq!(settings.listen, "[::1]:9".parse().ok());
        assert_eq!(settings.names, ["haft.example"]);
        assert_eq!(
            (settings.cap("burst"), settings.cap("streams")),
            (Some(5), None)
        );
        let shown: Vec<_> = settings
            .workspaces
            .iter()
            .map(|one| (one.tenant.as_str(), one.name.as_str()))
            .collect();
        assert_eq!(shown, [("local", "app"), ("acme", "app")]);
    }

    #[test]
    fn what_cannot_be_served_is_named() {
        for (text, said) in [
            ("[serve]\nlisten = \"8930\"\n", "an address and a port"),
            ("[serve]\nlisten = 8930\n", "an address and a port"),
            ("[serve]\nnames = \"x\"\n", "a list of host names"),
            ("[serve]\nnames = [\"a b\"]\n", "a list of host names"),
            ("[serve]\nstreams = 0\n", "above 0"),
            ("[serve]\nport = 1\n", "unknown key `port`"),
            ("[serve]\nworkspaces = 1\n", "a list of tables"),
            ("[[serve.workspaces]]\npath = \"app\"\n", "absolute `path`"),
            ("[[serve.workspaces]]\nname = \"app\"\n", "absolute `path`"),
            (
                "[[serve.workspaces]]\npath = \"/a\"\ntenant = \"a b\"\n",
                "not an identifier",
            ),
            (
                "[[serve.workspaces]]\npath = \"/a\"\nname = \"a/b\"\n",
                "no `/`",
            ),
            (
                "[[serve.workspaces]]\npath = \"/a/x\"\n[[serve.workspaces]]\npath = \"/b/x\"\n",
                "two workspaces",
            ),
        ] {
            let problems = parse(&PolicySource::new("haft.toml", text)).unwrap_err();
            let said_so = problems
                .iter()
                .any(|problem| problem.to_string().contains(said));
            assert!(said_so, "{text}: {problems:?}");
        }
    }
}
