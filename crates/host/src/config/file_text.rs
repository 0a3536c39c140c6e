//! The texts of files of configuration: read with a cap on their size, and refused in plain words.

use std::path::Path;

use crate::{error::HostError, state::private};

/// The text of a file that was named explicitly, so it must exist.
pub(super) fn existing_text_of(file: &Path) -> Result<String, HostError> {
    text_of(file)?.ok_or_else(|| {
        HostError::config(
            format!("there is no configuration file `{}`", file.display()),
            "name an existing file",
        )
    })
}

/// The bytes of a file, if it is there.
pub(super) fn bytes_of(path: &Path) -> Result<Option<Vec<u8>>, HostError> {
    private::read(path, private::MAX_CONFIG_BYTES).map_err(|error| {
        HostError::config(
            format!("`{}` cannot be read: {error}", path.display()),
            "check who may read it",
        )
    })
}

/// The text of one of the operator's own files, which is used without being pinned.
pub(super) fn own_text_of(path: &Path) -> Result<Option<String>, HostError> {
    let bytes = private::read_own(path, private::MAX_CONFIG_BYTES).map_err(|error| {
        HostError::config(
            format!("`{}` cannot be used: {error}", path.display()),
            "Haft reads it without `haft trust`, so only you may own it and write to it: `chmod go-w`",
        )
    })?;
    bytes.map(|bytes| utf8(path, bytes)).transpose()
}

/// The text of a file, if it is there.
pub(super) fn text_of(path: &Path) -> Result<Option<String>, HostError> {
    bytes_of(path)?.map(|bytes| utf8(path, bytes)).transpose()
}

/// These bytes of a file as text.
pub(super) fn utf8(path: &Path, bytes: Vec<u8>) -> Result<String, HostError> {
    String::from_utf8(bytes).map_err(|_| {
        HostError::config(
            format!("`{}` is not UTF-8", path.display()),
            "save it as UTF-8",
        )
    })
}
