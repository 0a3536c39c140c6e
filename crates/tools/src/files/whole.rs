//! Reads a whole file for a tool that changes it, up to a cap on the bytes actually read (a file's
//! stated size can be wrong).

use haft_contract::{ErrorKind, ToolError, WorkPath, ops::FileReader, ops::FileVersion};

use crate::text::{display::one_line, paging::ByteSource};

/// The largest file that `edit` and `patch` work on.
pub(crate) const MAX_WHOLE_BYTES: usize = 32 * 1024 * 1024;

pub(crate) struct WholeFile {
    pub(crate) bytes: Vec<u8>,
    /// The version they were read from.
    pub(crate) version: FileVersion,
}

/// An open file as a source of bytes.
pub(crate) struct OpenFile<'f>(pub(crate) &'f dyn FileReader);

impl ByteSource for OpenFile<'_> {
    async fn read_at(
        &self,
        offset: u64,
        len: usize,
        buffer: Vec<u8>,
    ) -> Result<Vec<u8>, ToolError> {
        Ok(self.0.read_at(offset, len, buffer).await?)
    }
}

/// Reads all of an open file.
pub(crate) async fn read_whole(
    reader: &dyn FileReader,
    path: &WorkPath,
) -> Result<WholeFile, ToolError> {
    let stat = reader.stat();
    // Asking for one byte too many shows in a single read whether the file grew.
    let size = usize::try_from(stat.size).unwrap_or(usize::MAX);
    if size > MAX_WHOLE_BYTES {
        return Err(too_large(path));
    }
    let mut bytes = reader.read_at(0, size + 1, Vec::new()).await?;
    if bytes.len() > size {
        let rest = MAX_WHOLE_BYTES + 1 - bytes.len().min(MAX_WHOLE_BYTES);
        let more = reader.read_at(bytes.len() as u64, rest, Vec::new()).await?;
        bytes.extend_from_slice(&more);
    }
    if bytes.len() > MAX_WHOLE_BYTES {
        return Err(too_large(path));
    }
    Ok(WholeFile {
        bytes,
        version: stat.version.clone(),
    })
}

fn too_large(path: &WorkPath) -> ToolError {
    ToolError::new(
        ErrorKind::LimitExceeded,
        format!(
            "`{}` is larger than {} MiB",
            one_line(path.as_str()),
            MAX_WHOLE_BYTES / 1024 / 1024
        ),
    )
    .at("/path")
    .hint("change a file this large with a command in `bash`, such as `sed`")
}
