//! Reads the address of a database: where it is, and whether connections to it are encrypted.
//!
//! What leaves the machine is encrypted and its server verified, whatever the address says. The driver
//! knows neither files of certificates nor every word for that, so both are taken out for it.

use std::{net::IpAddr, path::PathBuf};

use tokio_postgres::{
    Config,
    config::{Host, SslMode},
};

use super::tls::TrustedRoots;
use crate::open_error::OpenError;

/// What is taken out before the driver reads the rest.
const ENCRYPTION: &str = "sslmode";
const ROOTS: &str = "sslrootcert";

/// The word for the certificates of the system in place of a file.
const OF_THE_SYSTEM: &str = "system";

/// The address of a database.
pub(super) struct DatabaseAddress {
    pub(super) config: Config,
    encryption: Option<String>,
    roots: Option<String>,
}

impl DatabaseAddress {
    /// Reads `postgres://user@host/database`.
    pub(super) fn parse(url: &str) -> Option<Self> {
        // A question mark before the first `@` is part of a password.
        let at = url.find('@').map_or(0, |at| at + 1);
        let query = url.get(at..)?.find('?').map(|mark| at + mark);
        let (place, query) = match query {
            Some(mark) => (url.get(..mark)?, url.get(mark + 1..)?),
            None => (url, ""),
        };
        let (mut encryption, mut roots) = (None, None);
        let mut rest = String::new();
        for parameter in query.split('&').filter(|text| !text.is_empty()) {
            match parameter.split_once('=') {
                Some((ENCRYPTION, value)) => encryption = Some(percent_decoded(value)?),
                Some((ROOTS, value)) => roots = Some(percent_decoded(value)?),
                _ => {
                    rest.push(if rest.is_empty() { '?' } else { '&' });
                    rest.push_str(parameter);
                }
            }
        }
        Some(Self {
            config: format!("{place}{rest}").parse().ok()?,
            encryption,
            roots,
        })
    }

    /// Decides how connections are made: with these certificates, or unencrypted if none are returned.
    /// The address as it is written decides, and not what a name stands for at the moment.
    pub(super) fn encryption(&mut self) -> Result<Option<TrustedRoots>, OpenError> {
        let stays_here = self.stays_here();
        let is_encrypted = match self.encryption.as_deref() {
            Some("disable") if !stays_here => return Err(OpenError::NotEncrypted),
            // A socket has no host that a certificate could name.
            Some("require" | "verify-ca" | "verify-full") => !self.is_socket(),
            None | Some("disable" | "allow" | "prefer") => !stays_here,
            Some(_) => return Err(OpenError::UnknownDatabase),
        };
        self.config.ssl_mode(if is_encrypted {
            SslMode::Require
        } else {
            SslMode::Disable
        });
        let roots = match self.roots.as_deref() {
            None | Some(OF_THE_SYSTEM) => TrustedRoots::System,
            Some(path) => TrustedRoots::File(PathBuf::from(path)),
        };
        Ok(is_encrypted.then_some(roots))
    }

    /// Whether nothing that is sent leaves the machine. An address beside a name is where connections go,
    /// and the name says who is to answer there: both count.
    fn stays_here(&self) -> bool {
        let is_here = |host: &Host| match host {
            Host::Unix(_) => true,
            Host::Tcp(name) => {
                name == "localhost"
                    || name
                        .parse::<IpAddr>()
                        .is_ok_and(|address| address.is_loopback())
            }
        };
        self.config.get_hosts().iter().all(is_here)
            && self.config.get_hostaddrs().iter().all(IpAddr::is_loopback)
    }

    fn is_socket(&self) -> bool {
        let mut hosts = self.config.get_hosts().iter();
        self.config.get_hostaddrs().is_empty() && hosts.all(|host| matches!(host, Host::Unix(_)))
    }
}

/// `%2F` is a slash. None if it is no text.
fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes().iter();
    while let Some(&byte) = rest.next() {
        if byte == b'%' {
            let mut digit = || char::from(*rest.next()?).to_digit(16);
            let value = digit()? * 16 + digit()?;
            bytes.push(u8::try_from(value).ok()?);
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How connections to an address are made.
    fn decided(url: &str) -> &'static str {
        let mut address = DatabaseAddress::parse(url).unwrap();
        match address.encryption() {
            Ok(roots) => {
                let mode = address.config.get_ssl_mode();
                let expect = roots
                    .as_ref()
                    .map_or(SslMode::Disable, |_| SslMode::Require);
                assert_eq!(mode, expect, "{url}");
                match roots {
                    None => "plain",
                    Some(TrustedRoots::System) => "verified",
                    Some(TrustedRoots::File(_)) => "verified by a file",
                }
            }
            Err(OpenError::NotEncrypted) => "refused",
            Err(error) => panic!("{url}: {error}"),
        }
    }

    #[test]
    fn nothing_crosses_a_network_unencrypted() {
        for (url, expect) in [
            ("postgres://app@localhost/haft", "plain"),
            ("postgres://app@127.0.0.1:5433/haft", "plain"),
            ("postgres://app@[::1]/haft", "plain"),
            ("postgres://app@%2Frun%2Fpostgresql/haft", "plain"),
            (
                "postgres://app@%2Frun%2Fpostgresql/haft?sslmode=require",
                "plain",
            ),
            ("postgres://app@localhost/haft?sslmode=disable", "plain"),
            ("postgres://app@localhost/haft?sslmode=prefer", "plain"),
            ("postgres://app@localhost/haft?sslmode=require", "verified"),
            (
                "postgres://app@127.0.0.1/haft?sslmode=verify-full",
                "verified",
            ),
            ("postgres://app@db.example.com/haft", "verified"),
            (
                "postgres://app@db.example.com/haft?sslmode=prefer",
                "verified",
            ),
            (
                "postgres://app@db.example.com/haft?sslmode=allow",
                "verified",
            ),
            (
                "postgres://app@db.example.com/haft?sslmode=require",
                "verified",
            ),
            (
                "postgres://app@db.example.com/haft?sslrootcert=system",
                "verified",
            ),
            (
                "postgres://app@db.example.com/haft?sslmode=disable",
                "refused",
            ),
            (
                "postgres://app@db.example.com/haft?port=1&sslmode=disable",
                "refused",
            ),
            (
                "postgres://app@db.example.com/haft?sslmode=%64isable",
                "refused",
            ),
            // Another spelling of the name reaches the driver, which is told otherwise.
            (
                "postgres://app@db.example.com/haft?%73slmode=disable",
                "verified",
            ),
            ("postgres://app@10.0.0.1/haft", "verified"),
            ("postgres://app@localhost,db.example.com/haft", "verified"),
            (
                "postgres://app@localhost/haft?hostaddr=10.0.0.1",
                "verified",
            ),
            (
                "postgres://app@localhost/haft?hostaddr=10.0.0.1&sslmode=disable",
                "refused",
            ),
            // Whoever answers there must be who the name says.
            (
                "postgres://app@db.example.com/haft?hostaddr=127.0.0.1",
                "verified",
            ),
            ("postgres:///haft?host=db.example.com", "verified"),
            (
                "postgres://app@%2Frun%2Fpostgresql/haft?hostaddr=10.0.0.1",
                "verified",
            ),
            (
                "postgres://app@db.example.com/haft?sslrootcert=%2Fetc%2Fca.pem",
                "verified by a file",
            ),
        ] {
            assert_eq!(decided(url), expect, "{url}");
        }
    }

    #[test]
    fn what_the_driver_does_not_know_is_taken_out_and_the_rest_stays() {
        let url = "postgres://app:a%3Fb@db/haft?sslmode=verify-full&port=5433&sslrootcert=/ca.pem\
             &password=c%26d&channel_binding=require";
        let address = DatabaseAddress::parse(url).unwrap();
        assert_eq!(address.encryption.as_deref(), Some("verify-full"));
        assert_eq!(address.roots.as_deref(), Some("/ca.pem"));
        assert_eq!(address.config.get_password(), Some(&b"c&d"[..]));
        assert_eq!(address.config.get_dbname(), Some("haft"));
        // A password is one wherever a question mark is in it.
        let address = DatabaseAddress::parse("postgres://app:a?sslmode=b@db/haft").unwrap();
        assert_eq!(address.config.get_password(), Some(&b"a?sslmode=b"[..]));
        assert_eq!(address.encryption, None);
        for url in [
            "postgres://app@db/haft?sslmode=%6",
            "postgres://app@db/haft?sslrootcert=%ff",
            "postgres://app@db/haft?unknown=1",
        ] {
            assert!(DatabaseAddress::parse(url).is_none(), "{url}");
        }
        let mut unknown = DatabaseAddress::parse("postgres://app@db/haft?sslmode=never").unwrap();
        assert!(matches!(
            unknown.encryption(),
            Err(OpenError::UnknownDatabase)
        ));
    }
}
