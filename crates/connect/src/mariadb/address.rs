//! The address of a server, and what of it the driver is told.

use std::net::IpAddr;

use mysql_async::{Opts, OptsBuilder};

use super::authorities;
use crate::{batch::MAX_ROW_BYTES, settings::MariaDbSettings};

/// The port where none is named.
const USUAL_PORT: u16 = 3306;

/// The largest message of a server: the largest row that is handed on, and room for how its values are
/// written. The driver looks at a message's size before it reads it.
const MAX_MESSAGE_BYTES: usize = 2 * MAX_ROW_BYTES;

/// What an operator wrote, in parts.
#[derive(Debug, PartialEq, Eq)]
struct Address<'a> {
    role: &'a str,
    host: &'a str,
    port: u16,
    database: &'a str,
    socket: Option<&'a str>,
}

/// What the driver is told, but for the password.
pub(super) fn options(settings: &MariaDbSettings) -> Result<Opts, String> {
    let address = parsed(&settings.address)?;
    let local = address.socket.is_some() || is_local(address.host);
    if !settings.encrypted && !local {
        return Err("is on another machine, so it must be encrypted".to_owned());
    }
    let encrypted = settings.encrypted && address.socket.is_none();
    let tls = if encrypted {
        Some(authorities::verified(settings.ca_file.as_deref())?)
    } else {
        None
    };
    // What a change reports is then the rows that it found, also those that had the new values already.
    let found_rows = true;
    let builder = OptsBuilder::default()
        .ip_or_hostname(address.host)
        .tcp_port(address.port)
        .socket(address.socket)
        .prefer_socket(false)
        .user(Some(address.role))
        .db_name(Some(address.database))
        .ssl_opts(tls)
        .secure_auth(true)
        .enable_cleartext_plugin(false)
        .client_found_rows(found_rows)
        .max_allowed_packet(Some(MAX_MESSAGE_BYTES))
        // Not asked of the server: a connection runs one statement.
        .wait_timeout(Some(60))
        .stmt_cache_size(0);
    Ok(builder.into())
}

/// Takes an address apart. Nothing in it is escaped, so that it means what it says.
fn parsed(address: &str) -> Result<Address<'_>, String> {
    let unclear = || {
        "has an address that is not understood; write \"mariadb://role@host/database\"".to_owned()
    };
    let rest = ["mariadb://", "mysql://"]
        .iter()
        .find_map(|scheme| address.strip_prefix(scheme))
        .ok_or_else(unclear)?;
    let (place, options) = match rest.split_once('?') {
        Some((place, options)) => (place, Some(options)),
        None => (rest, None),
    };
    let (login, database) = place.split_once('/').ok_or_else(unclear)?;
    let (role, host) = match login.rsplit_once('@') {
        Some((role, host)) => (role, host),
        None => ("", login),
    };
    if role.contains(':') {
        return Err("has a password in its address; write `password = \"env:NAME\"`".to_owned());
    }
    if role.is_empty() || database.is_empty() {
        return Err("has an address without a role or a database".to_owned());
    }
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '$' | '-');
    let odd = |c: char| c.is_control() || c.is_whitespace() || matches!(c, '%' | '#' | '\\' | ',');
    if !database.chars().all(is_name) || login.contains(odd) {
        return Err(unclear());
    }
    let (host, port) = match host.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']').ok_or_else(unclear)?;
            (host, port.strip_prefix(':'))
        }
        None => match host.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (host, None),
        },
    };
    let port = port.map_or(Ok(USUAL_PORT), |port| port.parse().map_err(|_| unclear()))?;
    let socket = match options {
        None => None,
        Some(options) => match options.strip_prefix("socket=") {
            Some(path) if path.starts_with('/') && !path.contains('&') => Some(path),
            Some(_) | None => {
                return Err(
                    "has an address with options, of which only `socket` is taken".to_owned(),
                );
            }
        },
    };
    if host.is_empty() || socket.is_some() && !is_local(host) {
        return Err(unclear());
    }
    Ok(Address {
        role,
        host,
        port,
        database,
        socket,
    })
}

fn is_local(host: &str) -> bool {
    host == "localhost" || host.parse().is_ok_and(|ip: IpAddr| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_in_parts() {
        let whole = parsed("mariadb://haft@db.example:3307/crm").unwrap();
        let expected = Address {
            role: "haft",
            host: "db.example",
            port: 3307,
            database: "crm",
            socket: None,
        };
        assert_eq!(whole, expected);
        let socket = parsed("mysql://haft@localhost/crm?socket=/run/a b.sock").unwrap();
        assert_eq!(socket.socket, Some("/run/a b.sock"));
        let numbers = parsed("mariadb://haft@[::1]:3307/crm").unwrap();
        assert_eq!((numbers.host, numbers.port), ("::1", 3307));
        for address in [
            "postgres://a@b/c",
            "mariadb://a@b/c/d",
            "mariadb://a@b/c%20d",
            "mariadb://a@b,c/d",
            "mariadb://a@b:x/c",
            "mariadb://a@/c",
            "mariadb://a@b.example/c?socket=/x",
            "mariadb://a@b/c?allow_local_infile=1",
            "mariadb://b/c",
            "mariadb://a@b/",
            "mariadb://a@b",
        ] {
            assert!(parsed(address).is_err(), "{address}");
        }
        let told = parsed("mariadb://a:secret-word@b/c").unwrap_err();
        assert!(told.contains("password in its address") && !told.contains("secret-word"));
    }
}
