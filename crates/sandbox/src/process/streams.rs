//! What connects us to a child: pipes or a terminal, both ends.
//!
//! Made before the child, by the code that starts it: on the host or in a sandbox.

use std::{
    ffi::CStr,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use haft_contract::ops::{Input, Spawn, Stream};
use rustix::{
    fs::{Mode, OFlags, fcntl_setfl, open},
    io::Errno,
    pipe::{PipeFlags, pipe_with},
};

use super::{terminal::Terminal, waiting::InputSource};

/// The streams of a child, both ends.
pub(crate) struct Streams {
    /// The child's ends; each one's index is its number there.
    theirs: Vec<OwnedFd>,
    /// Our ends.
    pub(crate) ours: OurEnds,
    terminal_path: Option<std::ffi::CString>,
}

/// Our ends of a child's streams.
pub(crate) struct OurEnds {
    /// What we read from.
    pub(crate) output: Vec<(Stream, OwnedFd)>,
    /// Where its input comes from.
    pub(crate) input: InputEnd,
    /// Identifies its input in the process table, to see who reads it.
    pub(crate) source: Option<InputSource>,
    /// The terminal, where it has one.
    pub(crate) terminal: Option<OwnedFd>,
}

/// Our end of a child's input.
pub(crate) enum InputEnd {
    /// There is none: the child reads end of file.
    Closed,
    /// These bytes, then end of file.
    Feed(OwnedFd, Vec<u8>),
    /// Open until we close it.
    Open(OwnedFd),
}

impl Streams {
    /// Opens the streams for a child.
    pub(crate) fn open(spawn: &Spawn) -> Result<Self, Errno> {
        let mut streams = Self {
            theirs: Vec::with_capacity(4),
            ours: OurEnds {
                output: Vec::with_capacity(3),
                input: InputEnd::Closed,
                source: None,
                terminal: None,
            },
            terminal_path: None,
        };
        if let Some(size) = spawn.terminal {
            streams.add_terminal(Terminal::open(size)?, &spawn.input)?;
        } else {
            streams.add_input(&spawn.input)?;
            streams.add_output(Stream::Stdout)?;
            streams.add_output(Stream::Stderr)?;
        }
        if spawn.progress_channel {
            streams.add_output(Stream::Progress)?;
        }
        Ok(streams)
    }

    /// The child's ends, to be handed over in this order from 0. A terminal among them is not yet
    /// anybody's controlling terminal.
    pub(crate) fn for_child(&self) -> Vec<BorrowedFd<'_>> {
        self.theirs.iter().map(AsFd::as_fd).collect()
    }

    /// The name of the child's terminal on this machine, where it has one.
    pub(crate) fn terminal_path(&self) -> Option<&CStr> {
        self.terminal_path.as_deref()
    }

    fn add_input(&mut self, input: &Input) -> Result<(), Errno> {
        match input {
            Input::Closed => self.theirs.push(nothing()?),
            Input::Bytes(bytes) => {
                let ours = self.add_input_pipe()?;
                self.ours.input = InputEnd::Feed(ours, bytes.clone());
            }
            Input::Open => {
                let ours = self.add_input_pipe()?;
                self.ours.input = InputEnd::Open(ours);
            }
        }
        Ok(())
    }

    fn add_input_pipe(&mut self) -> Result<OwnedFd, Errno> {
        let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
        fcntl_setfl(&write, OFlags::NONBLOCK)?;
        self.ours.source = Some(InputSource::of(read.as_fd())?);
        self.theirs.push(read);
        Ok(write)
    }

    fn add_output(&mut self, stream: Stream) -> Result<(), Errno> {
        let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
        // Only our end: a child with non-blocking output would lose some of it.
        fcntl_setfl(&read, OFlags::NONBLOCK)?;
        self.theirs.push(write);
        self.ours.output.push((stream, read));
        Ok(())
    }

    fn add_terminal(&mut self, terminal: Terminal, input: &Input) -> Result<(), Errno> {
        self.ours.source = Some(InputSource::of(terminal.theirs.as_fd())?);
        match input {
            // End of file however often it is read, which no key on a terminal could do.
            Input::Closed => self.theirs.push(nothing()?),
            Input::Bytes(bytes) => {
                self.theirs.push(dup_closed_on_exec(&terminal.theirs)?);
                self.ours.input =
                    InputEnd::Feed(dup_closed_on_exec(&terminal.ours)?, bytes.clone());
            }
            Input::Open => {
                self.theirs.push(dup_closed_on_exec(&terminal.theirs)?);
                self.ours.input = InputEnd::Open(dup_closed_on_exec(&terminal.ours)?);
            }
        }
        self.theirs.push(dup_closed_on_exec(&terminal.theirs)?);
        self.theirs.push(terminal.theirs);
        let output = dup_closed_on_exec(&terminal.ours)?;
        self.ours.output.push((Stream::Stdout, output));
        self.ours.terminal = Some(terminal.ours);
        self.terminal_path = Some(terminal.path);
        Ok(())
    }
}

/// An input that is at end of file.
fn nothing() -> Result<OwnedFd, Errno> {
    open("/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
}

fn dup_closed_on_exec(descriptor: &OwnedFd) -> Result<OwnedFd, Errno> {
    rustix::io::fcntl_dupfd_cloexec(descriptor, 0)
}
