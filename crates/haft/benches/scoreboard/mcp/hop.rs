//! Row 6: a call to a server of the SDK through Haft, which mounts it, beside the same call made
//! directly. Policy, validation, pinning and the record are on.

use std::{
    process::{Command, Stdio},
    time::Duration,
};

use super::{
    program::{Home, RunningProgram, built},
    requests::Request,
};
use crate::{
    Scale,
    measure::median,
    report::{Goal, Row, time},
};

/// Connections of the throughput.
const CONNECTIONS: usize = 32;

/// A round is longer than elsewhere: thirty-two connections have to be opened in it.
const SLICES: u32 = 8;

const LIMITS: &str = "the record and the second turn of the protocol, on two cores that the client, Haft and \
                      the mounted server share";

pub(crate) fn rows(scale: Scale) -> Vec<Row> {
    let mut server = RunningProgram::start(&mut Command::new(built("examples/bare_server")));
    let direct = server.prints_address();
    let home = Home::with(&format!(
        "[policy]\nallow = [\"mcp__bare__*\"]\n[loop_guard]\nwarn = 0\nask = 0\n\
         [[mcp.servers]]\nid = \"bare\"\nurl = \"{direct}\"\ntrust_annotations = true\n"
    ));
    home.run(&["mcp", "review", "bare"]);
    home.run(&["mcp", "accept", "bare", "--all"]);
    let mut serve = home.haft(&["mcp", "--http", "127.0.0.1:0"]);
    let mut haft = RunningProgram::start_noting(serve.stderr(Stdio::piped()));
    let url = haft.notes_address();
    let token = home.run(&["mcp", "token"]);
    let text = "a few words";
    let direct = Request::call(&direct, None, "echo", text);
    let through = Request::call(&url, Some(&token), "mcp__bare__echo", text);
    vec![
        latency(scale, &through, &direct),
        throughput(scale, &through, &direct),
    ]
}

fn latency(scale: Scale, through: &Request, direct: &Request) -> Row {
    let slice = scale.slice * SLICES;
    let rounds = turns(scale, |request| middle(request, slice), through, direct);
    let added = median(
        rounds
            .iter()
            .map(|(through, direct)| (through - direct) / direct),
    );
    Row {
        number: 6,
        metric:
            "what a hop to a mounted server adds ÷ the direct call, 1 connection (wall, median)"
                .to_owned(),
        ours: time(median(
            rounds.iter().map(|(through, direct)| through - direct),
        )),
        bare: time(median(rounds.iter().map(|(_, direct)| *direct))),
        figure: added.max(f64::MIN_POSITIVE),
        goal: Goal::RatioUpTo(1.5),
        beside:
            "JSON at revision 2026-07-28; the server's tool says it only reads, and is believed"
                .to_owned(),
        limits: LIMITS,
    }
}

fn throughput(scale: Scale, through: &Request, direct: &Request) -> Row {
    let slice = scale.slice * SLICES;
    let rate = |request: &Request| request.together(CONNECTIONS, slice);
    let rounds = turns(scale, rate, through, direct);
    Row {
        number: 6,
        metric: format!("calls a second through Haft ÷ direct, {CONNECTIONS} connections (wall)"),
        ours: format!(
            "{:.0}/s",
            median(rounds.iter().map(|(through, _)| *through))
        ),
        bare: format!("{:.0}/s", median(rounds.iter().map(|(_, direct)| *direct))),
        figure: median(rounds.iter().map(|(through, direct)| through / direct)),
        goal: Goal::RatioFrom(0.35),
        beside: String::new(),
        limits: LIMITS,
    }
}

/// Both in turn, after a round that does not count.
fn turns(
    scale: Scale,
    measure: impl Fn(&Request) -> f64,
    through: &Request,
    direct: &Request,
) -> Vec<(f64, f64)> {
    let turn = || (measure(through), measure(direct));
    turn();
    (0..scale.rounds).map(|_| turn()).collect()
}

fn middle(request: &Request, slice: Duration) -> f64 {
    median(request.alone(slice).into_iter())
}
