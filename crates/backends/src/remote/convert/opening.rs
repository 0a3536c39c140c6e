//! Opening a workspace: from options to the message, and from the message to a back end's options.

use std::{path::PathBuf, time::Duration};

use haft_sandbox::{Limits, Profile, SandboxOptions, helper::Helper, jail::Mounts};

use crate::{
    local::LocalOptions,
    remote::{Account, RemoteLimits, RemoteOptions, RemoteSandbox, Toolchains, wire},
};

/// The message that opens a workspace.
pub(crate) fn open_to_wire(root: &str, options: RemoteOptions) -> wire::OpenWorkspace {
    wire::OpenWorkspace {
        protocol: wire::PROTOCOL,
        root: root.to_owned(),
        cross_mounts: options.cross_mounts == Mounts::Cross,
        search_path: options.search_path,
        home: options.home,
        temporary: options.temporary,
        user: options.user,
        environment: options.environment,
        sandbox: options.sandbox.into(),
    }
}

/// The options of the back end that serves it. This program itself confines children.
pub(crate) fn options_from_wire(open: wire::OpenWorkspace, account: Account) -> LocalOptions {
    let default = LocalOptions::default();
    let sandbox = RemoteSandbox::from(open.sandbox);
    let paths = |texts: Vec<String>| texts.into_iter().map(PathBuf::from).collect();
    LocalOptions {
        cross_mounts: if open.cross_mounts {
            Mounts::Cross
        } else {
            Mounts::Refuse
        },
        search_path: open.search_path.unwrap_or(default.search_path),
        temporary: open.temporary.unwrap_or(default.temporary),
        user: open.user.or(account.user).unwrap_or(default.user),
        environment: open.environment,
        sandbox: SandboxOptions {
            helper: Helper::CurrentExecutable,
            profile: Profile {
                home: match sandbox.toolchains {
                    Toolchains::OfTheAccount => account.home.clone().map(PathBuf::from),
                    Toolchains::None => None,
                    Toolchains::In(home) => Some(PathBuf::from(home)),
                },
                read_only: paths(sandbox.read_only),
                writable: paths(sandbox.writable),
                ..default.sandbox.profile
            },
            limits: sandbox.limits.over(&Limits::for_this_machine()),
            runtime: account.runtime.map(PathBuf::from),
            ..default.sandbox
        },
        home: open.home.or(account.home).unwrap_or(default.home),
        // Kept content is where Haft runs, not where the workspace is.
        changes: None,
    }
}

impl From<RemoteSandbox> for wire::Sandbox {
    fn from(sandbox: RemoteSandbox) -> Self {
        Self {
            read_only: sandbox.read_only,
            writable: sandbox.writable,
            toolchains: match sandbox.toolchains {
                Toolchains::OfTheAccount => wire::Toolchains::Account,
                Toolchains::None => wire::Toolchains::None,
                Toolchains::In(home) => wire::Toolchains::In(home),
            },
            processes: sandbox.limits.processes,
            memory_bytes: sandbox.limits.memory_bytes,
            cpu_seconds: sandbox.limits.cpu_time.map(|time| time.as_secs()),
            cpu_weight: sandbox.limits.cpu_weight,
            cpu_percent: sandbox.limits.cpu_percent,
            file_bytes: sandbox.limits.file_bytes,
            open_files: sandbox.limits.open_files,
            tmp_bytes: sandbox.limits.tmp_bytes,
        }
    }
}

impl From<wire::Sandbox> for RemoteSandbox {
    fn from(sandbox: wire::Sandbox) -> Self {
        Self {
            read_only: sandbox.read_only,
            writable: sandbox.writable,
            toolchains: match sandbox.toolchains {
                wire::Toolchains::Account => Toolchains::OfTheAccount,
                wire::Toolchains::None => Toolchains::None,
                wire::Toolchains::In(home) => Toolchains::In(home),
            },
            limits: RemoteLimits {
                processes: sandbox.processes,
                memory_bytes: sandbox.memory_bytes,
                cpu_time: sandbox.cpu_seconds.map(Duration::from_secs),
                cpu_weight: sandbox.cpu_weight,
                cpu_percent: sandbox.cpu_percent,
                file_bytes: sandbox.file_bytes,
                open_files: sandbox.open_files,
                tmp_bytes: sandbox.tmp_bytes,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_operator_set_arrives_and_the_rest_is_the_machines() {
        let limits = RemoteLimits {
            memory_bytes: Some(1 << 20),
            cpu_time: Some(Duration::from_secs(7)),
            ..RemoteLimits::default()
        };
        let options = RemoteOptions {
            cross_mounts: Mounts::Cross,
            sandbox: RemoteSandbox {
                read_only: vec!["/opt".to_owned()],
                toolchains: Toolchains::None,
                limits,
                ..RemoteSandbox::default()
            },
            ..RemoteOptions::default()
        };
        let text = serde_json::to_vec(&open_to_wire("/srv", options)).unwrap();
        let account = Account {
            home: Some("/home/me".to_owned()),
            user: Some("me".to_owned()),
            runtime: Some("/run/user/7".to_owned()),
        };
        let got = options_from_wire(serde_json::from_slice(&text).unwrap(), account);
        assert_eq!(got.cross_mounts, Mounts::Cross);
        assert_eq!((got.home.as_str(), got.user.as_str()), ("/home/me", "me"));
        assert_eq!(got.sandbox.profile.read_only, [PathBuf::from("/opt")]);
        assert_eq!(got.sandbox.profile.home, None);
        assert_eq!(got.sandbox.runtime, Some(PathBuf::from("/run/user/7")));
        let machine = Limits::for_this_machine();
        assert_eq!(
            got.sandbox.limits,
            Limits {
                memory_bytes: 1 << 20,
                cpu_time: Duration::from_secs(7),
                ..machine
            }
        );
    }
}
