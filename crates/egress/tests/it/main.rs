//! The proxy that is a sandbox's only way out, against real sockets.
//!
//! `corpus.rs` runs `attacks/ss.toml` in a network namespace of its own; `limits.rs` sends what is
//! slow, long or odd; `answers.rs` loses answers or never ends them; `web/` fetches pages; `bridge.rs` goes through the part inside the sandbox, `confined.rs` through a
//! sandbox itself.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::disallowed_methods,
    missing_docs,
    reason = "tests look at the machine from outside the jail"
)]

mod answers;
mod ask;
mod bridge;
mod browser;
mod confined;
mod corpus;
mod dns;
mod limits;
mod network;
mod sandboxed_workspace;
mod server;
mod web;

use std::{
    collections::BTreeMap,
    io,
    net::IpAddr,
    sync::{Arc, Mutex},
};

use haft_contract::{
    egress::{EgressRules, HostRule, Resolve},
    future::BoxFuture,
};
use haft_egress::{EgressProxy, ProxyOptions};

/// What a name answers, lookup by lookup; the last answer stays.
pub(crate) type Names = BTreeMap<String, Vec<Vec<IpAddr>>>;

/// A resolver that answers from a script and counts.
#[derive(Default)]
pub(crate) struct Script {
    names: Names,
    lookups: Mutex<Vec<String>>,
}

impl Script {
    pub(crate) fn new(names: &Names) -> Arc<Self> {
        Arc::new(Self {
            names: names.clone(),
            lookups: Mutex::default(),
        })
    }

    pub(crate) fn lookups(&self) -> usize {
        self.lookups.lock().unwrap().len()
    }
}

impl Resolve for Script {
    fn resolve<'a>(&'a self, name: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        Box::pin(async move {
            let mut lookups = self.lookups.lock().unwrap();
            let before = lookups.iter().filter(|asked| *asked == name).count();
            lookups.push(name.to_owned());
            let answers = self.names.get(name);
            let answer = answers.and_then(|answers| answers.get(before).or(answers.last()));
            answer.cloned().ok_or(io::ErrorKind::NotFound.into())
        })
    }
}

pub(crate) fn rules(allow: &[impl AsRef<str>], deny: &[&str]) -> Arc<EgressRules> {
    let allow = allow.iter().map(|text| HostRule::parse(text.as_ref()));
    let deny = deny.iter().map(|text| HostRule::parse(text));
    Arc::new(EgressRules {
        allow: allow.collect::<Result<_, _>>().unwrap(),
        deny: deny.collect::<Result<_, _>>().unwrap(),
    })
}

/// A proxy that allows this and looks nothing up.
pub(crate) fn proxy(allow: &[impl AsRef<str>]) -> EgressProxy {
    proxy_with(allow, |_| {})
}

pub(crate) fn proxy_with(
    allow: &[impl AsRef<str>],
    change: impl FnOnce(&mut ProxyOptions),
) -> EgressProxy {
    let mut options = ProxyOptions {
        resolver: Script::new(&Names::new()),
        ..ProxyOptions::default()
    };
    change(&mut options);
    EgressProxy::start(rules(allow, &[]), &options).unwrap()
}
