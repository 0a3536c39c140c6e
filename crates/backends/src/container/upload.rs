//! Brings the helper into the container.
//!
//! It travels in an archive that `docker cp` unpacks, under a name nobody can guess; then it is
//! started once to check itself and take the name of its hash (`install.rs`). No shell and no
//! program of the container is needed.

use std::time::Duration;

use tokio::{
    io::{AsyncWriteExt as _, copy, sink},
    process::ChildStdin,
    time::timeout,
};

use super::{
    diagnose::diagnose_upload,
    options::ContainerOptions,
    program::{ConnectionPurpose, DIRECTORY, INCOMPLETE, launch},
};
use crate::{
    client_program::{RunningClient, random_name},
    remote::ConnectError,
};

/// How long copying it may take; a container may be on another machine.
const UPLOAD_LIMIT: Duration = Duration::from_mins(15);

/// How long checking it may take there.
const INSTALL_LIMIT: Duration = Duration::from_mins(1);

/// The size of a block of a tar archive.
const BLOCK: usize = 512;

/// Uploads a helper.
pub(super) async fn upload(options: &ContainerOptions, bytes: &[u8]) -> Result<(), ConnectError> {
    let name = random_name().map_err(|errno| {
        ConnectError::new(format!("this machine gives no random numbers: {errno}"))
    })?;
    let archive = Archive::new(&name, bytes);
    let (code, said) = call(
        options,
        ConnectionPurpose::Unpack,
        UPLOAD_LIMIT,
        Some(archive),
    )
    .await?;
    if code != Some(0) {
        return Err(diagnose_upload(options, code, &said));
    }
    let install = ConnectionPurpose::Install(&name);
    let (code, said) = call(options, install, INSTALL_LIMIT, None).await?;
    if code == Some(0) {
        Ok(())
    } else {
        Err(diagnose_upload(options, code, &said))
    }
}

/// Calls the program and waits for its end.
async fn call(
    options: &ContainerOptions,
    purpose: ConnectionPurpose<'_>,
    limit: Duration,
    archive: Option<Archive<'_>>,
) -> Result<(Option<i32>, String), ConnectError> {
    let (mut client, stdin, mut stdout) = RunningClient::start(launch(options, purpose)?)?;
    let told = async {
        if let Some(archive) = archive {
            // Why it stopped reading is in its last words.
            let _ = archive.write(stdin).await;
        } else {
            drop(stdin);
        }
        // It has nothing to say there, but must not block if it does.
        let _ = copy(&mut stdout, &mut sink()).await;
        client.ended().await
    };
    timeout(limit, told).await.map_err(|_| {
        ConnectError::new(format!(
            "bringing Haft's helper into `{}` took longer than {} s",
            options.container,
            limit.as_secs()
        ))
        .hint(format!(
            "check that `{} ps` answers",
            options.program.name()
        ))
    })
}

/// A tar archive with a directory and one program in it.
struct Archive<'a> {
    directory: [u8; BLOCK],
    file: [u8; BLOCK],
    bytes: &'a [u8],
}

impl<'a> Archive<'a> {
    fn new(name: &str, bytes: &'a [u8]) -> Self {
        Self {
            directory: header(&format!("{DIRECTORY}/"), b'5', 0o755, 0),
            file: header(
                &format!("{DIRECTORY}/{INCOMPLETE}{name}"),
                b'0',
                0o555,
                bytes.len(),
            ),
            bytes,
        }
    }

    async fn write(&self, mut stdin: ChildStdin) -> std::io::Result<()> {
        stdin.write_all(&self.directory).await?;
        stdin.write_all(&self.file).await?;
        stdin.write_all(self.bytes).await?;
        let padding = self.bytes.len().next_multiple_of(BLOCK) - self.bytes.len();
        // Two empty blocks are the end.
        let end = vec![0; padding + 2 * BLOCK];
        stdin.write_all(&end).await?;
        stdin.shutdown().await
    }
}

/// The header of an entry of root's, in the format of POSIX (`ustar`).
fn header(name: &str, kind: u8, mode: u32, size: usize) -> [u8; BLOCK] {
    let mut block = [0; BLOCK];
    let mut put = |at: usize, bytes: &[u8]| {
        for (to, from) in block.iter_mut().skip(at).zip(bytes) {
            *to = *from;
        }
    };
    put(0, name.as_bytes());
    put(100, format!("{mode:07o}").as_bytes());
    put(108, b"0000000");
    put(116, b"0000000");
    put(124, format!("{size:011o}").as_bytes());
    put(136, b"00000000000");
    // The sum is taken with spaces where it will be.
    put(148, b"        ");
    put(156, &[kind]);
    put(257, b"ustar\x0000");
    let sum: u32 = block.iter().copied().map(u32::from).sum();
    let text = format!("{sum:06o}\0 ");
    for (to, from) in block.iter_mut().skip(148).zip(text.as_bytes()) {
        *to = *from;
    }
    block
}
