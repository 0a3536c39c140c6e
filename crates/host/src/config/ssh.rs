//! `[ssh]` and `[ssh.NAME]` of `haft.toml`: a workspace on another machine.
//!
//! Rules, the record and approvals stay on this machine; only what tools touch is remote. Nothing
//! here can weaken the connection: host keys are always checked and nothing is forwarded.

use std::{path::PathBuf, time::Duration};

use haft_backends::ssh::{Destination, SshOptions};
use haft_sandbox::{helper::Helper, jail::Mounts};

use super::{
    file::{Reader, Table},
    remote::remote_options,
    sandbox::SandboxSettings,
};

pub(super) const KEYS: [&str; 9] = [
    "destination",
    "root",
    "port",
    "identity_file",
    "known_hosts_file",
    "config_file",
    "connect_timeout",
    "keepalive",
    "helper",
];

/// The keys of `[ssh]`.
#[derive(Debug, Clone, PartialEq)]
pub struct SshSettings {
    /// The host and user to connect to.
    pub destination: Destination,
    /// The workspace directory on that machine.
    pub root: String,
    port: Option<u16>,
    identity_file: Option<PathBuf>,
    known_hosts_file: Option<PathBuf>,
    config_file: Option<PathBuf>,
    connect_timeout: Option<Duration>,
    keepalive: Option<Duration>,
    helper: Option<PathBuf>,
}

impl SshSettings {
    /// The options of the back end, including those from `[sandbox]` and `[workspace]`.
    pub fn options(&self, sandbox: &SandboxSettings, cross_mounts: Mounts) -> SshOptions {
        let mut options = SshOptions::new(self.destination.clone());
        options.port = self.port;
        options.identity_file.clone_from(&self.identity_file);
        options.known_hosts_file.clone_from(&self.known_hosts_file);
        options.config_file.clone_from(&self.config_file);
        options.connect_timeout = self.connect_timeout.unwrap_or(options.connect_timeout);
        options.keepalive = self.keepalive.unwrap_or(options.keepalive);
        options.helper = self
            .helper
            .clone()
            .map_or_else(Helper::default, Helper::Path);
        options.remote = remote_options(sandbox, cross_mounts);
        options
    }
}

impl Reader<'_> {
    /// Reads `[ssh]` or `[ssh.NAME]`.
    pub(super) fn ssh(&mut self, table: &Table<'_>, title: &str, at: usize) -> Option<SshSettings> {
        self.known_keys(table, title, &KEYS);
        let destination = match self.text(table, "destination") {
            None => {
                self.problem(
                    at,
                    format!("{title} does not say where to connect"),
                    "write `destination = \"user@host\"`",
                );
                None
            }
            Some((at, text)) => match Destination::parse(&text) {
                Ok(destination) => Some(destination),
                Err(error) => {
                    self.problem(
                        at,
                        error.to_string(),
                        "write \"user@host\" or an alias of ~/.ssh/config; set the port with `port`",
                    );
                    None
                }
            },
        };
        let root = self.text(table, "root").map(|(_, root)| root);
        if root.is_none() {
            self.problem(
                at,
                format!("{title} does not name the workspace directory"),
                "write `root = \"/srv/app\"`, or \"~/app\" for one in the remote home directory",
            );
        }
        Some(SshSettings {
            port: self.remote_number(table, "port", u64::from(u16::MAX), |port| {
                u16::try_from(port).ok()
            }),
            identity_file: self.remote_file(table, "identity_file"),
            known_hosts_file: self.remote_file(table, "known_hosts_file"),
            config_file: self.remote_file(table, "config_file"),
            connect_timeout: self.remote_seconds(table, "connect_timeout"),
            keepalive: self.remote_seconds(table, "keepalive"),
            helper: self.remote_file(table, "helper"),
            destination: destination?,
            root: root?,
        })
    }
}

#[cfg(test)]
mod tests {
    use haft_backends::remote::Toolchains;
    use haft_policy::PolicySource;

    use super::*;
    use crate::config::{backends::Elsewhere, file};

    fn ssh_of(file: file::ConfigFile) -> Option<SshSettings> {
        match file.backends.get(&file.backends.default_backend()) {
            Some(Elsewhere::Ssh(ssh)) => Some(ssh.clone()),
            Some(Elsewhere::Docker(_)) | None => None,
        }
    }

    fn read(text: &str) -> Result<Option<SshSettings>, String> {
        let parsed = file::parse(&PolicySource::new("haft.toml", text));
        parsed.map(ssh_of).map_err(|problems| {
            let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
            lines.join("\n")
        })
    }

    #[test]
    fn a_workspace_on_another_machine() {
        let text = "[ssh]\ndestination = \"me@build\"\nroot = \"~/app\"\nport = 2222\n\
                    connect_timeout = 5\nidentity_file = \"/home/me/key\"\n";
        let ssh = read(text).unwrap().unwrap();
        let options = ssh.options(&SandboxSettings::default(), Mounts::Refuse);
        assert_eq!(ssh.root, "~/app");
        assert_eq!(options.destination.as_str(), "me@build");
        assert_eq!(options.port, Some(2222));
        assert_eq!(options.connect_timeout, Duration::from_secs(5));
        assert_eq!(options.identity_file, Some("/home/me/key".into()));
        assert_eq!(read("").unwrap(), None);
    }

    #[test]
    fn limits_of_commands_hold_over_there_too() {
        let text = "[ssh]\ndestination = \"build\"\nroot = \"/srv\"\n[sandbox]\nhome = \"off\"\n\
                    [sandbox.limits]\nprocesses = 10\nmemory_mib = 5\n";
        let parsed = file::parse(&PolicySource::new("haft.toml", text)).unwrap();
        let ssh = ssh_of(parsed.clone()).unwrap();
        let options = ssh.options(&parsed.sandbox, Mounts::Refuse);
        let sandbox = options.remote.sandbox;
        assert_eq!(sandbox.toolchains, Toolchains::None);
        assert_eq!(sandbox.limits.processes, Some(10));
        assert_eq!(sandbox.limits.memory_bytes, Some(5 << 20));
        assert_eq!(sandbox.limits.open_files, None);
    }

    #[test]
    fn what_is_missing_or_cannot_be_is_told_with_its_line() {
        let check = |text: &str, expect: &str| {
            let problems = read(text).unwrap_err();
            assert!(problems.contains(expect), "{text}: {problems}");
        };
        check("[ssh]\nroot = \"/srv\"\n", "does not say where to connect");
        check(
            "[ssh]\ndestination = \"h\"\n",
            "does not name the workspace directory",
        );
        check(
            "[ssh]\ndestination = \"-oProxyCommand=x\"\nroot = \"/srv\"\n",
            "haft.toml:2:15: `-oProxyCommand=x` is not an SSH destination",
        );
        check(
            "[ssh]\ndestination = \"h\"\nroot = \"/srv\"\nport = 70000\n",
            "haft.toml:4:8: `port` must be a number from 1 to 65535",
        );
        check(
            "[ssh]\ndestination = \"h\"\nroot = \"/srv\"\nidentity_file = \"key\"\n",
            "must be an absolute path",
        );
        check(
            "[ssh]\ndestination = \"h\"\nroot = \"/srv\"\nhost = \"x\"\n",
            "unknown key `host` in [ssh]",
        );
    }
}
