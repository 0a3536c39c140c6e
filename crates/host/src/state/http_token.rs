//! The secret that clients of MCP over HTTP send: made at first use, in a file that only its owner
//! can read, and kept until it is replaced.

use std::path::{Path, PathBuf};

use haft_mcp::server::http::Token;

use super::private;
use crate::{
    error::{HostError, chain},
    random::fill_random,
};

/// The file, in the data directory.
const FILE: &str = "mcp-token";

/// The most bytes of the file that are read.
const MAX_BYTES: u64 = 4 * 1024;

/// How many random bytes a token is made of.
const RANDOM_BYTES: usize = 32;

/// A token and its file.
#[derive(Debug)]
pub struct HttpToken {
    /// In the form clients send it.
    pub text: String,
    /// In the form it is compared.
    pub token: Token,
    /// The file.
    pub path: PathBuf,
}

impl HttpToken {
    /// Reads the token in a data directory, or makes one if there is none.
    pub fn kept(data_dir: &Path) -> Result<Self, HostError> {
        let path = data_dir.join(FILE);
        let unusable = |why: &str| {
            HostError::config(
                format!("the token in `{}` cannot be used: {why}", path.display()),
                "`haft mcp token --new` makes another",
            )
        };
        let read = private::read_own(&path, MAX_BYTES).map_err(|error| unusable(&chain(&error)))?;
        let Some(bytes) = read else {
            return Self::make(data_dir);
        };
        let text = String::from_utf8(bytes).map_err(|_| unusable("it is not text"))?;
        let text = text.trim().to_owned();
        let token = Token::parse(&text).map_err(|error| unusable(&error.to_string()))?;
        Ok(Self { text, token, path })
    }

    /// Replaces the token with a new one.
    pub fn make(data_dir: &Path) -> Result<Self, HostError> {
        let path = data_dir.join(FILE);
        let failed = |why: &str| {
            HostError::config(
                format!("the token in `{}` cannot be made: {why}", path.display()),
                "check that the directory is yours and has room, or name another with `--data-dir`",
            )
        };
        let mut bytes = [0; RANDOM_BYTES];
        fill_random(&mut bytes).map_err(|error| failed(&error.to_string()))?;
        let text = bytes
            .iter()
            .fold(String::new(), |text, byte| format!("{text}{byte:02x}"));
        private::make_directory(data_dir)
            .and_then(|()| private::replace(&path, format!("{text}\n").as_bytes()))
            .map_err(|error| failed(&chain(&error)))?;
        let token = Token::parse(&text).map_err(|error| failed(&error.to_string()))?;
        Ok(Self { text, token, path })
    }
}
