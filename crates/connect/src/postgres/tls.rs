//! Encrypted connections whose server is verified: its certificate by the system's or an operator's
//! own authority, and the name in it against the host of the address. There is no other kind.

use std::{
    fs::File,
    io::{self, Read as _},
    path::Path,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use haft_contract::BoxFuture;
use rustls_platform_verifier::BuilderVerifierExt as _;
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

use super::capped::{Capped, TooLarge};

/// The largest file of certificates: more than all authorities of a system.
const MAX_ROOTS_BYTES: u64 = 4 << 20;

/// What a server that is spoken to without asking first wants to be told.
const PROTOCOL: &[u8] = b"postgresql";

/// Makes encrypted connections.
#[derive(Clone)]
pub(super) struct VerifiedTls {
    connector: TlsConnector,
    too_large: TooLarge,
}

impl VerifiedTls {
    pub(super) fn new(roots: Option<&Path>, too_large: TooLarge) -> Result<Self, String> {
        let failed = |reason: String| match roots {
            None => format!("cannot use the system's certificates: {reason}"),
            Some(path) => format!(
                "cannot use the certificates in `{}`: {reason}",
                path.display()
            ),
        };
        let provider = Arc::new(aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| failed(error.to_string()))?;
        let config = match roots {
            None => config
                .with_platform_verifier()
                .map_err(|error| failed(error.to_string()))?,
            Some(path) => config.with_root_certificates(authorities(path).map_err(failed)?),
        };
        let mut config = config.with_no_client_auth();
        config.alpn_protocols = vec![PROTOCOL.to_vec()];
        Ok(Self {
            connector: TlsConnector::from(Arc::new(config)),
            too_large,
        })
    }
}

/// Reads the authorities in a file.
#[expect(
    clippy::disallowed_methods,
    reason = "a file the operator names beside the database's address, not a tool's"
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
            connector: self.connector.clone(),
            too_large: self.too_large.clone(),
            host: ServerName::try_from(host)?.to_owned(),
        })
    }
}

/// One handshake with the server that has this name.
pub(super) struct Handshake {
    connector: TlsConnector,
    too_large: TooLarge,
    host: ServerName<'static>,
}

impl TlsConnect<Socket> for Handshake {
    type Stream = EncryptedStream;
    type Error = io::Error;
    type Future = BoxFuture<'static, io::Result<EncryptedStream>>;

    fn connect(self, socket: Socket) -> Self::Future {
        Box::pin(async move {
            let stream = self.connector.connect(self.host, socket).await?;
            Ok(EncryptedStream(Capped::new(
                Box::new(stream),
                self.too_large,
            )))
        })
    }
}

/// An encrypted connection.
pub(super) struct EncryptedStream(Capped<Box<ClientStream<Socket>>>);

impl TlsStream for EncryptedStream {
    /// Nothing is bound: the certificate was verified, and a pooler between may have one of its own.
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl AsyncRead for EncryptedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, into)
    }
}

impl AsyncWrite for EncryptedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write_vectored(context, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.0.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}
