//! Names as the operating system looks them up, from a server of names that the test runs (SS-09 to SS-11):
//! aliases, addresses of both families, names that lead elsewhere the second time. In a network
//! namespace of its own every address is this machine's, the one of the system's name server too.

use std::{
    collections::{BTreeMap, HashMap},
    net::{IpAddr, Ipv6Addr, UdpSocket},
    sync::{Arc, Mutex},
    thread,
};

use haft_egress::{AdmissionScope, OwnHosts, SystemResolver};

use crate::{
    ask::{Answer, Way, ask},
    corpus::{in_own_network, is_in_own_network},
    proxy_with, rules,
    server::{CANARY, Server},
    web,
};

const A: u16 = 1;
const CNAME: u16 = 5;
const AAAA: u16 = 28;

/// Aliases followed in one answer, as servers of names do.
const MAX_ALIASES: usize = 8;

/// What a name stands for: an address or another name, in the words of a zone. Lookup by lookup; the
/// last stays.
type Zone = BTreeMap<&'static str, &'static [&'static [&'static str]]>;

/// Names that rules allow and that lead where nothing may connect to.
const REFUSED: [(&str, &[&[&str]]); 11] = [
    ("private.example", &[&["10.0.0.1"]]),
    ("alias.example", &[&["=hop.example"]]),
    ("hop.example", &[&["=end.example"]]),
    ("end.example", &[&["10.0.0.1"]]),
    ("metadata.example", &[&["=inside.example"]]),
    ("inside.example", &[&["169.254.169.254"]]),
    ("mixed.example", &[&["198.17.0.1", "::1"]]),
    (
        "last.example",
        &[&["2606:4700::1111", "198.17.0.1", "127.0.0.1"]],
    ),
    ("mapped.example", &[&["::ffff:10.0.0.1"]]),
    ("translated.example", &[&["64:ff9b::7f00:1"]]),
    ("turns.example", &[&["127.0.0.1"], &["198.17.0.1"]]),
];

/// A name for itself, and one that is nobody's.
const LEADS_NOWHERE: [&str; 2] = ["circle.example", "nowhere.example"];

/// Names that lead to the public, and where to.
const PASSED: [(&str, &[&[&str]], &str); 4] = [
    ("good.example", &[&["198.17.0.1"]], "198.17.0.1"),
    ("chain.example", &[&["=cdn.example"]], "198.17.0.3"),
    ("six.example", &[&["2606:4700::1111"]], "2606:4700::1111"),
    (
        "turned.example",
        &[&["198.17.0.1"], &["127.0.0.1"]],
        "198.17.0.1",
    ),
];

/// A server of names on every address, and what it was asked.
struct NameServer(Arc<Mutex<HashMap<(String, u16), usize>>>);

impl NameServer {
    fn start() -> Self {
        let mut zone = Zone::from(REFUSED);
        zone.extend(PASSED.map(|(name, stands_for, _)| (name, stands_for)));
        zone.insert("circle.example", &[&["=circle.example"]]);
        zone.insert("cdn.example", &[&["198.17.0.3"]]);
        let socket = UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 53)).unwrap();
        let asked = Arc::<Mutex<HashMap<(String, u16), usize>>>::default();
        let noted = Arc::clone(&asked);
        thread::spawn(move || {
            let mut query = [0; 512];
            while let Ok((length, from)) = socket.recv_from(&mut query) {
                let (name, kind, question) = question(&query[..length]);
                let mut noted = noted.lock().unwrap();
                let before = noted.entry((name.clone(), kind)).or_default();
                let answer = answer(&zone, &name, kind, *before, &query[..2], question);
                *before += 1;
                drop(noted);
                let _ = socket.send_to(&answer, from);
            }
        });
        Self(asked)
    }

    /// How often a name was looked up since the last time.
    fn lookups(&self, name: &str) -> usize {
        let mut asked = self.0.lock().unwrap();
        let lookups = [A, AAAA].map(|kind| asked.remove(&(name.to_owned(), kind)));
        lookups.into_iter().flatten().max().unwrap_or(0)
    }
}

/// The name and the kind of a query's question, and its bytes.
fn question(query: &[u8]) -> (String, u16, &[u8]) {
    let (mut at, mut labels) = (12, Vec::new());
    while query[at] != 0 {
        let end = at + 1 + usize::from(query[at]);
        labels.push(String::from_utf8_lossy(&query[at + 1..end]).to_ascii_lowercase());
        at = end;
    }
    let kind = u16::from_be_bytes([query[at + 1], query[at + 2]]);
    (labels.join("."), kind, &query[12..at + 5])
}

fn answer(
    zone: &Zone,
    name: &str,
    kind: u16,
    before: usize,
    id: &[u8],
    question: &[u8],
) -> Vec<u8> {
    let (mut records, mut count) = (Vec::new(), 0_u16);
    let mut record = |name: &str, kind: u16, data: &[u8]| {
        records.extend(in_labels(name));
        records.extend(kind.to_be_bytes());
        // Of the Internet, and not to be kept.
        records.extend([0, 1, 0, 0, 0, 0]);
        records.extend(u16::try_from(data.len()).unwrap().to_be_bytes());
        records.extend(data);
        count += 1;
    };
    let mut current = name.to_owned();
    for _ in 0..MAX_ALIASES {
        let Some(stands_for) = zone.get(current.as_str()) else {
            break;
        };
        let now = stands_for.get(before).or(stands_for.last()).unwrap();
        let mut next = None;
        for text in *now {
            if let Some(alias) = text.strip_prefix('=') {
                record(&current, CNAME, &in_labels(alias));
                next = Some(alias.to_owned());
                continue;
            }
            match (text.parse().unwrap(), kind) {
                (IpAddr::V4(address), A) => record(&current, A, &address.octets()),
                (IpAddr::V6(address), AAAA) => record(&current, AAAA, &address.octets()),
                _ => {}
            }
        }
        match next {
            Some(alias) => current = alias,
            None => break,
        }
    }
    let known = zone.contains_key(name);
    let mut answer = id.to_vec();
    // An answer, of a server that looks up; 3 means that there is no such name.
    answer.extend([0x81, if known { 0x80 } else { 0x83 }]);
    answer.extend([0, 1]);
    answer.extend(count.to_be_bytes());
    answer.extend([0, 0, 0, 0]);
    answer.extend(question);
    answer.extend(records);
    answer
}

fn in_labels(name: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    for label in name.split('.') {
        bytes.push(u8::try_from(label.len()).unwrap());
        bytes.extend(label.as_bytes());
    }
    bytes.push(0);
    bytes
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ss_09_ss_10_ss_11_names_from_a_real_server_are_judged_by_every_address() {
    if !is_in_own_network() {
        return in_own_network(
            "dns::ss_09_ss_10_ss_11_names_from_a_real_server_are_judged_by_every_address",
        );
    }
    let (names, server) = (NameServer::start(), Server::everywhere(&[80]));
    let resolver = Arc::new(SystemResolver::default());
    let allowed = ["*.example:80"];
    let proxy = proxy_with(&allowed, |options| options.resolver = resolver.clone());
    let scopes = || {
        [
            AdmissionScope::Public(OwnHosts::default()),
            AdmissionScope::Rules(rules(&allowed, &[])),
        ]
    };
    let refused = REFUSED.map(|(name, _)| name);
    for name in refused.into_iter().chain(LEADS_NOWHERE) {
        let target = format!("{name}:80");
        for way in [Way::Plain, Way::Connect, Way::Socks] {
            let said = ask(proxy.socket(), way, &target);
            let is_refused = match &said {
                Answer::Refused(_) => true,
                // What leads nowhere is not denied: there is nothing to connect to.
                Answer::Passed(said) => LEADS_NOWHERE.contains(&name) && !said.contains(CANARY),
            };
            assert!(is_refused, "{name} {way:?}: {said:?}");
            assert_eq!(names.lookups(name), 1, "{name} {way:?}");
        }
        for scope in scopes() {
            let fetched = web::fetched(scope, resolver.clone(), &target).await;
            assert!(fetched.is_err(), "{name}: {fetched:?}");
            assert_eq!(names.lookups(name), 1, "{name}");
        }
        let came = server.visits(80);
        assert!(came.is_empty(), "{name}: {came:?}");
    }
    for (name, _, to) in PASSED {
        let (target, to) = (format!("{name}:80"), to.parse::<IpAddr>().unwrap());
        let there = |how: &str| {
            assert_eq!(names.lookups(name), 1, "{name} {how}");
            let came = server.visits(80);
            let [visit] = came.as_slice() else {
                panic!("{name} {how}: {came:?}");
            };
            assert_eq!(visit.to.to_canonical(), to, "{name} {how}");
        };
        for way in [Way::Plain, Way::Connect, Way::Socks] {
            match ask(proxy.socket(), way, &target) {
                Answer::Passed(said) => assert!(said.contains(CANARY), "{name}: {said}"),
                Answer::Refused(why) => panic!("{name} {way:?}: {why}"),
            }
            there("through the proxy");
        }
        for scope in scopes() {
            let fetched = web::fetched(scope, resolver.clone(), &target).await;
            assert!(
                fetched.as_ref().is_ok_and(|text| text.contains(CANARY)),
                "{name}: {fetched:?}"
            );
            there("with web_fetch");
        }
    }
}
