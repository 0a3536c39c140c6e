//! Where the objects are, and how long a request to them may take.

use std::{future::Future, net::IpAddr, time::Duration};

use futures_util::stream::{self, BoxStream, StreamExt as _};
use haft_contract::host::ArtifactId;
use object_store::{
    BackoffConfig, ClientOptions, GetOptions, GetResult, MultipartUpload, ObjectMeta,
    ObjectStore as _, PutMode, PutMultipartOptions, PutPayload, RetryConfig,
    aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey},
    path::Path,
};

use super::failure::RequestFailure;
use crate::{artifacts::object_storage::ObjectStorage, open_error::OpenError};

/// How long one request may take, with everything that is tried again.
const ANSWER_WITHIN: Duration = Duration::from_secs(20);

/// How long connecting may take.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);

/// How often a request is tried again.
const MAX_RETRIES: usize = 3;

/// How many connections stay open while nothing is asked.
const IDLE_CONNECTIONS: usize = 16;

/// How many objects are removed with one request; the protocol's own limit.
pub(super) const REMOVED_AT_ONCE: usize = 1_000;

/// Never connected to: a proxy that is used for nothing keeps the environment's from being used.
const NO_PROXY: &str = "http://127.0.0.1:9";

/// Every name and every address.
const EVERYWHERE: &str = "*,0.0.0.0/0,::/0";

/// Below this are the contents, each under its hash.
const CONTENTS: &str = "content";

/// Below this is an empty object for each content that was asked for when it was old.
const RENEWALS: &str = "renewed";

/// When anybody last removed old artifacts.
const SWEPT: &str = "swept";

/// The two kinds of object that belong to an artifact.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ObjectKind {
    Content,
    Renewal,
}

/// What identifies one version of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ObjectVersion {
    pub(super) bytes: u64,
    /// When it was written, in microseconds since 1970.
    pub(super) written: i64,
    pub(super) e_tag: Option<String>,
    version: Option<String>,
}

impl ObjectVersion {
    pub(super) fn of(meta: &ObjectMeta) -> Self {
        Self {
            bytes: meta.size,
            written: meta.last_modified.timestamp_micros(),
            e_tag: meta.e_tag.clone(),
            version: meta.version.clone(),
        }
    }
}

/// A bucket, or a part of one.
#[derive(Debug)]
pub(crate) struct Bucket {
    store: AmazonS3,
    prefix: Path,
}

impl Bucket {
    /// Reads where the objects are, as `s3://bucket/prefix`. Connects to nothing.
    pub(crate) fn at(storage: &ObjectStorage) -> Result<Self, OpenError> {
        let place = storage.address().strip_prefix("s3://");
        let place = place.ok_or(OpenError::UnknownArtifacts)?;
        let (name, prefix) = place.split_once('/').unwrap_or((place, ""));
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || ".-_".contains(letter);
        if name.is_empty() || !name.chars().all(is_plain) || prefix.starts_with('/') {
            return Err(OpenError::UnknownArtifacts);
        }
        let prefix = Path::parse(prefix).map_err(|_| OpenError::UnknownArtifacts)?;
        let mut builder = AmazonS3Builder::new().with_bucket_name(name);
        let mut is_near = false;
        for (name, value) in storage.settings() {
            if name.starts_with("AWS_ENDPOINT_URL") && !value.starts_with("https://") {
                if !is_loopback(value) {
                    return Err(OpenError::ArtifactsNotEncrypted);
                }
                is_near = true;
            }
            let key: AmazonS3ConfigKey = name
                .to_ascii_lowercase()
                .parse()
                .map_err(|_| OpenError::Artifacts(format!("`{name}` is not a setting of it")))?;
            builder = builder.with_config(key, value);
        }
        let store = builder
            .with_client_options(
                ClientOptions::new()
                    .with_http1_only()
                    .with_allow_http(is_near)
                    .with_connect_timeout(CONNECT_WITHIN)
                    .with_timeout(ANSWER_WITHIN)
                    .with_pool_max_idle_per_host(IDLE_CONNECTIONS)
                    .with_proxy_url(NO_PROXY)
                    .with_proxy_excludes(EVERYWHERE),
            )
            .with_retry(RetryConfig {
                backoff: BackoffConfig {
                    init_backoff: Duration::from_millis(100),
                    max_backoff: Duration::from_secs(2),
                    base: 2.0,
                },
                max_retries: MAX_RETRIES,
                retry_timeout: ANSWER_WITHIN,
            })
            .build()
            .map_err(|error| OpenError::Artifacts(error.to_string()))?;
        Ok(Self { store, prefix })
    }

    fn folder(&self, kind: ObjectKind) -> Path {
        self.prefix.clone().join(match kind {
            ObjectKind::Content => CONTENTS,
            ObjectKind::Renewal => RENEWALS,
        })
    }

    /// The name of an object of this artifact.
    pub(super) fn key(&self, kind: ObjectKind, id: ArtifactId) -> Path {
        self.key_of(kind, &id.hex())
    }

    /// The same by the hash in hexadecimal.
    pub(super) fn key_of(&self, kind: ObjectKind, hex: &str) -> Path {
        self.folder(kind).join(hex)
    }

    /// The name of the object that says when anybody last removed old artifacts.
    pub(super) fn sweep_key(&self) -> Path {
        self.prefix.clone().join(SWEPT)
    }

    /// Writes an object in one request.
    pub(super) async fn put(
        &self,
        key: &Path,
        content: PutPayload,
        mode: PutMode,
    ) -> Result<(), RequestFailure> {
        within(self.store.put_opts(key, content, mode.into())).await?;
        Ok(())
    }

    /// Which version of an object there is.
    pub(super) async fn head(&self, key: &Path) -> Result<ObjectVersion, RequestFailure> {
        let head = GetOptions {
            head: true,
            ..GetOptions::default()
        };
        let found = within(self.store.get_opts(key, head)).await?;
        Ok(ObjectVersion::of(&found.meta))
    }

    /// Begins to read a range of an object; of this version only, if one is given.
    pub(super) async fn get(
        &self,
        key: &Path,
        range: std::ops::Range<u64>,
        version: Option<&ObjectVersion>,
    ) -> Result<GetResult, RequestFailure> {
        let ranged = GetOptions {
            range: Some(range.into()),
            if_match: version.and_then(|version| version.e_tag.clone()),
            ..GetOptions::default()
        };
        within(self.store.get_opts(key, ranged)).await
    }

    /// Begins an object that is sent in parts. It exists when it is completed, not before.
    pub(super) async fn begin_parts(
        &self,
        key: &Path,
    ) -> Result<Box<dyn MultipartUpload>, RequestFailure> {
        let begin = self
            .store
            .put_multipart_opts(key, PutMultipartOptions::default());
        within(begin).await
    }

    /// All objects of a kind, in the order of their names, as pages arrive.
    pub(super) fn list(
        &self,
        kind: ObjectKind,
    ) -> BoxStream<'static, object_store::Result<ObjectMeta>> {
        self.store.list(Some(&self.folder(kind)))
    }

    /// Removes objects; at most [`REMOVED_AT_ONCE`] of them.
    pub(super) async fn remove(&self, keys: Vec<Path>) -> Result<(), RequestFailure> {
        let keys = stream::iter(keys).map(Ok).boxed();
        let mut removed = self.store.delete_stream(keys);
        let all = async move {
            while let Some(one) = removed.next().await {
                match one {
                    Ok(_) | Err(object_store::Error::NotFound { .. }) => {}
                    Err(error) => return Err(error),
                }
            }
            Ok(())
        };
        within(all).await
    }
}

/// Waits for the storage, but not for ever.
pub(super) async fn within<T>(
    request: impl Future<Output = object_store::Result<T>>,
) -> Result<T, RequestFailure> {
    match tokio::time::timeout(ANSWER_WITHIN, request).await {
        Ok(answer) => answer.map_err(|error| RequestFailure::of(&error)),
        Err(_) => Err(RequestFailure::late(ANSWER_WITHIN)),
    }
}

/// Whether an address without encryption stays on this machine.
fn is_loopback(endpoint: &str) -> bool {
    let Some(rest) = endpoint.strip_prefix("http://") else {
        return false;
    };
    let authority = rest.split('/').next().unwrap_or_default();
    // Nothing that two readers of addresses could read differently.
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || ".-:[]".contains(letter);
    if !authority.chars().all(is_plain) {
        return false;
    }
    let host = match authority.strip_prefix('[') {
        // After the bracket there is a port or nothing; else it is a name that begins like an address.
        Some(bracketed) => match bracketed.split_once(']') {
            Some((host, after)) if after.is_empty() || after.starts_with(':') => host,
            _ => return false,
        },
        None => authority.split(':').next().unwrap_or_default(),
    };
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::{Bucket, is_loopback};
    use crate::{ObjectStorage, open_error::OpenError};

    #[test]
    fn only_loopback_needs_no_encryption() {
        for near in [
            "http://127.0.0.1:9000",
            "http://localhost/",
            "http://[::1]:9000/s3",
        ] {
            assert!(is_loopback(near), "{near}");
        }
        for far in [
            "http://10.0.0.1",
            "http://127.0.0.1.example.com",
            "http://localhost@example.com",
            "http://localhost:80@example.com/",
            "http://127.0.0.1\\@example.com",
            "http://[::1].example.com",
            "HTTP://127.0.0.1",
            "ftp://127.0.0.1",
            "127.0.0.1",
        ] {
            assert!(!is_loopback(far), "{far}");
        }
    }

    #[test]
    fn an_address_that_cannot_be_used_is_refused() {
        let refused = |storage: ObjectStorage| Bucket::at(&storage).map(|_| ()).unwrap_err();
        for address in [
            "bucket",
            "s3://",
            "s3:///prefix",
            "s3://b?x/y",
            "gs://bucket",
            "s3://b//y",
        ] {
            let error = refused(ObjectStorage::new(address));
            assert!(matches!(error, OpenError::UnknownArtifacts), "{address}");
        }
        for name in ["AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"] {
            let plain =
                ObjectStorage::new("s3://bucket").setting(name, "http://storage.example.com");
            assert!(matches!(refused(plain), OpenError::ArtifactsNotEncrypted));
        }
        let half = ObjectStorage::new("s3://bucket").setting("AWS_ACCESS_KEY_ID", "AKIA0");
        assert!(matches!(refused(half), OpenError::Artifacts(_)));
        for address in [
            "s3://bucket",
            "s3://bucket/",
            "s3://my.bucket-1/a/b",
            "s3://bucket/a/",
        ] {
            Bucket::at(&ObjectStorage::new(address)).unwrap();
        }
    }
}
