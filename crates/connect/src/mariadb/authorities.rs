//! Encrypted connections whose server is verified: its certificate by the system's or an operator's
//! own authorities, and the name in it against the host of the address. There is no other kind.

use std::{fs::File, io::Read as _, path::Path};

use mysql_async::SslOpts;
use tokio_rustls::rustls::{
    RootCertStore,
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, pem::PemObject as _},
};

/// The largest file of certificates: more than all authorities of a system.
const MAX_ROOTS_BYTES: u64 = 4 << 20;

/// What the driver is told about encryption.
pub(super) fn verified(roots: Option<&Path>) -> Result<SslOpts, String> {
    // The driver takes the process's own choice, and fails where there are several and none was made.
    // One that was made already stays.
    drop(aws_lc_rs::default_provider().install_default());
    let authorities = match roots {
        Some(path) => of_file(path).map_err(|reason| {
            format!(
                "cannot use the certificates in `{}`: {reason}",
                path.display()
            )
        })?,
        None => of_system(),
    };
    let mut known = RootCertStore::empty();
    // Of a system's list those that cannot be used are left out, as its other programs do.
    let usable = authorities
        .into_iter()
        .filter(|authority| known.add(authority.clone()).is_ok());
    let usable: Vec<_> = usable.map(|authority| authority.to_vec().into()).collect();
    if usable.is_empty() {
        return Err("has no certificate of an authority to be verified with".to_owned());
    }
    Ok(SslOpts::default()
        .with_root_certs(usable)
        .with_disable_built_in_roots(true))
}

fn of_system() -> Vec<CertificateDer<'static>> {
    let found = rustls_native_certs::load_native_certs();
    for error in &found.errors {
        tracing::warn!(%error, "a certificate of the system cannot be read");
    }
    found.certs
}

#[expect(
    clippy::disallowed_methods,
    reason = "a file the operator names beside the database's address, not a tool's"
)]
fn of_file(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    if !path.is_absolute() {
        return Err("its path must be absolute".to_owned());
    }
    let mut text = Vec::new();
    let opened = File::open(path).map_err(|error| error.to_string())?;
    let read = opened.take(MAX_ROOTS_BYTES + 1).read_to_end(&mut text);
    if read.map_err(|error| error.to_string())? as u64 > MAX_ROOTS_BYTES {
        return Err(format!("it has more than {MAX_ROOTS_BYTES} bytes"));
    }
    let certificates =
        CertificateDer::pem_slice_iter(&text).map(|found| found.map_err(|error| error.to_string()));
    certificates.collect()
}
