//! The limits of a mounted server. A server that exceeds one gets an error or is ended; it never
//! makes Haft hold more.

use std::time::Duration;

/// The largest accepted message, in bytes: a line on a pipe, or an HTTP body or event.
pub const MESSAGE_BYTES: usize = 16 * 1024 * 1024;

/// How long a message may stay unfinished once it has begun.
pub const UNFINISHED: Duration = Duration::from_secs(30);

/// How much of a server's stderr is kept, in bytes, from the end.
pub const LAST_WORDS_BYTES: usize = 16 * 1024;

/// How many messages may wait to be written to a server.
pub const WAITING_MESSAGES: usize = 64;

/// How many log messages of one request may wait; the rest are dropped.
pub const WAITING_LOGS: usize = 64;

/// How large one log message may be, in bytes of JSON; a larger one is dropped.
pub const LOG_BYTES: usize = 64 * 1024;

/// How large one question may be, in bytes of JSON; a larger one is refused.
pub const QUESTION_BYTES: usize = 256 * 1024;

/// How many questions a server may ask during one request, or in one round of it.
pub const QUESTIONS: usize = 16;

/// How often a server may answer a request with questions instead of a result.
pub const ROUNDS: usize = 10;

/// How many log messages of one request are passed on each second.
pub const LOGS_PER_SECOND: u32 = 50;

/// How long a server has to answer the era probe before the older era is tried in parallel.
pub const PROBE: Duration = Duration::from_secs(5);

/// How long an answer to one of our own requests (lists, the handshake) may take.
pub const OWN_REQUEST: Duration = Duration::from_secs(30);

/// How long a server's process has to end by itself once its input is closed.
pub const CLOSING: Duration = Duration::from_secs(2);

/// How long it then has after SIGTERM before it is killed.
pub const TERMINATING: Duration = Duration::from_secs(2);

/// How many pages of one list are fetched.
pub const PAGES: usize = 200;

/// How many entries one list may have.
pub const ENTRIES: usize = 5_000;

/// How large one definition may be, in bytes of JSON.
pub const DEFINITION_BYTES: usize = 512 * 1024;

/// How large all definitions of a server may be together, in bytes of JSON.
pub const DEFINITIONS_BYTES: usize = 16 * 1024 * 1024;

/// How long the name of a tool or prompt may be, in bytes.
pub const NAME_BYTES: usize = 256;

/// How long a URI may be, in bytes.
pub const URI_BYTES: usize = 8 * 1024;

/// How long changes are gathered before they are announced.
pub const COALESCE: Duration = Duration::from_millis(100);

/// How many changed resources are announced one by one; more become one change of everything.
pub const CHANGED_RESOURCES: usize = 256;

/// How many resources of one server are subscribed to.
pub const SUBSCRIPTIONS: usize = 1_000;

/// How many content blocks a result may have.
pub const CONTENT_PIECES: usize = 1_000;

/// How much of a server's own text is quoted, in characters.
pub const WORDS_CHARS: usize = 2_000;

/// How often a request's broken stream is resumed without anything new on it.
pub const RESUMPTIONS: usize = 5;

/// How long the first call to an older server waits until its own stream is open, or refused: what
/// such a server asks or tells in the middle of a call has no other way to us. Servers that keep
/// back the head of the stream until they have something to say cost this once.
pub const LISTENING: Duration = Duration::from_millis(250);

/// The longest wait before a stream is opened again.
pub const REOPEN: Duration = Duration::from_secs(30);

/// How many redirects within the same origin are followed.
pub const REDIRECTS: usize = 3;
