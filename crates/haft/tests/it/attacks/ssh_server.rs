//! The OpenSSH server of this process, with the helper in its account's home, and options to connect to
//! it. It ends with this process.

use std::{
    fs,
    os::unix::fs::{DirBuilderExt as _, symlink},
    path::Path,
    sync::OnceLock,
};

use haft_backends::ssh::{Destination, SshOptions};
use haft_sandbox::helper::Helper;
use haft_testkit::openssh_server::OpenSshServer;
use sha2::{Digest as _, Sha256};

use super::place;

pub(crate) struct SshServer(OpenSshServer);

impl SshServer {
    /// The one server of this process, started when it is first asked for.
    pub(crate) fn of_this_process() -> &'static Self {
        static SERVER: OnceLock<SshServer> = OnceLock::new();
        SERVER.get_or_init(|| {
            let server = OpenSshServer::start();
            install_helper(&server.file("home/.cache/haft"));
            Self(server)
        })
    }

    /// Options with which a connection succeeds.
    pub(crate) fn options(&self) -> SshOptions {
        let mut options = SshOptions::new(Destination::parse("tester@127.0.0.1").unwrap());
        let file = |name: &str| Some(self.0.file(name));
        options.port = Some(self.0.port());
        options.identity_file = file("user_key");
        options.known_hosts_file = file("known_hosts");
        options.config_file = file("config");
        options.helper = Helper::Path(place::helper());
        options
    }
}

/// Puts the helper where an upload would: the corpus is not about the upload.
fn install_helper(directory: &Path) {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)
        .unwrap();
    let digest = Sha256::digest(fs::read(place::helper()).unwrap());
    let digits: Vec<String> = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    let name = format!("helper-{}", digits.concat());
    symlink(place::helper(), directory.join(name)).unwrap();
}
