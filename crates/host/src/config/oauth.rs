//! `oauth` of a server in `[[mcp.servers]]`: how to log in to it, beyond what it publishes itself.
//! Most servers need none of this.

use std::collections::BTreeMap;

use haft_contract::egress::HostRule;
use haft_mcp::upstream::auth::{ClientIdentity, OauthOptions, Secret};
use url::Url;

use super::{
    file::{Reader, Table},
    secrets::SecretReference,
};

const KEYS: [&str; 6] = [
    "client_id",
    "client_secret",
    "issuer",
    "client_metadata_url",
    "scopes",
    "private_hosts",
];

/// The keys of `oauth`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct OauthSettings {
    /// The id of a manually registered client.
    client_id: Option<String>,
    /// The name of its secret in `secrets`.
    client_secret: Option<String>,
    /// The authorization server that may be sent the secret.
    issuer: Option<String>,
    /// The URL of the client's metadata document.
    client_metadata_url: Option<Url>,
    /// The scopes to ask for.
    scopes: Vec<String>,
    /// Hosts of the operator's own network that logging in may redirect to.
    pub private_hosts: Vec<HostRule>,
}

impl OauthSettings {
    /// The options of the login, with the server's secrets filled in.
    pub fn options(&self, secrets: &BTreeMap<String, String>) -> OauthOptions {
        let secret = self
            .client_secret
            .as_ref()
            .and_then(|name| secrets.get(name));
        OauthOptions {
            client: self.client_id.clone().map(|id| ClientIdentity {
                id,
                secret: secret.cloned().map(Secret::new),
            }),
            issuer: self.issuer.clone(),
            client_metadata_url: self.client_metadata_url.clone(),
            scopes: self.scopes.clone(),
            private_hosts: self.private_hosts.clone(),
        }
    }
}

impl Reader<'_> {
    /// Reads a server's `oauth`.
    pub(super) fn oauth(
        &mut self,
        server: &Table<'_>,
        secrets: &BTreeMap<String, SecretReference>,
    ) -> OauthSettings {
        let Some(table) = self.table(server, "oauth") else {
            return OauthSettings::default();
        };
        self.known_keys(table, "a server's `oauth`", &KEYS);
        let scopes = self.texts(table, "scopes", "[\"read\"]");
        let settings = OauthSettings {
            client_id: self.text(table, "client_id").map(|(_, id)| id),
            client_secret: self.client_secret(table, secrets),
            issuer: self.issuer(table),
            client_metadata_url: self.client_metadata_url(table),
            scopes: scopes.into_iter().map(|(_, scope)| scope).collect(),
            private_hosts: self.granted_hosts(table, "private_hosts"),
        };
        if let (None, Some(secret)) = (&settings.client_id, table.get("client_secret")) {
            self.problem(
                secret.span().start,
                "`client_secret` without `client_id`",
                "add the `client_id` that belongs to it",
            );
        }
        if let (None, Some(secret)) = (table.get("issuer"), table.get("client_secret")) {
            self.problem(
                secret.span().start,
                "`client_secret` needs `issuer`, or the server could choose who gets the secret",
                "write `issuer = \"https://...\"`, the authorization server that gave the secret",
            );
        }
        settings
    }

    fn issuer(&mut self, table: &Table<'_>) -> Option<String> {
        let (at, text) = self.text(table, "issuer")?;
        let named = Url::parse(&text).ok().filter(|url| {
            let plain = url.query().is_none() && url.fragment().is_none();
            plain && matches!(url.scheme(), "https" | "http") && url.has_host()
        });
        if named.is_none() {
            self.problem(
                at,
                "`issuer` is not the address of an authorization server",
                "write it as the authorization server does in its own metadata: `https://sso.example.com`",
            );
        }
        named.map(|_| text)
    }

    fn client_secret(
        &mut self,
        table: &Table<'_>,
        secrets: &BTreeMap<String, SecretReference>,
    ) -> Option<String> {
        let (at, text) = self.text(table, "client_secret")?;
        let name = text
            .strip_prefix("${")
            .and_then(|rest| rest.strip_suffix('}'));
        let name = name.filter(|name| secrets.contains_key(*name));
        if name.is_none() {
            // What was written may be the secret itself.
            self.problem(
                at,
                "`client_secret` is not a reference to one of `secrets`",
                "write `client_secret = \"${NAME}\"` and `secrets = { NAME = \"env:NAME\" }`",
            );
        }
        name.map(str::to_owned)
    }

    fn client_metadata_url(&mut self, table: &Table<'_>) -> Option<Url> {
        let (at, text) = self.text(table, "client_metadata_url")?;
        let url = Url::parse(&text).ok().filter(|url| url.scheme() == "https");
        if url.is_none() {
            self.problem(
                at,
                "`client_metadata_url` is not an https address",
                "leave it out: without it Haft registers itself where it can",
            );
        }
        url
    }
}

#[cfg(test)]
mod tests {
    use haft_policy::PolicySource;

    use super::*;
    use crate::config::{file, mcp::Target};

    fn read(oauth: &str) -> Result<OauthSettings, String> {
        let text = format!(
            "[[mcp.servers]]\nid = \"a\"\nurl = \"https://mcp.example.com\"\nsecrets = {{ S = \"env:S\" }}\noauth = {{ {oauth} }}\n"
        );
        let parsed = file::parse(&PolicySource::new("haft.toml", &text));
        let file = parsed.map_err(|problems| {
            let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
            lines.join("\n")
        })?;
        match &file.mcp.servers[0].target {
            Target::Url { oauth, .. } => Ok(oauth.clone()),
            Target::Command(_) => panic!("an address"),
        }
    }

    #[test]
    fn a_client_registered_by_hand_has_its_secret_by_reference() {
        let settings = read(
            "client_id = \"me\", client_secret = \"${S}\", issuer = \"https://sso.internal\", scopes = [\"read\"], private_hosts = [\"sso.internal\"]",
        );
        let secrets = BTreeMap::from([("S".to_owned(), "hush".to_owned())]);
        let options = settings.unwrap().options(&secrets);
        let client = options.client.unwrap();
        assert_eq!(client.id, "me");
        assert_eq!(client.secret, Some(Secret::new("hush".to_owned())));
        assert_eq!(options.issuer.as_deref(), Some("https://sso.internal"));
        assert_eq!(options.scopes, ["read"]);
        assert_eq!(options.private_hosts[0].to_string(), "sso.internal");
        assert_eq!(read("").unwrap(), OauthSettings::default());
    }

    #[test]
    fn what_is_no_reference_is_refused_and_not_repeated() {
        for (oauth, expect) in [
            (
                "client_id = \"me\", client_secret = \"verysecret\"",
                "not a reference",
            ),
            (
                "client_id = \"me\", client_secret = \"${T}\"",
                "not a reference",
            ),
            ("client_secret = \"${S}\"", "without `client_id`"),
            (
                "client_id = \"me\", client_secret = \"${S}\"",
                "needs `issuer`",
            ),
            ("issuer = \"sso\"", "not the address"),
            ("issuer = \"https://sso/?a=b\"", "not the address"),
            (
                "client_metadata_url = \"http://x/y\"",
                "not an https address",
            ),
            ("private_hosts = [\"169.254.169.254\"]", "credentials"),
            ("clientid = \"me\"", "client_id"),
        ] {
            let problems = read(oauth).unwrap_err();
            assert!(problems.contains(expect), "{oauth}: {problems}");
            assert!(!problems.contains("verysecret"));
        }
    }
}
