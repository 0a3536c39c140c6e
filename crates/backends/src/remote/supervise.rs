//! The helper modes of the serving side: a server, and a supervisor that outlives it.
//!
//! The supervisor is the nearest subreaper of everything the server starts, so that a process that
//! left its session, was reparented and cleared its environment is still its child. When the server
//! ends, however it ends, or the stream is cut and the server does not notice, the supervisor kills
//! everything that is left. Must not read the stream: that belongs to the server.

use std::{
    io::Write as _,
    process::{Child, Command, ExitCode},
    time::{Duration, Instant},
};

use haft_sandbox::helper::FLAG;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
    process::{
        Pid, PidfdFlags, Signal, WaitOptions, getpid, kill_process, pidfd_open,
        set_child_subreaper, set_parent_process_death_signal, wait,
    },
};
use tokio::{
    io::Interest,
    signal::unix::{SignalKind, signal},
};

use super::{account::Account, serve::serve, stdio::Descriptor};

/// The mode a connection starts.
pub(crate) const SERVE: &str = "serve";

/// The mode the supervisor starts.
pub(crate) const SERVE_STREAM: &str = "serve-stream";

/// How long the server may take to end by itself once the stream is cut.
const CUT_LIMIT: Duration = Duration::from_secs(1);

/// How long everything else may take to vanish after SIGKILL.
const KILL_LIMIT: Duration = Duration::from_secs(2);

/// Between two checks for remaining processes, and for orphans to reap.
const LOOK_AGAIN: Duration = Duration::from_millis(10);
const REAP_AGAIN: Duration = Duration::from_secs(1);

/// How long the async runtime may take to stop its threads.
const SHUTDOWN_LIMIT: Duration = Duration::from_millis(200);

/// Supervises a server on the standard streams.
pub(crate) fn supervise() -> ExitCode {
    let server = set_child_subreaper(Some(getpid()))
        .map_err(std::io::Error::from)
        .and_then(|()| {
            Command::new("/proc/self/exe")
                .args([FLAG, SERVE_STREAM])
                .spawn()
        });
    match server {
        Ok(server) => {
            let ended = stay_with(&server);
            kill_all();
            ended
        }
        Err(error) => fail(&format!("the server cannot be started: {error}")),
    }
}

/// Serves on the standard streams.
pub(crate) fn serve_stream() -> ExitCode {
    // Without a supervisor nobody would clean up.
    if let Err(errno) = set_parent_process_death_signal(Some(Signal::TERM)) {
        return fail(&format!("the supervisor cannot be watched: {errno}"));
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => return fail(&format!("the server cannot be started: {error}")),
    };
    let served = runtime.block_on(async {
        let reader = Descriptor::watch(rustix::stdio::stdin(), Interest::READABLE)?;
        let writer = Descriptor::watch(rustix::stdio::stdout(), Interest::WRITABLE)?;
        let mut terminated = signal(SignalKind::terminate())?;
        let account = Account {
            home: variable("HOME"),
            user: variable("USER"),
            runtime: variable("XDG_RUNTIME_DIR"),
        };
        tokio::select! {
            served = serve(reader, writer, account) => served.map_err(std::io::Error::other),
            _ = terminated.recv() => Ok(()),
        }
    });
    runtime.shutdown_timeout(SHUTDOWN_LIMIT);
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&error.to_string()),
    }
}

/// Waits for the server to end; kills it if the stream is cut and it does not end.
fn stay_with(server: &Child) -> ExitCode {
    let Some(pid) = i32::try_from(server.id()).ok().and_then(Pid::from_raw) else {
        return ExitCode::FAILURE;
    };
    let Ok(ended) = pidfd_open(pid, PidfdFlags::empty()) else {
        return ExitCode::FAILURE;
    };
    let mut cut: Option<Instant> = None;
    loop {
        if let Some(code) = reap(pid) {
            return code;
        }
        match cut {
            Some(since) if since.elapsed() > CUT_LIMIT => {
                // It is not reaped yet, so the id is still its own.
                let _ = kill_process(pid, Signal::KILL);
            }
            Some(_) => {}
            None => {
                let stdin = rustix::stdio::stdin();
                // Hang-ups are always reported; input is not requested.
                let mut one = [PollFd::new(&stdin, PollFlags::RDHUP)];
                let at_once = Timespec::default();
                let gone = PollFlags::HUP | PollFlags::RDHUP | PollFlags::ERR | PollFlags::NVAL;
                if poll(&mut one, Some(&at_once)).is_ok()
                    && one.iter().any(|fd| fd.revents().intersects(gone))
                {
                    cut = Some(Instant::now());
                }
            }
        }
        let mut either = vec![PollFd::new(&ended, PollFlags::IN)];
        let stdin = rustix::stdio::stdin();
        let pause = if cut.is_some() {
            LOOK_AGAIN
        } else {
            either.push(PollFd::new(&stdin, PollFlags::RDHUP));
            REAP_AGAIN
        };
        // Interrupted or not, the next round checks.
        let _ = poll(&mut either, Timespec::try_from(pause).ok().as_ref());
    }
}

/// Reaps whatever has ended; returns the server's exit code if it is among them.
fn reap(server: Pid) -> Option<ExitCode> {
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some((pid, status))) if pid == server => {
                let code = status
                    .exit_status()
                    .and_then(|code| u8::try_from(code).ok());
                return Some(code.map_or(ExitCode::FAILURE, ExitCode::from));
            }
            Ok(Some(_)) | Err(Errno::INTR) => {}
            Ok(None) => return None,
            Err(_) => return Some(ExitCode::FAILURE),
        }
    }
}

/// Kills every child, and every child that is reparented to us by that, until there is none.
fn kill_all() {
    let until = Instant::now() + KILL_LIMIT;
    loop {
        for child in children() {
            // Our children keep their ids until they are reaped, below.
            let _ = kill_process(child, Signal::KILL);
        }
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some(_)) | Err(Errno::INTR) => {}
                Ok(None) => break,
                // None left.
                Err(_) => return,
            }
        }
        if Instant::now() > until {
            return;
        }
        std::thread::sleep(LOOK_AGAIN);
    }
}

/// The children of this process.
fn children() -> Vec<Pid> {
    let ours = getpid().as_raw_nonzero().get().to_string();
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .filter_map(|entry| {
            let name = entry.ok()?.file_name();
            let pid = Pid::from_raw(name.to_str()?.parse().ok()?)?;
            let stat = std::fs::read(format!("/proc/{}/stat", name.to_str()?)).ok()?;
            // The name is in parentheses and may contain anything, including parentheses and
            // spaces.
            let after_name = stat.iter().rposition(|byte| *byte == b')')?;
            let rest = std::str::from_utf8(stat.get(after_name..)?).ok()?;
            (rest.split(' ').nth(2)? == ours).then_some(pid)
        })
        .collect()
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Reports the reason on standard error, whose last part the calling side keeps.
fn fail(why: &str) -> ExitCode {
    // If nobody reads it, there is nobody to tell.
    let _ = writeln!(std::io::stderr(), "haft helper: {why}");
    ExitCode::FAILURE
}
