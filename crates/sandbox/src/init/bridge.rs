//! The command's way to the proxy: a child of the init that forwards a port of the sandbox's
//! loopback to the proxy's socket.
//!
//! It runs outside what confines the command, which can neither signal nor trace it. Its port is
//! open before the command starts, so no program ever finds it closed.
#![expect(unsafe_code, reason = "fork is only available from libc")]

use haft_contract::egress::{EgressRules, HostRule};
use haft_egress::{Bridge, Forward};
use rustix::{io::Errno, process::Pid};

use super::{adopt, let_go_of_streams};
use crate::wire::{BridgeLine, Description};

/// Opens the ports and forks the process that serves them.
pub(super) fn start(line: &BridgeLine, description: &Description) -> Result<Pid, Errno> {
    let rules = EgressRules {
        allow: line
            .forwards
            .iter()
            .filter_map(|forward| HostRule::parse(forward).ok())
            .collect(),
        deny: Vec::new(),
    };
    let bridge = Bridge::open(line.port, &Forward::of(&rules))
        .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    // SAFETY: this process has one thread, so its copy finds everything in order.
    match unsafe { libc::fork() } {
        0 => {
            // Drops everything that belongs to the command or to Haft.
            let _ = let_go_of_streams(&description.command.streams);
            for number in description.groups.iter().chain([&description.channel]) {
                drop(adopt(*number));
            }
            let _ = bridge.serve(&line.socket);
            // SAFETY: ends this process without running any code of the process it was copied from.
            unsafe { libc::_exit(1) }
        }
        -1 => Err(Errno::AGAIN),
        pid => Pid::from_raw(pid).ok_or(Errno::CHILD),
    }
}
