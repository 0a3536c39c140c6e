//! The credentials of an operation: a secret for each, in the place that the description names.
//!
//! Where a secret is kept is never the description's to say: one that called its scheme `GITHUB_TOKEN` would
//! have that variable sent to its own server. The variable is named after the server, so no description
//! reaches what belongs to another.

use serde_json::{Map, Value};

use super::{
    OpenApiError,
    document::{Document, FoundOperation, list, object, shown},
    parameters::Arguments,
};

/// Adds what an operation needs of credentials, and returns where each secret is looked for.
pub(super) fn read(
    document: &Document<'_>,
    found: &FoundOperation<'_>,
    server: &str,
    arguments: &mut Arguments,
) -> Result<Map<String, Value>, OpenApiError> {
    let ways = found.operation.get("security").or(document.get("security"));
    let ways = list(ways);
    // Any one of them will do; one without credentials only where there is no other.
    let mut refused = None;
    for way in ways.iter().filter(|way| object(Some(way)).next().is_some()) {
        match one(document, way) {
            Ok(places) => return apply(places, server, arguments),
            Err(error) => refused = refused.or(Some(error)),
        }
    }
    let without = ways.is_empty() || ways.iter().any(|way| object(Some(way)).next().is_none());
    match refused {
        Some(error) if !without => Err(error),
        _ => Ok(Map::new()),
    }
}

/// A credential and where it goes.
struct CredentialPlace {
    secret: String,
    header: bool,
    name: String,
    before: &'static str,
    note: Option<&'static str>,
}

/// The credentials of one way of authenticating.
fn one(document: &Document<'_>, way: &Value) -> Result<Vec<CredentialPlace>, OpenApiError> {
    let schemes = document.get("components");
    let schemes = schemes.and_then(|components| components.get("securitySchemes"));
    let mut places = Vec::new();
    for (name, _) in object(Some(way)) {
        let scheme = schemes.and_then(|schemes| schemes.get(name));
        let scheme = scheme.ok_or_else(|| {
            OpenApiError::unsupported(format!("its security scheme {} is nowhere", shown(name)))
        })?;
        let scheme = document.resolved(scheme)?;
        let word = |key: &str| scheme.get(key).and_then(Value::as_str).unwrap_or_default();
        let secret = secret_name(name);
        let header = |before, note| CredentialPlace {
            secret: secret.clone(),
            header: true,
            name: "Authorization".to_owned(),
            before,
            note,
        };
        places.push(match (word("type"), word("scheme"), word("in")) {
            ("http", scheme, _) if scheme.eq_ignore_ascii_case("bearer") => header("Bearer ", None),
            ("http", scheme, _) if scheme.eq_ignore_ascii_case("basic") => header(
                "Basic ",
                Some("it is the Base64 of `user:password`, not the password"),
            ),
            ("oauth2" | "openIdConnect", _, _) => header(
                "Bearer ",
                Some("it is an access token, which you get and renew yourself"),
            ),
            ("apiKey", _, "header" | "query") => CredentialPlace {
                secret: secret.clone(),
                header: word("in") == "header",
                name: word("name").to_owned(),
                before: "",
                note: None,
            },
            _ => {
                return Err(OpenApiError::unsupported(format!(
                    "its security scheme {} is of a kind that is not sent",
                    shown(name)
                )));
            }
        });
    }
    Ok(places)
}

fn apply(
    places: Vec<CredentialPlace>,
    server: &str,
    arguments: &mut Arguments,
) -> Result<Map<String, Value>, OpenApiError> {
    let mut secrets = Map::new();
    let server = variable_of(server)?;
    for place in places {
        let value = Value::from(format!("{}${{{}}}", place.before, place.secret));
        let table = if place.header {
            &mut arguments.headers
        } else {
            &mut arguments.query
        };
        table.insert(place.name, value);
        let variable = format!("{}_FOR_{server}", place.secret);
        let mut note =
            format!("the secret is read from the variable {variable}; `file:/path` works too");
        if let Some(more) = place.note {
            note = format!("{note}; {more}");
        }
        arguments.notes.push(note);
        secrets.insert(place.secret, Value::from(format!("env:{variable}")));
    }
    Ok(secrets)
}

/// The name of a scheme as variables are written: `bearerAuth` is `BEARER_AUTH`.
fn secret_name(scheme: &str) -> String {
    let mut name = String::new();
    let mut before = '_';
    for c in scheme.chars().take(64) {
        if c.is_ascii_uppercase() && (before.is_ascii_lowercase() || before.is_ascii_digit()) {
            name.push('_');
        }
        name.push(if c.is_ascii_alphanumeric() {
            c.to_ascii_uppercase()
        } else {
            '_'
        });
        before = c;
    }
    if !name.starts_with(|c: char| c.is_ascii_alphabetic()) {
        name.insert_str(0, "KEY_");
    }
    name
}

/// What the variables for a server end with: `API_EXAMPLE_COM` for `https://api.example.com/v1`. At the end,
/// where the name of a scheme cannot make it another host's; from the host as it is connected to, since
/// letters that are not ASCII look alike.
fn variable_of(server: &str) -> Result<String, OpenApiError> {
    let url = url::Url::parse(server).ok();
    let host = url.as_ref().and_then(url::Url::host_str);
    let host = host.ok_or_else(|| {
        OpenApiError::unsupported(format!("the server {} has no host", shown(server)))
    })?;
    let port = url.as_ref().and_then(url::Url::port);
    let mut name = String::new();
    for c in host.trim_matches(['[', ']']).chars() {
        match c {
            '.' => name.push('_'),
            c if c.is_ascii_alphanumeric() => name.push(c.to_ascii_uppercase()),
            // A dash, which may stand where another host has a dot.
            _ => name.push_str("__"),
        }
    }
    if let Some(port) = port {
        name = format!("{name}_{port}");
    }
    Ok(name)
}
