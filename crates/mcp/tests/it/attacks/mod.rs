//! Group MC of the attack corpus: servers that do what `attacks/mc.toml` says, mounted over pipes
//! and over HTTP, their tools called through the one path of a call. Each attack has a control (a
//! client without guards gets it) and each case a benign twin; beside every case an honest server is
//! mounted, which must not notice.
//!
//! Read next: `corpus.rs` for the words of the data, `mount.rs` for what stands around a server.

mod corpus;
mod crossing;
mod mount;
mod passed_on;
mod peer;
mod resources;
mod versions;

use std::{
    ops::RangeInclusive,
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::future::join_all;
use haft_contract::{ErrorKind, Outcome, Terminal};
use haft_mcp::{
    client::Client,
    upstream::supervise::{State, Status},
};
use serde_json::{Value, json};

use self::{
    corpus::{Case, Scripted, Transport, cases},
    mount::{Peer, Place},
};
use crate::upstream::Person;

/// The honest server beside every case.
const NEIGHBOUR: &str = "neighbour";

/// How the tools of a server are asked for.
const LIST: &str = "tools/list";

/// A test for some cases over a transport.
macro_rules! cases {
    ($($name:ident: $cases:expr, $transport:ident;)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            #[ignore = "ci: a few dozen servers one after the other, each with its control"]
            async fn $name() {
                hold($cases, Transport::$transport).await;
            }
        )*
    };
}

cases! {
    mc_01_to_mc_08_over_pipes: 1..=8, Pipes;
    mc_01_to_mc_08_over_http: 1..=8, Http;
    mc_09_to_mc_29_over_pipes: 9..=29, Pipes;
    mc_09_to_mc_29_over_http: 9..=29, Http;
}

/// What came of a case.
#[derive(Default)]
struct Tally {
    attacks: usize,
    twins: usize,
    faults: Vec<String>,
}

/// Runs cases over a transport and says what came of them.
async fn hold(numbers: RangeInclusive<u32>, transport: Transport) {
    let mut total = Tally::default();
    for case in cases() {
        if !numbers.contains(&case.number()) {
            continue;
        }
        let begun = Instant::now();
        let tally = run(&case, transport).await;
        println!(
            "{} {} attacks, {} twins, {} faults  {} ({:.1?})",
            case.id,
            tally.attacks,
            tally.twins,
            tally.faults.len(),
            case.title,
            begun.elapsed()
        );
        total.attacks += tally.attacks;
        total.twins += tally.twins;
        total.faults.extend(tally.faults);
    }
    println!(
        "MC over {}: {} attacks with as many controls, {} benign twins, {} faults",
        transport.as_str(),
        total.attacks,
        total.twins,
        total.faults.len()
    );
    assert!(total.faults.is_empty(), "{}", total.faults.join("\n"));
    assert!(total.attacks > 0, "nothing was run");
}

/// Runs one case: all its servers behind one runtime, one after the other.
async fn run(case: &Case, transport: Transport) -> Tally {
    let mut tally = Tally::default();
    let over = |scripted: &&Scripted| scripted.is_over(transport);
    let attacks: Vec<&Scripted> = case.attack.iter().filter(over).collect();
    let twins: Vec<&Scripted> = case.twin.iter().filter(over).collect();
    if attacks.is_empty() {
        return tally;
    }
    let controls = attacks.iter().map(|attack| control(attack, transport));
    for (attack, arrives) in attacks.iter().zip(join_all(controls).await) {
        tally.attacks += 1;
        tally.note(case, &attack.what, transport, arrives);
    }
    tally.twins += twins.len();
    // Those that are about two servers have a place of their own.
    for scripted in attacks.iter().chain(&twins) {
        if let Some(obeyed) = &scripted.obeyed {
            let judged = crossing::judge(scripted, obeyed, transport).await;
            tally.note(case, &scripted.what, transport, judged);
        }
    }
    let alone = |scripted: &&Scripted| scripted.obeyed.is_none();
    let attacks: Vec<&Scripted> = attacks.into_iter().filter(alone).collect();
    let twins: Vec<&Scripted> = twins.into_iter().filter(alone).collect();
    if attacks.is_empty() {
        return tally;
    }
    let ids = |sort: &str, count: usize| (0..count).map(|n| format!("{sort}{n}")).collect();
    let (attacking, honest): (Vec<String>, Vec<String>) =
        (ids("attack", attacks.len()), ids("twin", twins.len()));
    let all = attacking
        .iter()
        .zip(&attacks)
        .chain(honest.iter().zip(&twins));
    let mut peers: Vec<Peer> = all
        .map(|(id, scripted)| Peer {
            accepted: scripted.accepted,
            fails: scripted.state() == Some(State::Down),
            ..Peer::new(id, scripted.script(), transport)
        })
        .collect();
    peers.push(Peer::new(NEIGHBOUR, neighbour(), transport));
    let place = Place::with(peers).await;
    place.accept_all().await;
    for (server, attack) in attacking.iter().zip(&attacks) {
        let judged = judge(&place, server, attack).await;
        tally.note(case, &attack.what, transport, judged);
    }
    for (server, twin) in honest.iter().zip(&twins) {
        let judged = judge(&place, server, twin).await;
        tally.note(case, &format!("twin, {}", twin.what), transport, judged);
    }
    place.end().await;
    tally
}

impl Tally {
    fn note(&mut self, case: &Case, what: &str, over: Transport, result: Result<(), String>) {
        if let Err(fault) = result {
            let over = over.as_str();
            self.faults
                .push(format!("{} over {over}, {what}: {fault}", case.id));
        }
    }
}

/// An honest server with one tool.
fn neighbour() -> Value {
    json!({ "era": "legacy", "version": "2025-11-25", "name": "honest", "on": {},
        "tools": [{ "name": "fine", "inputSchema": { "type": "object" } }] })
}

/// A client without guards gets what the attack sends.
async fn control(attack: &Scripted, transport: Transport) -> Result<(), String> {
    let sees = attack.seen_without_guards();
    let asks = attack.control_asks.clone();
    let script = attack.script().to_string();
    let judged = tokio::task::spawn_blocking(move || {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("script.json");
        std::fs::write(&path, script).unwrap();
        peer::control(&path, transport, &asks, &sees)
    });
    let judged = judged.await.unwrap();
    judged.map_err(|fault| format!("the control did not succeed: {fault}"))
}

/// Compares everything that came of a server with what must be.
async fn judge(place: &Place, server: &str, scripted: &Scripted) -> Result<(), String> {
    if let Some(lists) = &scripted.lists {
        let listed = place.listed(server);
        check(listed == *lists, || format!("{listed:?} are shown"))?;
    }
    if let Some(destructive) = scripted.destructive {
        let is = place.is_destructive(server, "t");
        check(is == destructive, || {
            format!("it is taken for destructive: {is}")
        })?;
    }
    let listed = place.asked(server, LIST);
    if let Some(expect) = &scripted.expect {
        let began = Instant::now();
        let person = scripted.reachable.then(Arc::<Person>::default);
        let client = person.clone().map(|person| person as Arc<dyn Client>);
        let time = Duration::from_millis(scripted.gives_up_ms);
        let arguments = scripted.arguments.clone();
        let called = place.call_within((server, "t"), arguments, time, client);
        let outcome = called.await;
        ended(place, &outcome, expect).await?;
        let text = said(&outcome);
        for shows in &scripted.shows {
            check(text.contains(shows), || {
                format!("no {shows:?} in {text:.600}")
            })?;
        }
        for hides in &scripted.hides {
            check(!text.contains(hides), || {
                format!("{hides:?} is in {text:.600}")
            })?;
        }
        for (name, most) in &scripted.per_second {
            let came = match name.as_str() {
                "lists" => {
                    place.asked_more(server, LIST, listed).await;
                    place.asked(server, LIST) - listed
                }
                "logs" => person.as_ref().map_or(0, |person| person.told()),
                "steps" => {
                    let events = place.harness.events.kinds(outcome.call);
                    events.iter().filter(|kind| **kind == "progress").count()
                }
                _ => return Err(format!("nothing is counted as {name}")),
            };
            let most = most * (began.elapsed().as_secs() + 2);
            let limited = (1..=most).contains(&(came as u64));
            check(limited, || format!("{came} {name}, {most} at most"))?;
        }
    }
    if let Some(then) = &scripted.then {
        come_to_be(place, server, &then.once, listed).await?;
        let outcome = place.call(server, "t", scripted.arguments.clone()).await;
        ended(place, &outcome, &then.expect).await?;
        let text = said(&outcome);
        for shows in &then.shows {
            check(text.contains(shows), || {
                format!("then no {shows:?} in {text:.600}")
            })?;
        }
    }
    of_the_server(place, server, scripted).await?;
    // It is kept if it was not the server itself that ended, and nobody else noticed.
    let mut others = vec![NEIGHBOUR];
    if scripted.state() == Some(State::Ready) && scripted.accepted {
        others.push(server);
    }
    for other in others {
        let fine = place.call(other, "fine", json!({})).await;
        check(fine.terminal == Terminal::Succeeded, || {
            format!(
                "afterwards an honest tool of `{other}` failed: {:.400}",
                said(&fine)
            )
        })?;
    }
    Ok(())
}

/// Waits until a server is as a case says.
async fn come_to_be(place: &Place, server: &str, word: &str, listed: usize) -> Result<(), String> {
    match word {
        "changed" => {
            let changed = |status: &Status| status.counts.changed > 0;
            let status = place.once(server, changed).await;
            check(changed(&status), || format!("not {word}: {status:?}"))
        }
        "listed again" => {
            let again = place.asked_more(server, LIST, listed).await;
            check(again, || "its tools were not listed again".to_owned())?;
            // What it answered there is known once it has answered this.
            let fine = place.call(server, "fine", json!({})).await;
            check(fine.succeeded(), || said(&fine))
        }
        _ => Err(format!("`{word}` is nothing a server can come to be")),
    }
}

/// How the server is, and what people are told about it.
async fn of_the_server(place: &Place, server: &str, scripted: &Scripted) -> Result<(), String> {
    // One that failed is tried again, and fails again.
    let told = |status: &Status| status.last_error.clone().unwrap_or_default();
    let right = |status: &Status| {
        let told = told(status);
        scripted.state().is_none_or(|state| state == status.state)
            && scripted.says.iter().all(|says| told.contains(says))
    };
    let status = place.once(server, right).await;
    check(right(&status), || format!("the server is {status:?}"))?;
    let refused: Vec<String> = status
        .refused
        .iter()
        .map(|one| format!("{}: {}", one.name, one.why))
        .collect();
    for why in &scripted.refuses {
        check(refused.iter().any(|one| one.contains(why)), || {
            format!("{why:?} is no reason among {refused:?}")
        })?;
    }
    for text in refused.iter().chain([&told(&status)]) {
        check(is_plain(text), || format!("people are told {text:?}"))?;
    }
    let counted = place.dropped(server);
    for (name, least) in &scripted.drops {
        let names = ["not_messages", "broken", "unknown_answers", "floods"];
        let at = names.iter().position(|known| known == name);
        let at = at.ok_or_else(|| format!("nothing is counted as {name}"))?;
        check(counted[at] >= *least, || {
            format!("{name} are {}", counted[at])
        })?;
    }
    Ok(())
}

/// A call ended as it must, with an error that is fit to be read and nothing that only a process of
/// ours could have said, and the record says so.
async fn ended(place: &Place, outcome: &Outcome, expect: &str) -> Result<(), String> {
    let mut words = expect.split_whitespace();
    let terminal = Terminal::parse(words.next().unwrap_or_default());
    let kinds: Vec<ErrorKind> = words.map(|word| ErrorKind::parse(word).unwrap()).collect();
    let kind = outcome.error.as_ref().map(|failure| failure.kind);
    let right = kind.map_or(kinds.is_empty(), |kind| kinds.contains(&kind));
    check(Some(outcome.terminal) == terminal && right, || {
        let is = outcome.terminal;
        format!(
            "expected {expect}, got {is} {kind:?}: {:.400}",
            said(outcome)
        )
    })?;
    check(outcome.facts.exit_code.is_none(), || {
        format!("an exit code is taken for a fact: {:?}", outcome.facts)
    })?;
    if let Some(failure) = &outcome.error {
        check(is_plain(&failure.message), || {
            format!("{:?}", failure.message)
        })?;
    }
    let recorded = place.recorded(outcome).await;
    check(recorded == Some(outcome.terminal), || {
        format!("the record says {recorded:?}")
    })
}

/// Everything an outcome says.
fn said(outcome: &Outcome) -> String {
    let structured = outcome.structured.as_ref().map(Value::to_string);
    let failure = outcome.error.as_ref().map(|failure| {
        let hint = failure.hint.clone().unwrap_or_default();
        format!("{}\n{hint}", failure.message)
    });
    let parts = [Some(outcome.model_text()), structured, failure];
    parts.into_iter().flatten().collect::<Vec<_>>().join("\n")
}

/// Whether nothing in a text acts on a terminal or hides.
fn is_plain(text: &str) -> bool {
    let hides =
        |c: char| (c.is_control() && c != '\n') || "\u{200b}\u{202e}\u{2066}\u{feff}".contains(c);
    let tags = '\u{e0000}'..='\u{e007f}';
    !text.chars().any(|c| hides(c) || tags.contains(&c))
}

fn check(holds: bool, fault: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(fault()) }
}
