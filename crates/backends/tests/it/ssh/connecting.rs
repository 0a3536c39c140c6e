//! Getting there: the upload of the helper, and every way in which a connection is refused.

use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::Path,
};

use haft_backends::ssh::{Destination, SshBackend, SshOptions};
use haft_contract::ops::Tier;
use haft_sandbox::helper::Helper;

use super::server::SshServer;
use crate::workspace::{Workspace, at};

/// Connecting fails with these words, and nothing was left on the other side.
async fn refused(server: &SshServer, options: SshOptions, message: &str, hint: &str) {
    let error = SshBackend::connect(options, "/").await.unwrap_err();
    assert!(error.message().contains(message), "{error}");
    assert!(
        error.hint_text().unwrap_or_default().contains(hint),
        "{error}"
    );
    assert!(!server.home().join(".cache").exists());
}

#[tokio::test]
#[ignore = "ci: needs OpenSSH"]
async fn the_helper_is_uploaded_once_and_is_the_accounts_alone() {
    let server = SshServer::start();
    let ws = Workspace::new();
    ws.put("hello.txt", "hello");
    let root = ws.root.to_str().unwrap();
    let operations = SshBackend::connect(server.options(), root).await.unwrap();
    assert_eq!(operations.backend.as_str(), "ssh:127.0.0.1");
    assert_eq!(&*operations.root, root);
    assert!(operations.tiers.contains(&Tier::Host));
    let stat = operations.files.stat(&at("hello.txt")).await.unwrap();
    assert_eq!(stat.size, 5);

    let program = Path::new(env!("CARGO_BIN_EXE_haft-helper"));
    let uploaded = server.helper_path(program);
    let first = fs::metadata(&uploaded).unwrap();
    assert_eq!(first.permissions().mode() & 0o7777, 0o700);
    assert!(fs::read(&uploaded).unwrap() == fs::read(program).unwrap());
    let directory = uploaded.parent().unwrap();
    let mode = fs::metadata(directory).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o700);
    let names = || fs::read_dir(directory).unwrap().count();
    assert_eq!(names(), 1, "something was left beside it");

    drop(operations);
    SshBackend::connect(server.options(), root).await.unwrap();
    let second = fs::metadata(&uploaded).unwrap();
    assert_eq!(
        (first.ino(), first.mtime_nsec()),
        (second.ino(), second.mtime_nsec())
    );
    assert_eq!(names(), 1);
}

/// A directory that others may write to is closed to them before anything is put there.
#[tokio::test]
#[ignore = "ci: needs OpenSSH"]
async fn a_directory_open_to_others_is_closed_first() {
    let server = SshServer::start();
    let directory = server.home().join(".cache/haft");
    fs::create_dir_all(&directory).unwrap();
    fs::set_permissions(&directory, fs::Permissions::from_mode(0o777)).unwrap();
    SshBackend::connect(server.options(), "/usr").await.unwrap();
    let mode = fs::metadata(&directory).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o700);
}

/// A symlink in the place of the directory is not followed.
#[tokio::test]
#[ignore = "ci: needs OpenSSH"]
async fn a_link_in_place_of_the_directory_is_refused() {
    let server = SshServer::start();
    fs::create_dir(server.home().join(".cache")).unwrap();
    let elsewhere = server.file("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, server.home().join(".cache/haft")).unwrap();
    let error = SshBackend::connect(server.options(), "/")
        .await
        .unwrap_err();
    assert!(error.message().contains("is not a directory"), "{error}");
    assert_eq!(fs::read_dir(elsewhere).unwrap().count(), 0);
}

#[tokio::test]
#[ignore = "ci: needs OpenSSH"]
async fn a_changed_host_key_is_refused() {
    let server = SshServer::start();
    server.know_host_key("other_key");
    refused(
        &server,
        server.options(),
        "the host key of `127.0.0.1` is not the one that is known",
        "ssh-keygen -R",
    )
    .await;
}

#[tokio::test]
#[ignore = "ci: needs OpenSSH"]
async fn an_unknown_host_key_is_refused_and_not_learnt() {
    let server = SshServer::start();
    fs::write(server.file("known_hosts"), "").unwrap();
    refused(
        &server,
        server.options(),
        "the host key of `127.0.0.1` is not known",
        "once by hand",
    )
    .await;
    assert_eq!(fs::read(server.file("known_hosts")).unwrap(), b"");
}

/// Nor can the user's own configuration make Haft careless.
#[tokio::test]
#[ignore = "ci: needs OpenSSH"]
async fn a_configuration_that_trusts_everybody_does_not_help() {
    let server = SshServer::start();
    fs::write(server.file("known_hosts"), "").unwrap();
    let careless = "Host *\n  StrictHostKeyChecking no\n  BatchMode no\n  ForwardAgent yes\n";
    fs::write(server.file("config"), careless).unwrap();
    refused(&server, server.options(), "is not known", "once by hand").await;
}

/// What the user's configuration says about a host is obeyed.
#[tokio::test]
#[ignore = "ci: needs OpenSSH"]
async fn an_alias_of_the_configuration_works() {
    let server = SshServer::start();
    server.install_helper();
    let alias = format!(
        "Host box\n  HostName 127.0.0.1\n  User tester\n  Port {}\n  IdentityFile {}\n",
        server.port,
        server.file("user_key").display()
    );
    fs::write(server.file("config"), alias).unwrap();
    let options = SshOptions {
        destination: Destination::parse("box").unwrap(),
        port: None,
        identity_file: None,
        ..server.options()
    };
    let operations = SshBackend::connect(options, "/usr").await.unwrap();
    assert_eq!(operations.backend.as_str(), "ssh:box");
}

#[tokio::test]
#[ignore = "ci: needs OpenSSH"]
async fn a_key_that_is_not_authorised_is_told() {
    let server = SshServer::start();
    let mut options = server.options();
    options.identity_file = Some(server.file("other_key"));
    refused(&server, options, "accepts none of the keys", "ssh-add").await;
}

#[tokio::test]
#[ignore = "ci: needs OpenSSH"]
async fn a_port_nobody_listens_on_is_told() {
    let server = SshServer::start();
    let mut options = server.options();
    options.port = Some(1);
    refused(&server, options, "refuses the connection", "ssh.port").await;
}

#[tokio::test]
#[ignore = "ci: needs OpenSSH"]
async fn a_host_that_is_not_there_is_told() {
    let server = SshServer::start();
    let mut options = server.options();
    options.destination = Destination::parse("no-such-host.invalid").unwrap();
    refused(&server, options, "there is no host", "spelling").await;
}

#[tokio::test]
#[ignore = "ci: needs OpenSSH"]
async fn a_helper_for_another_machine_is_told() {
    let server = SshServer::start();
    let foreign = server.file("foreign");
    fs::write(&foreign, b"\x7fELF\x02\x01\x01 for another machine").unwrap();
    let mut options = server.options();
    options.helper = Helper::Path(foreign);
    let error = SshBackend::connect(options, "/").await.unwrap_err();
    assert!(error.message().contains("is another machine"), "{error}");
    assert!(error.hint_text().unwrap().contains("ssh.helper"), "{error}");
}

#[tokio::test]
#[ignore = "ci: needs OpenSSH"]
async fn a_root_that_is_not_there_is_told() {
    let server = SshServer::start();
    server.install_helper();
    let error = SshBackend::connect(server.options(), "/no/such/place")
        .await
        .unwrap_err();
    assert!(error.message().contains("/no/such/place"), "{error}");
    assert!(
        error.hint_text().unwrap().contains("check the path"),
        "{error}"
    );
}

/// What a login prints does not get into the frames.
#[tokio::test]
#[ignore = "ci: needs OpenSSH"]
async fn a_talkative_login_does_not_disturb() {
    let server = SshServer::start();
    server.install_helper();
    // The server runs this before every command, on the same standard output.
    let said = server.home().join("said");
    let greeting = format!("echo welcome | tee '{}'\n", said.display());
    fs::create_dir(server.home().join(".ssh")).unwrap();
    fs::write(server.home().join(".ssh/rc"), greeting).unwrap();
    fs::create_dir(server.home().join("work")).unwrap();
    let operations = SshBackend::connect(server.options(), "~/work")
        .await
        .unwrap();
    operations.files.stat(&at(".")).await.unwrap();
    let said = fs::read_to_string(said).expect("the control: it was said");
    assert_eq!(said, "welcome\n");
}

/// A tool that could write to the helper would be obeyed by the next connection.
#[tokio::test]
#[ignore = "ci: needs OpenSSH"]
async fn a_workspace_that_holds_the_helper_is_refused() {
    let server = SshServer::start();
    for root in ["~", "~/.cache", "~/.cache/haft", "/"] {
        let error = SshBackend::connect(server.options(), root)
            .await
            .unwrap_err();
        assert!(error.message().contains("Haft's own helper"), "{error}");
    }
}
