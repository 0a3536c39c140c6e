//! Which object storage keeps artifacts, and with what credentials.

use std::{collections::BTreeMap, fmt};

/// Object storage that speaks the S3 protocol, to keep artifacts in.
#[derive(Clone)]
pub struct ObjectStorage {
    address: String,
    settings: BTreeMap<String, String>,
}

impl ObjectStorage {
    /// The settings it takes, under the names of the environment variables that usually hold them.
    /// Profiles and other files of credentials are not read.
    pub const SETTINGS: [&str; 13] = [
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_SESSION_TOKEN",
        "AWS_REGION",
        "AWS_DEFAULT_REGION",
        "AWS_ENDPOINT_URL",
        "AWS_ENDPOINT_URL_S3",
        "AWS_ROLE_ARN",
        "AWS_ROLE_SESSION_NAME",
        "AWS_WEB_IDENTITY_TOKEN_FILE",
        "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
        "AWS_CONTAINER_CREDENTIALS_FULL_URI",
        "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
    ];

    /// Those of the settings whose values must never be stored.
    const SECRETS: [&str; 3] = [
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_SESSION_TOKEN",
    ];

    /// The storage at an address such as `s3://bucket/prefix`.
    pub fn new(address: impl Into<String>) -> Self {
        Self {
            address: address.into(),
            settings: BTreeMap::new(),
        }
    }

    /// One of [`SETTINGS`](Self::SETTINGS). Others are ignored.
    #[must_use]
    pub fn setting(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.settings.insert(name.into(), value.into());
        self
    }

    /// Where the storage is.
    #[cfg(feature = "object-storage")]
    pub(super) fn address(&self) -> &str {
        &self.address
    }

    /// The settings that are known and given, in the order of [`SETTINGS`](Self::SETTINGS).
    #[cfg(feature = "object-storage")]
    pub(super) fn settings(&self) -> impl Iterator<Item = (&'static str, &str)> {
        Self::SETTINGS
            .into_iter()
            .filter_map(|name| Some((name, self.settings.get(name)?.as_str())))
    }

    /// What must never be stored.
    pub(crate) fn secrets(&self) -> impl Iterator<Item = String> {
        Self::SECRETS
            .iter()
            .filter_map(|name| self.settings.get(*name).cloned())
    }
}

impl fmt::Debug for ObjectStorage {
    // The credentials must not be printed.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ObjectStorage")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}
