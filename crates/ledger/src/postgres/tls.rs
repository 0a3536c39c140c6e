//! Encrypted connections whose server is verified: its certificate by the system's or an operator's own
//! authority, and the name in it against the host of the address. There is no other kind.

use std::{
    fs::File,
    io::{self, Read as _},
    path::{Path, PathBuf},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use haft_contract::BoxFuture;
use rustls_platform_verifier::BuilderVerifierExt as _;
use sha2::{Digest as _, Sha256, Sha384, Sha512};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::{
    Socket,
    tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream},
};
use tokio_rustls::{
    TlsConnector,
    client::TlsStream as ClientStream,
    rustls::{
        ClientConfig, RootCertStore,
        crypto::aws_lc_rs,
        pki_types::{CertificateDer, InvalidDnsNameError, ServerName, pem::PemObject as _},
    },
};

use crate::open_error::OpenError;

/// The largest file of certificates: more than all authorities of a system.
const MAX_ROOTS_BYTES: u64 = 4 << 20;

/// What a server that is spoken to without asking first wants to be told.
const PROTOCOL: &[u8] = b"postgresql";

/// Whose certificates are believed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TrustedRoots {
    /// Those of the authorities that the system trusts.
    System,
    /// Those of the authorities in this file, and no others.
    File(PathBuf),
}

/// Makes encrypted connections.
#[derive(Clone)]
pub(super) struct VerifiedTls(TlsConnector);

impl VerifiedTls {
    pub(super) fn new(roots: &TrustedRoots) -> Result<Self, OpenError> {
        let failed = |reason: String| OpenError::Certificates {
            path: match roots {
                TrustedRoots::System => None,
                TrustedRoots::File(path) => Some(path.clone()),
            },
            reason,
        };
        let provider = Arc::new(aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| failed(error.to_string()))?;
        let config = match roots {
            TrustedRoots::System => config
                .with_platform_verifier()
                .map_err(|error| failed(error.to_string()))?,
            TrustedRoots::File(path) => {
                config.with_root_certificates(authorities(path).map_err(failed)?)
            }
        };
        let mut config = config.with_no_client_auth();
        config.alpn_protocols = vec![PROTOCOL.to_vec()];
        Ok(Self(TlsConnector::from(Arc::new(config))))
    }
}

/// Reads the authorities in a file.
#[expect(
    clippy::disallowed_methods,
    reason = "a file the operator names in the database's address, not a tool's"
)]
fn authorities(path: &Path) -> Result<RootCertStore, String> {
    if !path.is_absolute() {
        return Err("its path must be absolute".to_owned());
    }
    let mut text = Vec::new();
    let opened = File::open(path).map_err(|error| error.to_string())?;
    let read = opened.take(MAX_ROOTS_BYTES + 1).read_to_end(&mut text);
    if read.map_err(|error| error.to_string())? as u64 > MAX_ROOTS_BYTES {
        return Err(format!("it has more than {MAX_ROOTS_BYTES} bytes"));
    }
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&text) {
        let added = certificate.map_err(|error| error.to_string());
        added.and_then(|root| roots.add(root).map_err(|error| error.to_string()))?;
    }
    if roots.is_empty() {
        return Err("there is no certificate in it".to_owned());
    }
    Ok(roots)
}

impl MakeTlsConnect<Socket> for VerifiedTls {
    type Stream = EncryptedStream;
    type TlsConnect = Handshake;
    type Error = InvalidDnsNameError;

    fn make_tls_connect(&mut self, host: &str) -> Result<Handshake, InvalidDnsNameError> {
        Ok(Handshake {
            connector: self.0.clone(),
            host: ServerName::try_from(host)?.to_owned(),
        })
    }
}

/// One handshake with the server that has this name.
pub(super) struct Handshake {
    connector: TlsConnector,
    host: ServerName<'static>,
}

impl TlsConnect<Socket> for Handshake {
    type Stream = EncryptedStream;
    type Error = io::Error;
    type Future = BoxFuture<'static, io::Result<EncryptedStream>>;

    fn connect(self, socket: Socket) -> Self::Future {
        Box::pin(async move {
            let stream = self.connector.connect(self.host, socket).await?;
            Ok(EncryptedStream(Box::new(stream)))
        })
    }
}

/// An encrypted connection.
pub(super) struct EncryptedStream(Box<ClientStream<Socket>>);

impl TlsStream for EncryptedStream {
    /// Binds a password's proof to this server's certificate, so that nobody in between can use it.
    fn channel_binding(&self) -> ChannelBinding {
        let (_, session) = self.0.get_ref();
        let certificate = session.peer_certificates().and_then(<[_]>::first);
        certificate
            .and_then(|certificate| end_point(certificate))
            .map_or_else(ChannelBinding::none, ChannelBinding::tls_server_end_point)
    }
}

impl AsyncRead for EncryptedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.0).poll_read(context, into)
    }
}

impl AsyncWrite for EncryptedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.0).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.0).poll_write_vectored(context, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.0.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.0).poll_shutdown(context)
    }
}

/// The hash of a certificate by the algorithm it was signed with (RFC 5929, `tls-server-end-point`). None
/// for algorithms that have no hash of their own: then nothing is bound.
fn end_point(certificate: &[u8]) -> Option<Vec<u8>> {
    // RSA with PKCS #1, then ECDSA.
    match signature_algorithm(certificate)? {
        b"\x2a\x86\x48\x86\xf7\x0d\x01\x01\x0b" | b"\x2a\x86\x48\xce\x3d\x04\x03\x02" => {
            Some(Sha256::digest(certificate).to_vec())
        }
        b"\x2a\x86\x48\x86\xf7\x0d\x01\x01\x0c" | b"\x2a\x86\x48\xce\x3d\x04\x03\x03" => {
            Some(Sha384::digest(certificate).to_vec())
        }
        b"\x2a\x86\x48\x86\xf7\x0d\x01\x01\x0d" | b"\x2a\x86\x48\xce\x3d\x04\x03\x04" => {
            Some(Sha512::digest(certificate).to_vec())
        }
        _ => None,
    }
}

/// The object identifier of a certificate's signature: what is signed, then the algorithm.
fn signature_algorithm(certificate: &[u8]) -> Option<&[u8]> {
    const SEQUENCE: u8 = 0x30;
    const OBJECT_IDENTIFIER: u8 = 0x06;
    let (certificate, _) = element(SEQUENCE, certificate)?;
    let (_, after) = element(SEQUENCE, certificate)?;
    let (algorithm, _) = element(SEQUENCE, after)?;
    element(OBJECT_IDENTIFIER, algorithm).map(|(identifier, _)| identifier)
}

/// The content of the DER element at the beginning, and what follows it.
fn element(tag: u8, bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (&first, rest) = bytes.split_first()?;
    let (&length, rest) = rest.split_first()?;
    let (length, rest) = match length {
        0..=0x7f => (usize::from(length), rest),
        // The length in as many bytes as this says. No certificate needs more than three.
        0x81..=0x83 => {
            let (digits, rest) = rest.split_at_checked(usize::from(length & 0x7f))?;
            let number = digits
                .iter()
                .fold(0, |number, &digit| number << 8 | usize::from(digit));
            (number, rest)
        }
        _ => return None,
    };
    let element = rest.split_at_checked(length)?;
    (first == tag).then_some(element)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A certificate as far as the algorithm of its signature.
    fn signed_with(identifier: &[u8], padding: usize) -> Vec<u8> {
        let sequence = |content: &[u8]| {
            let length = u16::try_from(content.len()).unwrap().to_be_bytes();
            [&[0x30, 0x82], &length[..], content].concat()
        };
        let length = u8::try_from(identifier.len()).unwrap();
        let algorithm = [&[0x06, length], identifier, &[5, 0]].concat();
        let content = [sequence(&vec![7; padding]), sequence(&algorithm)].concat();
        sequence(&content)
    }

    #[test]
    fn a_certificate_is_hashed_as_it_was_signed_and_nothing_else_is_read_from_it() {
        let sha_384_with_ecdsa = b"\x2a\x86\x48\xce\x3d\x04\x03\x03";
        let certificate = signed_with(sha_384_with_ecdsa, 900);
        let expect = Sha384::digest(&certificate).to_vec();
        assert_eq!(end_point(&certificate), Some(expect));
        // Ed25519 has no hash of its own.
        assert_eq!(end_point(&signed_with(b"\x2b\x65\x70", 900)), None);
        for length in 0..certificate.len() - 2 {
            assert_eq!(end_point(&certificate[..length]), None, "{length}");
        }
    }

    #[test]
    fn a_file_of_authorities_that_has_none_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let empty = folder.path().join("empty.pem");
        File::create_new(&empty).unwrap();
        for (path, said) in [
            (PathBuf::from("ca.pem"), "absolute"),
            (empty, "no certificate"),
            (folder.path().join("missing.pem"), "No such file"),
        ] {
            let refused = VerifiedTls::new(&TrustedRoots::File(path.clone()));
            let Err(OpenError::Certificates {
                path: named,
                reason,
            }) = refused.map(|_| ())
            else {
                panic!("{}", path.display());
            };
            assert_eq!(named, Some(path));
            assert!(reason.contains(said), "{reason}");
        }
    }
}
