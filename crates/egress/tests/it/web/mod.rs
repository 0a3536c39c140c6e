//! `web_fetch` against real servers on this machine, through the runtime, the guard, the admission and
//! the confined reader.

mod documents;
mod hostile;
mod pages;
mod site;
mod untrusted;

use std::{path::Path, sync::Arc};

use haft_contract::{
    egress::{HostRule, Resolve},
    erased::erase,
    ops::World,
};
use haft_egress::{AdmissionScope, Network, OwnHosts, SystemResolver};
use haft_sandbox::{helper::Helper, reader::ConfinedReader};
use haft_testkit::{Harness, harness::HarnessBuilder, helper_program, memory};
use haft_tools::{
    output::read_output::ReadOutputTool,
    web::web_fetch::{WebFetchConfig, WebFetchTool},
};
use serde_json::json;

/// A runtime with `web_fetch` over this network.
fn stage(
    reach: AdmissionScope,
    resolver: Arc<dyn Resolve>,
    config: &WebFetchConfig,
) -> HarnessBuilder {
    let (mut operations, _) = memory::operations();
    let helper = Helper::Path(helper_program());
    operations.world = World {
        net: Arc::new(Network::new(reach, resolver)),
        documents: Arc::new(ConfinedReader::new(helper, Path::new("/nonexistent"))),
        ..World::none()
    };
    Harness::on(operations).tools(vec![
        erase(WebFetchTool::configured(config)).unwrap(),
        erase(ReadOutputTool).unwrap(),
    ])
}

/// The same where the operator has named these ports of this machine.
pub(crate) fn at_home(ports: &[u16], config: WebFetchConfig) -> HarnessBuilder {
    let named = |host: &str| {
        ports
            .iter()
            .map(|port| format!("{host}:{port}"))
            .collect::<Vec<_>>()
    };
    let private_hosts = [named("127.0.0.1"), named("localhost")].concat();
    let exact = private_hosts
        .iter()
        .map(|host| HostRule::parse(host).unwrap());
    let reach = AdmissionScope::Public(OwnHosts {
        exact: exact.collect(),
        ..OwnHosts::default()
    });
    let config = WebFetchConfig {
        private_hosts,
        ..config
    };
    stage(reach, Arc::new(SystemResolver::default()), &config)
}

/// The source of what is at a target, as the tool returns it, or why there is none.
pub(crate) async fn fetched(
    reach: AdmissionScope,
    resolver: Arc<dyn Resolve>,
    target: &str,
) -> Result<String, String> {
    // So that it is the admission which refuses, and not already the tool.
    let named =
        HostRule::parse(target).is_ok_and(|rule| rule.host().is_some() && rule.port().is_some());
    let config = WebFetchConfig {
        private_hosts: named.then(|| target.to_owned()).into_iter().collect(),
        ..WebFetchConfig::default()
    };
    let harness = stage(reach, resolver, &config).build();
    let input = json!({ "url": format!("http://{target}/"), "mode": "raw" });
    let outcome = harness.call("web_fetch", input).await;
    if outcome.succeeded() {
        return Ok(outcome.model_text());
    }
    Err(outcome.model_text())
}
