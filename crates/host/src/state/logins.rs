//! Stores the tokens for mounted servers: one file per login, readable by its owner alone, in a
//! directory that nobody else can enter. No keyring: those of desktops are not available where
//! agents run, on servers and in containers, and a token must not wait for somebody to unlock it.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io,
    os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use haft_contract::future::BoxFuture;
use haft_mcp::upstream::auth::vault::{Key, MAX_RECORD_BYTES, RefreshTurn, Vault, VaultError};
use tokio::time::Instant;

use super::private;

/// The directory, in the data directory.
const DIRECTORY: &str = "mcp/logins";

/// How long to wait for another process that is refreshing the same token. A refresh takes a minute
/// at most.
const TURN_WITHIN: Duration = Duration::from_secs(70);

/// How often to check whether it is done.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The permission bits that give access to anybody but the owner.
const OPEN_TO_OTHERS: u32 = 0o077;

/// The tokens of one data directory.
#[derive(Debug, Clone)]
pub struct Logins {
    directory: Arc<Path>,
}

impl Logins {
    /// The tokens that are kept in a data directory.
    pub fn of(data_dir: &Path) -> Self {
        Self {
            directory: Arc::from(data_dir.join(DIRECTORY)),
        }
    }

    fn path(&self, key: &Key, extension: &str) -> PathBuf {
        self.directory.join(format!("{}.{extension}", key.as_str()))
    }

    /// Creates the directory, and refuses one that others can enter.
    fn own(&self) -> io::Result<()> {
        private::make_directory(&self.directory)?;
        let mode = fs::metadata(&self.directory)?.permissions().mode() & 0o7777;
        if mode & OPEN_TO_OTHERS != 0 {
            let at = self.directory.display();
            let why = format!("`{at}` can be entered by others (mode {mode:04o}); `chmod 700` it");
            return Err(io::Error::other(why));
        }
        Ok(())
    }

    fn load(&self, key: &Key) -> io::Result<Option<Vec<u8>>> {
        let path = self.path(key, "json");
        let limit = u64::try_from(MAX_RECORD_BYTES).unwrap_or(u64::MAX);
        let found = private::read_own(&path, limit)?;
        if found.is_some() {
            self.own()?;
        }
        Ok(found)
    }

    fn save(&self, key: &Key, record: &[u8]) -> io::Result<()> {
        self.own()?;
        private::replace(&self.path(key, "json"), record)
    }

    fn remove(&self, key: &Key) -> io::Result<bool> {
        match fs::remove_file(self.path(key, "json")) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The file whose lock serializes refreshes. It is never removed, because that would let two in
    /// at once.
    fn turnstile(&self, key: &Key) -> io::Result<File> {
        self.own()?;
        OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .open(self.path(key, "lock"))
    }
}

impl Vault for Logins {
    fn load<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Option<Vec<u8>>, VaultError>> {
        let (this, key) = (self.clone(), key.clone());
        Box::pin(aside(move || this.load(&key)))
    }

    fn save<'a>(&'a self, key: &'a Key, record: Vec<u8>) -> BoxFuture<'a, Result<(), VaultError>> {
        let (this, key) = (self.clone(), key.clone());
        Box::pin(aside(move || this.save(&key, &record)))
    }

    fn remove<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<bool, VaultError>> {
        let (this, key) = (self.clone(), key.clone());
        Box::pin(aside(move || this.remove(&key)))
    }

    fn turn<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<RefreshTurn, VaultError>> {
        let (this, key) = (self.clone(), key.clone());
        Box::pin(async move {
            let file = aside(move || this.turnstile(&key)).await?;
            let until = Instant::now() + TURN_WITHIN;
            loop {
                match file.try_lock() {
                    Ok(()) => return Ok(Box::new(file) as RefreshTurn),
                    Err(TryLockError::Error(error)) => return Err(VaultError(error.to_string())),
                    Err(TryLockError::WouldBlock) if Instant::now() >= until => {
                        let why = "another `haft` has been refreshing a token for too long";
                        return Err(VaultError(why.to_owned()));
                    }
                    Err(TryLockError::WouldBlock) => tokio::time::sleep(LOOK_EVERY).await,
                }
            }
        })
    }
}

/// Does file work on a thread where it blocks nobody.
async fn aside<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, VaultError> {
    let done = tokio::task::spawn_blocking(work).await;
    let done = done.unwrap_or_else(|error| Err(io::Error::other(error)));
    done.map_err(|error| VaultError(error.to_string()))
}

#[cfg(test)]
mod tests {
    use haft_contract::{TenantId, UserId};

    use super::*;

    fn key(user: &str) -> Key {
        let server = "https://mcp.example.com/mcp".parse().unwrap();
        let tenant = TenantId::parse("local").unwrap();
        Key::new(&server, &tenant, &UserId::parse(user).unwrap())
    }

    #[tokio::test]
    async fn tokens_are_kept_for_their_owner_alone() {
        let data = tempfile::tempdir().unwrap();
        let logins = Logins::of(data.path());
        let vault: &dyn Vault = &logins;
        assert_eq!(vault.load(&key("ada")).await, Ok(None));
        vault.save(&key("ada"), b"{}".to_vec()).await.unwrap();
        assert_eq!(vault.load(&key("ada")).await, Ok(Some(b"{}".to_vec())));
        assert_eq!(vault.load(&key("bob")).await, Ok(None));
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
        assert_eq!(mode(&logins.directory), 0o700);
        assert_eq!(mode(&logins.path(&key("ada"), "json")), 0o600);
        assert_eq!(vault.remove(&key("ada")).await, Ok(true));
        assert_eq!(vault.remove(&key("ada")).await, Ok(false));
    }

    #[tokio::test]
    async fn a_directory_that_others_can_enter_is_not_used() {
        let data = tempfile::tempdir().unwrap();
        let logins = Logins::of(data.path());
        let vault: &dyn Vault = &logins;
        vault.save(&key("ada"), b"{}".to_vec()).await.unwrap();
        fs::set_permissions(&logins.directory, fs::Permissions::from_mode(0o755)).unwrap();
        assert!(vault.load(&key("ada")).await.is_err());
        assert!(vault.save(&key("ada"), b"{}".to_vec()).await.is_err());
    }

    #[tokio::test]
    async fn one_turn_at_a_time_also_between_processes() {
        let data = tempfile::tempdir().unwrap();
        let (one, other) = (Logins::of(data.path()), Logins::of(data.path()));
        let (key, other_key) = (key("ada"), key("bob"));
        let turn = one.turn(&key).await.unwrap();
        let waiting = tokio::time::timeout(LOOK_EVERY * 3, other.turn(&key)).await;
        assert!(waiting.is_err());
        other.turn(&other_key).await.unwrap();
        drop(turn);
        other.turn(&key).await.unwrap();
    }
}
