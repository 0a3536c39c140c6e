//! Certificates for the servers of a test, by an authority of the test's own. `openssl` makes them.
#![expect(
    clippy::disallowed_methods,
    reason = "runs a program for a test and writes into its directory"
)]

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use tempfile::TempDir;

/// An authority that nobody trusts who is not told to.
#[derive(Debug)]
pub struct CertificateAuthority {
    directory: TempDir,
}

/// A server's certificate and its key, as files in PEM.
#[derive(Debug)]
pub struct ServerCertificate {
    /// The certificate.
    pub chain: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

impl CertificateAuthority {
    /// Makes one.
    pub fn new() -> Self {
        let authority = Self {
            directory: tempfile::tempdir().unwrap(),
        };
        let (key, certificate) = (authority.path("ca.key"), authority.certificate());
        openssl(
            &[
                "req",
                "-x509",
                "-nodes",
                "-days",
                "2",
                "-subj",
                "/CN=test authority",
            ],
            &[("-keyout", &key), ("-out", &certificate)],
        );
        authority
    }

    /// The file with its own certificate, for those who are to trust it.
    pub fn certificate(&self) -> PathBuf {
        self.path("ca.pem")
    }

    /// A certificate for a server with these names, written as `DNS:db.example,IP:127.0.0.1`.
    pub fn issue(&self, names: &str) -> ServerCertificate {
        let issued = ServerCertificate {
            chain: self.path("server.pem"),
            key: self.path("server.key"),
        };
        let (request, extensions) = (self.path("request"), self.path("extensions"));
        openssl(
            &["req", "-nodes", "-subj", "/CN=server"],
            &[("-keyout", &issued.key), ("-out", &request)],
        );
        fs::write(&extensions, format!("subjectAltName={names}\n")).unwrap();
        openssl(
            &["x509", "-req", "-days", "2", "-set_serial", "2"],
            &[
                ("-in", &request),
                ("-CA", &self.certificate()),
                ("-CAkey", &self.path("ca.key")),
                ("-extfile", &extensions),
                ("-out", &issued.chain),
            ],
        );
        issued
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }
}

impl Default for CertificateAuthority {
    fn default() -> Self {
        Self::new()
    }
}

fn openssl(words: &[&str], files: &[(&str, &Path)]) {
    let mut command = Command::new("openssl");
    command.args(words);
    if words.first() == Some(&"req") {
        command.args(["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]);
    }
    for (option, path) in files {
        command.arg(option).arg(path);
    }
    let output = command.output().expect("openssl is installed");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "openssl {words:?}: {said}");
}
