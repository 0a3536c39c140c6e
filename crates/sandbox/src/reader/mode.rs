//! The helper mode that reads one document: gives up everything else first, then reads the request,
//! the document and nothing more.

use std::process::ExitCode;

use rustix::{fd::BorrowedFd, io::Errno, stdio};

use super::{
    confine::confine,
    wire::{MAX_REQUEST, ReadAnswer, ReadRequest},
};

/// The name of the mode.
pub(crate) const MODE: &str = "read-document";

/// The exit code for a document that is too large.
pub(super) const TOO_LARGE: u8 = 3;

/// How much is read at a time.
const PIECE: usize = 256 * 1024;

/// Reads one document.
pub(crate) fn run() -> ExitCode {
    if confine().is_err() {
        return ExitCode::from(2);
    }
    let Ok(request) = all_of(stdio::stdin()) else {
        return ExitCode::from(TOO_LARGE);
    };
    let Some((request, bytes)) = ReadRequest::parse(&request) else {
        return ExitCode::from(2);
    };
    let reading = haft_documents::read(&request.document(bytes));
    let Ok(answer) = serde_json::to_vec(&ReadAnswer::from(reading)) else {
        return ExitCode::from(2);
    };
    match write_all(stdio::stdout(), &answer) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::from(2),
    }
}

/// Everything until the end of a pipe, if it is no more than a request may be.
fn all_of(pipe: BorrowedFd<'_>) -> Result<Vec<u8>, Errno> {
    let (mut bytes, mut piece) = (Vec::new(), vec![0; PIECE]);
    loop {
        match rustix::io::read(pipe, &mut piece[..]) {
            Ok(0) => return Ok(bytes),
            Ok(read) => bytes.extend_from_slice(piece.get(..read).unwrap_or_default()),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
        if bytes.len() > MAX_REQUEST {
            return Err(Errno::FBIG);
        }
    }
}

fn write_all(pipe: BorrowedFd<'_>, mut bytes: &[u8]) -> Result<(), Errno> {
    while !bytes.is_empty() {
        match rustix::io::write(pipe, bytes) {
            Ok(written) => bytes = bytes.get(written..).unwrap_or_default(),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}
