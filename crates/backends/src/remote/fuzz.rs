//! Hostile bytes against the frames of a remote workspace and their bodies. Either side may be the
//! compromised one.

use std::time::Duration;

use haft_contract::ops::{ChildExit, ResolvedPath};
use haft_testkit::{Fuzz, ParseOutcome};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use super::{
    convert::{chunk_from_wire, chunk_to_wire, path, spawn_from_wire, spawn_to_wire},
    frame::{Frame, FrameError, FrameReader, Kind, MAGIC, MAX_FRAME_BYTES},
    wire,
};

fn bytes_of(frame: &Frame) -> Vec<u8> {
    [frame.head().unwrap().as_slice(), &frame.body].concat()
}

fn seeds() -> Vec<Vec<u8>> {
    let text = |body: &str| body.as_bytes().to_vec();
    let frames = [
        Frame::new(Kind::Hello, 0, text(r#"{"protocol":2,"version":"0.1.0"}"#)),
        Frame::new(
            Kind::Request,
            1,
            text(r#"{"limit_ms":5,"body_bytes":0,"request":{"stat":{"path":"a"}}}"#),
        ),
        Frame::new(Kind::Data, 1, vec![0; 40]),
        Frame::bare(Kind::Finish, 1),
        Frame::new(Kind::Reply, u64::MAX, text(r#""done""#)),
        Frame::new(
            Kind::Output,
            2,
            [&[1][..], &7_u64.to_be_bytes(), b"out"].concat(),
        ),
        Frame::credit(2, 65_536),
        Frame::bare(Kind::Cancel, 3),
        Frame::bare(Kind::Ping, 0),
    ];
    let mut seeds: Vec<Vec<u8>> = frames.iter().map(bytes_of).collect();
    let all = seeds.concat();
    seeds.push([b"Last login: today\r\n".as_slice(), MAGIC, &all].concat());
    seeds.push(all);
    seeds
}

/// Every frame of a stream, and the error that ended it.
async fn frames(bytes: &[u8]) -> (Vec<Frame>, FrameError) {
    let mut reader = FrameReader::new(bytes);
    let mut frames = Vec::new();
    loop {
        match reader.next().await {
            Ok(frame) => frames.push(frame),
            Err(error) => return (frames, error),
        }
    }
}

#[test]
fn remote_frames_are_what_their_bytes_say_wherever_the_stream_is_cut() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let words: [&[u8]; 10] = [
        MAGIC,
        b"\0haft-remote/1",
        b"\0\0\0\x09",
        b"\0\0\0\x0a\x02",
        b"\0\x40\0\0",
        b"\0\x40\0\x01",
        b"\xff\xff\xff\xff",
        b"\0\0\0\x09\x08\0\0\0\0\0\0\0\0",
        b"\x0a",
        b"\x0b",
    ];
    Fuzz::seeds(seeds())
        .words(words)
        .inputs(1_200)
        .longest(1024)
        .run(|bytes| {
            let (read, error) = runtime.block_on(frames(bytes));
            let written: Vec<u8> = read.iter().flat_map(bytes_of).collect();
            assert!(bytes.starts_with(&written), "the frames are not the bytes");
            check_end(&bytes[written.len()..], &error);
            for cut in (0..bytes.len()).step_by(1 + bytes.len() / 24) {
                let (early, error) = runtime.block_on(frames(&bytes[..cut]));
                assert!(read.starts_with(&early), "another frame after {cut}");
                let rest = &bytes[..cut][early.iter().flat_map(bytes_of).count()..];
                check_end(rest, &error);
            }
            for frame in &read {
                if let Ok(chunk) = chunk_from_wire(&frame.body) {
                    assert_eq!(chunk_to_wire(&chunk), frame.body);
                }
                if let Some(credit) = frame.granted() {
                    assert_eq!(Frame::credit(1, credit).body, frame.body);
                }
            }
            magic(&runtime, bytes);
            if read.is_empty() {
                ParseOutcome::Refused
            } else {
                ParseOutcome::Taken
            }
        });
}

/// The error that ended a stream matches its next bytes.
fn check_end(rest: &[u8], error: &FrameError) {
    let length = rest
        .first_chunk::<4>()
        .map(|length| u32::from_be_bytes(*length) as usize);
    match (length, rest.get(4), error) {
        (Some(length), _, FrameError::Length(said)) => {
            assert_eq!(length, *said);
            assert!(!(9..=MAX_FRAME_BYTES).contains(&length), "{length}");
        }
        (Some(length), Some(kind), FrameError::Kind(said)) => {
            assert_eq!(kind, said);
            assert!((9..=MAX_FRAME_BYTES).contains(&length), "{length}");
            assert!(*kind > Kind::Pong as u8, "{kind}");
        }
        (length, _, FrameError::Ended) => {
            assert!(
                length.is_none_or(|length| rest.len() < 4 + length),
                "a whole frame was left"
            );
        }
        other => panic!("{other:?}"),
    }
}

/// The first occurrence of the magic is found, and what follows it is read from there.
fn magic(runtime: &tokio::runtime::Runtime, bytes: &[u8]) {
    let place = bytes
        .windows(MAGIC.len())
        .position(|window| window == MAGIC);
    let mut reader = FrameReader::new(bytes);
    let found = runtime.block_on(reader.find_magic());
    assert_eq!(found.is_ok(), place.is_some(), "{found:?}");
    if let Some(place) = place {
        let next = runtime.block_on(reader.next()).ok();
        let (read, _) = runtime.block_on(frames(&bytes[place + MAGIC.len()..]));
        assert_eq!(next, read.into_iter().next());
    }
}

/// Bodies of every kind that either side parses.
fn bodies() -> Vec<String> {
    let spawn = json!({
        "command": { "argv": ["ls", "-l"] }, "cwd": "src", "environment": { "A": "b" }, "tier": "T2",
        "input": "body", "terminal": [24, 80], "egress": { "allow": ["a.example:443"], "deny": ["*.b.example"] },
        "progress_channel": true, "pinned": null,
    });
    let call = |request: Value| json!({ "limit_ms": 5, "body_bytes": 0, "request": request });
    let stat = json!({ "kind": "file", "size": 1, "mode": 420, "version": "v", "modified_ms": -1 });
    let exit = json!({
        "status": { "code": 1 }, "exceeded": "memory",
        "refusals": [{ "layer": "egress", "what": "a", "why": "b" }],
    });
    [
        json!({ "protocol": 2, "version": "0.1.0" }),
        call(json!({ "resolve": { "path": "a/b" } })),
        call(json!({ "resolve": { "path": "./a" } })),
        call(json!({ "rename": { "from": "a//b", "to": "a/../b", "overwrite": "replace" } })),
        call(json!({ "write": { "path": "a", "expected": { "version": "v" }, "mode": 384 } })),
        call(json!({ "list": { "path": ".", "depth": 1, "limit": 2, "respect_ignores": true, "withheld": ["x"] } })),
        call(json!({ "rename": { "from": "a", "to": "b", "overwrite": "never" } })),
        call(json!({ "remove": { "path": "a", "scope": "tree" } })),
        call(json!({ "spawn": spawn })),
        call(json!({ "signal": { "process": 1, "signal": "TERM" } })),
        json!("done"),
        json!({ "resolved": { "path": "a", "stat": stat, "protected": null } }),
        json!({ "stat": stat }),
        json!({ "opened": { "stat": stat, "own_mode": 384 } }),
        json!({ "exit": exit }),
        json!({ "failed": { "kind": "not_found", "message": "m", "path": "a" } }),
        json!({ "copied": 7 }),
        json!({ "Refused": { "kind": "not_found", "message": "m", "path": null } }),
        json!({ "Opened": { "root": "/w", "tiers": ["T1"], "device": 1, "inode": 2 } }),
    ]
    .iter()
    .map(Value::to_string)
    .collect()
}

/// Parses a body; what was parsed survives serializing and parsing again.
fn same_again<T: Serialize + DeserializeOwned>(body: &[u8]) -> Option<T> {
    let read: T = serde_json::from_slice(body).ok()?;
    let written = serde_json::to_value(&read).unwrap();
    let again: T = serde_json::from_value(written.clone()).unwrap();
    assert_eq!(serde_json::to_value(&again).unwrap(), written);
    Some(read)
}

#[test]
fn bodies_of_remote_frames_mean_one_thing_or_are_refused() {
    let words = [
        "null",
        "true",
        "-1",
        "1e9",
        "\"..\"",
        "\"/etc\"",
        "\"a//b\"",
        "\"./a\"",
        "\"\"",
        "\"a\\u0000b\"",
        "[",
        "]",
        "{",
        "}",
        ",",
        ":",
        "\"path\":",
        "\"tier\":\"T0\"",
        "\"T9\"",
        "\"shell\"",
        "\"argv\"",
        "\"spawn\":",
        "\"host\"",
        "18446744073709551616",
        "\"*\"",
        "\"a:0\"",
    ];
    Fuzz::seeds(bodies())
        .words(words)
        .longest(1024)
        .run(|body| {
            let opening = [
                same_again::<wire::Welcome>(body).is_some(),
                same_again::<wire::OpenWorkspace>(body).is_some(),
                same_again::<wire::OpenReply>(body).is_some(),
                same_again::<wire::WireNote>(body).is_some(),
            ];
            let call = same_again::<wire::Call>(body);
            let reply = same_again::<wire::Reply>(body);
            let taken = opening.contains(&true) || call.is_some() || reply.is_some();
            if let Some(call) = call {
                let _ = Duration::from_millis(call.limit_ms);
                asked(call.request);
            }
            match reply {
                Some(wire::Reply::Resolved(resolved)) => resolved_again(resolved),
                Some(wire::Reply::Exit(exit)) => exit_again(exit),
                Some(_) | None => {}
            }
            if taken {
                ParseOutcome::Taken
            } else {
                ParseOutcome::Refused
            }
        });
}

/// An accepted path stays in the workspace and has one spelling.
fn check_path(text: &str) {
    if let Ok(path) = path(text) {
        assert_eq!(path.as_str(), text);
        assert!(!text.starts_with('/') && !text.contains('\0'), "{text:?}");
        assert!(
            text.split('/').all(|part| part != ".." && !part.is_empty()),
            "{text:?}"
        );
    }
}

fn asked(request: wire::Request) {
    match request {
        wire::Request::Resolve { path }
        | wire::Request::Write { path, .. }
        | wire::Request::List { path, .. }
        | wire::Request::RemoveVersion { path, .. }
        | wire::Request::Remove { path, .. } => check_path(&path),
        wire::Request::RenameVersion { from, to, .. } | wire::Request::Rename { from, to, .. } => {
            check_path(&from);
            check_path(&to);
        }
        wire::Request::Spawn(spawn) => {
            let written = serde_json::to_value(&spawn).unwrap();
            check_path(&spawn.cwd);
            let Ok(spawn) = spawn_from_wire(spawn, b"in".to_vec()) else {
                return;
            };
            let (again, _) = spawn_to_wire(spawn);
            let mut again = serde_json::to_value(&again).unwrap();
            // A rule is serialized in one spelling only, so one that was parsed may be spelled
            // differently.
            again["egress"] = written["egress"].clone();
            assert_eq!(again, written);
        }
        _ => {}
    }
}

fn resolved_again(resolved: wire::WireResolvedPath) {
    let written = serde_json::to_value(&resolved).unwrap();
    check_path(&resolved.path);
    if let Ok(resolved) = ResolvedPath::try_from(resolved) {
        let again = serde_json::to_value(wire::WireResolvedPath::from(resolved)).unwrap();
        assert_eq!(again, written);
    }
}

fn exit_again(exit: wire::WireChildExit) {
    let written = serde_json::to_value(&exit).unwrap();
    let many = exit.refusals.len() > haft_contract::ops::Refusal::MAX;
    if let Ok(exit) = ChildExit::try_from(exit)
        && !many
    {
        assert_eq!(
            serde_json::to_value(wire::WireChildExit::from(exit)).unwrap(),
            written
        );
    }
}
