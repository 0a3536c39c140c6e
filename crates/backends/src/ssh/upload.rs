//! Uploads the helper to the other side, over SFTP.
//!
//! It is written under a name nobody can guess, read back and compared, and only then renamed to
//! its hash, so that a file with that name is complete. Its directory belongs to the account alone.
//! Must not be used for a workspace's files: SFTP follows symlinks by name and loses races.

use std::time::Duration;

use russh_sftp::{
    client::{Config, SftpSession, error::Error as SftpError},
    protocol::{FileAttributes, OpenFlags},
};
use sha2::{Digest as _, Sha256};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    time::timeout,
};

use super::{
    diagnose::{diagnose, is_silent},
    options::SshOptions,
    program::{ConnectionPurpose, DIRECTORY, helper_path, launch},
};
use crate::{
    client_program::{Digest, RunningClient, SILENT_TRIES, random_name},
    remote::ConnectError,
};

/// How long one request may take.
const REQUEST_SECONDS: u64 = 30;

/// How long the whole transfer may take.
const UPLOAD_LIMIT: Duration = Duration::from_mins(15);

/// How long `ssh` may take to report why it ended.
const LAST_WORDS_LIMIT: Duration = Duration::from_secs(2);

/// Read, write and execute for the account alone.
const PRIVATE: u32 = 0o700;

/// Permission bits for anyone but the account.
const FOR_OTHERS: u32 = 0o077;

/// The file type bits of a mode.
const KIND_MASK: u32 = 0o170_000;
const DIRECTORY_KIND: u32 = 0o040_000;

/// How a transfer went.
#[derive(Debug, PartialEq, Eq)]
enum Transfer {
    Done,
    /// The connection ended without a reason.
    Silent,
}

/// Uploads a helper under the name of its hash.
pub(super) async fn upload(
    options: &SshOptions,
    digest: &Digest,
    bytes: &[u8],
) -> Result<(), ConnectError> {
    for _ in 0..SILENT_TRIES {
        if upload_once(options, digest, bytes).await? == Transfer::Done {
            return Ok(());
        }
    }
    Err(diagnose(&options.destination, None, ""))
}

async fn upload_once(
    options: &SshOptions,
    digest: &Digest,
    bytes: &[u8],
) -> Result<Transfer, ConnectError> {
    let (mut ssh, stdin, stdout) = RunningClient::start(launch(options, ConnectionPurpose::Sftp)?)?;
    let stream = tokio::io::join(stdout, stdin);
    let config = Config {
        request_timeout_secs: REQUEST_SECONDS,
        ..Config::default()
    };
    let transfer = async {
        let sftp = SftpSession::new_with_config(stream, config).await?;
        let transferred = transfer(&sftp, digest, bytes).await;
        let _ = sftp.close().await;
        transferred
    };
    let failed = match timeout(UPLOAD_LIMIT, transfer).await {
        Ok(Ok(())) => return Ok(Transfer::Done),
        Ok(Err(failed)) => failed,
        Err(_) => UploadError::new(format!("it took longer than {} s", UPLOAD_LIMIT.as_secs())),
    };
    // If `ssh` itself failed, it knows better why.
    match timeout(LAST_WORDS_LIMIT, ssh.ended()).await {
        Ok((code, said)) if is_silent(code, &said) => Ok(Transfer::Silent),
        Ok((code, said)) if code != Some(0) => Err(diagnose(&options.destination, code, &said)),
        _ => Err(ConnectError::new(format!(
            "Haft's helper cannot be uploaded to `{}`: {}",
            options.destination, failed.0
        ))
        .hint("check that `~/.cache` there belongs to the account and has room")),
    }
}

/// The message for what went wrong.
struct UploadError(String);

impl UploadError {
    fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}

impl From<SftpError> for UploadError {
    fn from(error: SftpError) -> Self {
        Self(error.to_string())
    }
}

impl From<rustix::io::Errno> for UploadError {
    fn from(errno: rustix::io::Errno) -> Self {
        Self(errno.to_string())
    }
}

impl From<std::io::Error> for UploadError {
    fn from(error: std::io::Error) -> Self {
        Self(error.to_string())
    }
}

async fn transfer(sftp: &SftpSession, digest: &Digest, bytes: &[u8]) -> Result<(), UploadError> {
    make_directory(sftp).await?;
    let temporary = format!("{}/.upload-{}", DIRECTORY[1], random_name()?);
    let written = write_and_compare(sftp, &temporary, digest, bytes).await;
    if let Err(error) = written {
        // Leaves no incomplete file behind.
        let _ = sftp.remove_file(temporary).await;
        return Err(error);
    }
    let name = helper_path(digest);
    match sftp.rename(temporary.as_str(), name.as_str()).await {
        Ok(()) => Ok(()),
        // Another Haft was faster: a file with this name is complete.
        Err(error) => {
            let _ = sftp.remove_file(temporary).await;
            match sftp.symlink_metadata(name).await {
                Ok(there) if there.size == Some(bytes.len() as u64) => Ok(()),
                _ => Err(error.into()),
            }
        }
    }
}

/// Makes the helper's directory, or checks that it belongs to the account alone.
async fn make_directory(sftp: &SftpSession) -> Result<(), UploadError> {
    for directory in DIRECTORY {
        // It may already exist; it is checked below.
        let _ = sftp.create_dir(directory).await;
    }
    let home = sftp.metadata(".").await?;
    let found = sftp.symlink_metadata(DIRECTORY[1]).await?;
    let mode = found.permissions.unwrap_or_default();
    if mode & KIND_MASK != DIRECTORY_KIND {
        return Err(UploadError::new("`~/.cache/haft` is not a directory there"));
    }
    if found.uid != home.uid {
        return Err(UploadError::new(
            "`~/.cache/haft` belongs to another account there",
        ));
    }
    if mode & FOR_OTHERS != 0 {
        sftp.set_metadata(DIRECTORY[1], private()).await?;
    }
    Ok(())
}

async fn write_and_compare(
    sftp: &SftpSession,
    path: &str,
    digest: &Digest,
    bytes: &[u8],
) -> Result<(), UploadError> {
    let new = OpenFlags::CREATE | OpenFlags::EXCLUDE | OpenFlags::WRITE;
    let mut file = sftp
        .open_with_flags_and_attributes(path, new, private())
        .await?;
    file.write_all(bytes).await?;
    file.flush().await?;
    // Undoes what the account's umask removed.
    file.set_metadata(private()).await?;
    file.sync_all().await?;
    file.shutdown().await?;
    let mut back = sftp.open(path).await?;
    let mut hash = Sha256::new();
    let mut length = 0;
    let mut buffer = vec![0; 256 * 1024];
    loop {
        let got = back.read(&mut buffer).await?;
        if got == 0 {
            break;
        }
        length += got;
        hash.update(buffer.get(..got).unwrap_or_default());
        if length > bytes.len() {
            break;
        }
    }
    if length == bytes.len() && Digest::from(hash) == *digest {
        Ok(())
    } else {
        Err(UploadError::new(
            "the bytes that arrived are not the ones that were sent",
        ))
    }
}

fn private() -> FileAttributes {
    FileAttributes {
        permissions: Some(PRIVATE),
        ..FileAttributes::empty()
    }
}
