//! `haft mcp token`: the secret that clients of `haft mcp --http` bring. Made at first use, in a file
//! that only its owner can read, and kept until it is replaced.

use std::path::PathBuf;

use clap::Args;
use haft_host::{config::Places, error::chain, state::private};
use haft_mcp::server::http::Token;
use rustix::rand::{GetRandomFlags, getrandom};

use super::super::{App, approvals::may_answer};
use crate::{exit::Exit, stop::Stop};

/// The file, in the data directory.
const FILE: &str = "mcp-token";

/// The most of the file that is looked at.
const MAX_BYTES: u64 = 4 * 1024;

/// How many random bytes a token is made of.
const RANDOM_BYTES: usize = 32;

/// Said with a new token.
const STAYS: &str = "a `haft mcp --http` that runs keeps the token it started with: start it again, and give its \
     clients this one";

/// Print the token that clients of `haft mcp --http` must send
#[derive(Debug, Args)]
pub(crate) struct TokenArgs {
    /// Make another; the one before is no longer good once the server is started again
    #[arg(long)]
    new: bool,
}

/// A token and where it is kept.
pub(super) struct Kept {
    pub(super) text: String,
    pub(super) token: Token,
    pub(super) path: PathBuf,
}

/// Runs the command.
pub(super) fn run(args: &TokenArgs, app: &App) -> Result<Exit, Stop> {
    // Whoever has it can answer questions through `haft mcp --http`.
    may_answer()?;
    let places = app.places()?;
    let kept = if args.new {
        make(&places)?
    } else {
        kept(&places)?
    };
    app.output.content(&kept.text)?;
    if args.new {
        app.notes([&STAYS.to_owned()]);
    }
    Ok(Exit::Ok)
}

/// The token; made if there is none.
pub(super) fn kept(places: &Places) -> Result<Kept, Stop> {
    let path = places.data_dir.join(FILE);
    let unusable = |why: &str| {
        Stop::config(
            format!("the token in `{}` cannot be used: {why}", path.display()),
            "`haft mcp token --new` makes another",
        )
    };
    let read = private::read_own(&path, MAX_BYTES).map_err(|error| unusable(&chain(&error)))?;
    let Some(bytes) = read else {
        return make(places);
    };
    let text = String::from_utf8(bytes).map_err(|_| unusable("it is not text"))?;
    let text = text.trim().to_owned();
    let token = Token::parse(&text).map_err(|error| unusable(&error.to_string()))?;
    Ok(Kept { text, token, path })
}

fn make(places: &Places) -> Result<Kept, Stop> {
    let path = places.data_dir.join(FILE);
    let failed = |why: &str| {
        Stop::config(
            format!("the token in `{}` cannot be made: {why}", path.display()),
            "check that the directory is yours and has room, or name another with `--data-dir`",
        )
    };
    let mut bytes = [0; RANDOM_BYTES];
    let filled = getrandom(&mut bytes, GetRandomFlags::empty());
    if filled.map_err(|error| failed(&error.to_string()))? != RANDOM_BYTES {
        return Err(failed("the system has no randomness"));
    }
    let text = bytes
        .iter()
        .fold(String::new(), |text, byte| format!("{text}{byte:02x}"));
    private::make_directory(&places.data_dir)
        .and_then(|()| private::replace(&path, format!("{text}\n").as_bytes()))
        .map_err(|error| failed(&chain(&error)))?;
    let token = Token::parse(&text).map_err(|error| failed(&error.to_string()))?;
    Ok(Kept { text, token, path })
}
