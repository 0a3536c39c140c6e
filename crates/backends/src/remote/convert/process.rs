//! Converts between the contract's process types and those of the wire, both ways; `mod.rs` has the
//! rest and explains how invalid messages are handled.

use std::sync::Arc;

use haft_contract::{
    Masks,
    access::Command,
    egress::{EgressRules, HostRule},
    ops::{
        ChildExit, ExitStatus, Input, Layer, Limit, OutputChunk, Refusal, SharedLoopback, Spawn,
        Stream, TerminalSize,
    },
};

use super::{MalformedMessage, path, tier};
use crate::remote::wire;

/// A byte for the stream and a sequence number, before what a child wrote.
const OUTPUT_HEAD_BYTES: usize = 1 + 8;

/// A spawn for the wire, and the bytes for its standard input.
pub(crate) fn spawn_to_wire(spawn: Spawn) -> (wire::Spawn, Vec<u8>) {
    let (input, body) = match spawn.input {
        Input::Closed => (wire::Input::Closed, Vec::new()),
        Input::Bytes(bytes) => (wire::Input::Body, bytes),
        Input::Open => (wire::Input::Open, Vec::new()),
    };
    let wire = wire::Spawn {
        command: match spawn.command {
            Command::Shell(text) => wire::Command::Shell(text),
            Command::Argv(words) => wire::Command::Argv(words),
        },
        cwd: spawn.cwd.as_str().to_owned(),
        environment: spawn.environment,
        tier: spawn.tier.as_str().to_owned(),
        input,
        terminal: spawn.terminal.map(|size| (size.rows, size.columns)),
        egress: spawn.egress.as_deref().map(Into::into),
        hosts_named_in: spawn.hosts_named_in,
        loopback: spawn.loopback.map(|name| name.as_str().to_owned()),
        progress_channel: spawn.progress_channel,
        pinned: spawn.pinned,
    };
    (wire, body)
}

/// A spawn from the wire, with the bytes for its standard input.
pub(crate) fn spawn_from_wire(
    spawn: wire::Spawn,
    body: Vec<u8>,
) -> Result<Spawn, MalformedMessage> {
    Ok(Spawn {
        command: match spawn.command {
            wire::Command::Shell(text) => Command::Shell(text),
            wire::Command::Argv(words) => Command::Argv(words),
        },
        cwd: path(&spawn.cwd)?,
        environment: spawn.environment,
        tier: tier(&spawn.tier)?,
        input: match spawn.input {
            wire::Input::Closed => Input::Closed,
            wire::Input::Body => Input::Bytes(body),
            wire::Input::Open => Input::Open,
        },
        terminal: spawn
            .terminal
            .map(|(rows, columns)| TerminalSize { rows, columns }),
        egress: spawn
            .egress
            .map(TryInto::try_into)
            .transpose()?
            .map(Arc::new),
        hosts_named_in: spawn.hosts_named_in,
        loopback: spawn.loopback.map(SharedLoopback::new),
        // The other side holds none, so a spawn never has any when it gets here.
        masks: Masks::NONE,
        attempted_masks: Masks::NONE,
        progress_channel: spawn.progress_channel,
        pinned: spawn.pinned,
    })
}

impl From<&EgressRules> for wire::Egress {
    fn from(rules: &EgressRules) -> Self {
        let texts = |rules: &[HostRule]| rules.iter().map(ToString::to_string).collect();
        Self {
            allow: texts(&rules.allow),
            deny: texts(&rules.deny),
        }
    }
}

impl TryFrom<wire::Egress> for EgressRules {
    type Error = MalformedMessage;

    fn try_from(egress: wire::Egress) -> Result<Self, MalformedMessage> {
        let rules = |texts: Vec<String>| {
            texts
                .iter()
                .map(|text| HostRule::parse(text).map_err(|_| MalformedMessage("host rule")))
                .collect::<Result<Vec<_>, _>>()
        };
        Ok(Self {
            allow: rules(egress.allow)?,
            deny: rules(egress.deny)?,
        })
    }
}

impl From<ChildExit> for wire::WireChildExit {
    fn from(exit: ChildExit) -> Self {
        Self {
            status: match exit.status {
                ExitStatus::Code(code) => wire::ExitStatus::Code(code),
                ExitStatus::Signal(signal) => wire::ExitStatus::Signal(signal),
            },
            exceeded: exit.exceeded.map(|limit| limit.as_str().to_owned()),
            refusals: exit
                .refusals
                .into_iter()
                .map(|refusal| wire::Refusal {
                    layer: refusal.layer.as_str().to_owned(),
                    what: refusal.what,
                    why: refusal.why,
                })
                .collect(),
        }
    }
}

impl TryFrom<wire::WireChildExit> for ChildExit {
    type Error = MalformedMessage;

    fn try_from(exit: wire::WireChildExit) -> Result<Self, MalformedMessage> {
        let limit = |word: String| Limit::parse(&word).ok_or(MalformedMessage("limit"));
        let refusal = |refusal: wire::Refusal| {
            Ok(Refusal {
                layer: Layer::parse(&refusal.layer).ok_or(MalformedMessage("layer"))?,
                what: refusal.what,
                why: refusal.why,
            })
        };
        Ok(Self {
            status: match exit.status {
                wire::ExitStatus::Code(code) => ExitStatus::Code(code),
                wire::ExitStatus::Signal(signal) => ExitStatus::Signal(signal),
            },
            exceeded: exit.exceeded.map(limit).transpose()?,
            refusals: exit
                .refusals
                .into_iter()
                .take(Refusal::MAX)
                .map(refusal)
                .collect::<Result<_, MalformedMessage>>()?,
        })
    }
}

/// A piece of output as the body of a frame.
pub(crate) fn chunk_to_wire(chunk: &OutputChunk) -> Vec<u8> {
    let mut body = Vec::with_capacity(OUTPUT_HEAD_BYTES + chunk.bytes.len());
    body.push(match chunk.stream {
        Stream::Stdout => 1,
        Stream::Stderr => 2,
        Stream::Progress => 3,
    });
    body.extend_from_slice(&chunk.sequence.to_be_bytes());
    body.extend_from_slice(&chunk.bytes);
    body
}

/// A piece of output from the body of a frame.
pub(crate) fn chunk_from_wire(body: &[u8]) -> Result<OutputChunk, MalformedMessage> {
    const GARBLED: MalformedMessage = MalformedMessage("piece of output");
    let (stream, rest) = body.split_first().ok_or(GARBLED)?;
    let (sequence, bytes) = rest.split_first_chunk::<8>().ok_or(GARBLED)?;
    let stream = match stream {
        1 => Stream::Stdout,
        2 => Stream::Stderr,
        3 => Stream::Progress,
        _ => return Err(GARBLED),
    };
    Ok(OutputChunk {
        sequence: u64::from_be_bytes(*sequence),
        stream,
        bytes: bytes.to_vec(),
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use haft_contract::{WorkPath, ops::Tier};

    use super::*;

    #[test]
    fn a_spawn_comes_through_whole() {
        let spawn = Spawn {
            command: Command::Argv(vec!["-x".to_owned(), "a'b\"$(c)\n\u{1f600}".to_owned()]),
            cwd: WorkPath::relative("-dir/'quoted'\n").unwrap(),
            environment: BTreeMap::from([("A".to_owned(), "\u{1b}[0m".to_owned())]),
            tier: Tier::T2,
            input: Input::Bytes(vec![0, 255, 10]),
            terminal: Some(TerminalSize {
                rows: 24,
                columns: 80,
            }),
            egress: Some(Arc::new(EgressRules {
                allow: vec![HostRule::parse("*.docs.rs:8443").unwrap()],
                deny: vec![HostRule::parse("[::1]:80").unwrap()],
            })),
            hosts_named_in: Some("`hosts` of its manifest".to_owned()),
            loopback: Some(SharedLoopback::new("a/b")),
            masks: Masks::NONE,
            attempted_masks: Masks::NONE,
            progress_channel: true,
            pinned: Some([7; 32]),
        };
        let (wire, body) = spawn_to_wire(spawn.clone());
        let text = serde_json::to_vec(&wire).unwrap();
        let back = spawn_from_wire(serde_json::from_slice(&text).unwrap(), body).unwrap();
        assert_eq!(format!("{back:?}"), format!("{spawn:?}"));
    }

    #[test]
    fn an_end_comes_through_whole() {
        let exit = ChildExit {
            status: ExitStatus::Signal(9),
            exceeded: Some(Limit::Memory),
            refusals: vec![Refusal {
                layer: Layer::Seccomp,
                what: "ptrace".to_owned(),
                why: "no setting allows it".to_owned(),
            }],
        };
        assert_eq!(
            ChildExit::try_from(wire::WireChildExit::from(exit.clone())),
            Ok(exit)
        );
    }

    #[test]
    fn output_comes_through_whole_and_nonsense_is_told() {
        let chunk = OutputChunk {
            sequence: u64::MAX,
            stream: Stream::Progress,
            bytes: vec![0, 1, 2, 255],
        };
        assert_eq!(chunk_from_wire(&chunk_to_wire(&chunk)), Ok(chunk));
        for body in [b"".as_slice(), b"\x01short", b"\x09\0\0\0\0\0\0\0\0x"] {
            assert!(chunk_from_wire(body).is_err(), "{body:?}");
        }
    }
}
