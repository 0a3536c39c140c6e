//! One engine with two tenants that mount the same MCP server, from one data directory: real
//! processes in real sandboxes.

use std::{path::Path, sync::Arc};

use haft::{
    McpServer,
    contract::{
        WorkspaceId,
        identity::{TenantId, UserId},
    },
    prelude::*,
};
use haft_backends::LocalBackend;
use haft_host::mount::{LoginOwner, MountDefaults, MountPlan, MountedServers};
use haft_ledger::{LedgerOptions, StoredLedger};
use haft_policy::{CedarPolicy, PolicySource};
use haft_runtime::{Runtime, SystemClock, Workspace, registry::Registry};
use tempfile::TempDir;

use crate::{helper_program::sandboxed, many_workspaces::Listed};

/// A server that notes in its directory who called it, and says who has.
const MAIL: &str = r#"
import json, sys
TOOL = {"name": "sign", "description": "Notes a name.", "inputSchema": {
    "type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}}
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message or "method" not in message:
        continue
    reply = {"jsonrpc": "2.0", "id": message["id"]}
    if message["method"] == "initialize":
        reply["result"] = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                           "serverInfo": {"name": "mail", "version": "1"}}
    elif message["method"] == "tools/list":
        reply["result"] = {"tools": [TOOL]}
    elif message["method"] == "tools/call":
        with open("names", "a+") as names:
            names.write(message["params"]["arguments"]["name"] + "\n")
            names.seek(0)
            text = " ".join(names.read().split())
        reply["result"] = {"content": [{"type": "text", "text": text}]}
    else:
        reply["error"] = {"code": -32601, "message": "there is no such method"}
    print(json.dumps(reply), flush=True)
"#;

const RULES: &str = "[policy]\npreset = \"careful\"\nallow = [\"mcp__mail__sign\"]\n";

const SIGN: &str = "mcp__mail__sign";

fn tenant(name: &str) -> TenantId {
    TenantId::parse(name).unwrap()
}

/// What a tenant mounts: the same entry, and the same data directory, as every other.
fn plan(tenant: &TenantId, data: &Path) -> MountPlan {
    let server = McpServer::command("mail", ["python3", "-c", MAIL]).unwrap();
    let defaults = MountDefaults {
        sandbox: sandboxed().sandbox,
        data_dir: data.to_owned(),
        logins: LoginOwner {
            tenant: tenant.clone(),
            user: UserId::parse("ada").unwrap(),
        },
    };
    MountPlan::new(vec![server], defaults)
}

fn workspace(tenant: &TenantId, root: &Path, registry: Arc<Registry>) -> Arc<Workspace> {
    let policy = CedarPolicy::load(&[PolicySource::new("haft.toml", RULES)]).unwrap();
    let backend = LocalBackend::open(root, sandboxed()).unwrap();
    Workspace::builder(backend.operations(), Arc::new(policy))
        .owner(tenant.clone())
        .registry(registry)
        .build()
}

struct Engine {
    runtime: Runtime,
    ledger: StoredLedger,
    _directories: Vec<TempDir>,
}

impl Engine {
    async fn sign(&self, tenant: &TenantId, name: &str) -> Arc<Outcome> {
        let mut who = Principal::local(
            "ada".parse().unwrap(),
            "coder".parse().unwrap(),
            "today".parse().unwrap(),
        );
        who.tenant = tenant.clone();
        let input = json!({"name": name});
        self.runtime
            .call(CallRequest::new(SIGN, input, Arc::new(who)))
            .await
    }
}

/// An engine with the workspaces that were made, by tenant.
async fn engine(workspaces: Listed, mut kept: Vec<TempDir>) -> Engine {
    let data = tempfile::tempdir().unwrap();
    let options = LedgerOptions::new(data.path().join("record"), Arc::new(SystemClock));
    let (ledger, _) = StoredLedger::open(options).await.unwrap();
    let runtime = Runtime::builder()
        .workspaces(Arc::new(workspaces))
        .ledger(Arc::new(ledger.clone()))
        .build()
        .unwrap();
    kept.push(data);
    Engine {
        runtime,
        ledger,
        _directories: kept,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "ci: needs bubblewrap and python3"]
async fn two_tenants_share_no_mounted_server() {
    let data = tempfile::tempdir().unwrap();
    let (acme, beta, gamma) = (tenant("acme"), tenant("beta"), tenant("gamma"));
    let (mut workspaces, mut servers, mut kept) = (Listed::default(), Vec::new(), Vec::new());
    let key = |tenant: &TenantId| (tenant.clone(), WorkspaceId::local());
    let mut of_acme = None;
    for tenant in [&acme, &beta] {
        let root = tempfile::tempdir().unwrap();
        let registry = Arc::new(Registry::new());
        let workspace = workspace(tenant, root.path(), Arc::clone(&registry));
        servers.push(MountedServers::start(plan(tenant, data.path()), &workspace).unwrap());
        of_acme.get_or_insert(registry);
        workspaces.0.insert(key(tenant), workspace);
        kept.push(root);
    }
    // A host that hands a third tenant the tools of the first by mistake.
    let root = tempfile::tempdir().unwrap();
    let mistaken = workspace(&gamma, root.path(), of_acme.unwrap());
    workspaces.0.insert(key(&gamma), mistaken);
    kept.extend([root, data]);
    let engine = engine(workspaces, kept).await;
    let [in_acme, in_beta] = servers.as_slice() else {
        panic!("two plans were started");
    };

    // What one tenant accepted is not accepted for the other.
    assert_eq!(in_acme.accept("mail").await.unwrap(), 1);
    assert_eq!(engine.sign(&acme, "ada").await.text().trim(), "ada");
    let unaccepted = engine.sign(&beta, "eve").await;
    assert_ne!(unaccepted.terminal, Terminal::Succeeded, "{unaccepted:?}");

    // Each has its own process, in its own directory.
    assert_eq!(in_beta.accept("mail").await.unwrap(), 1);
    assert_eq!(engine.sign(&beta, "eve").await.text().trim(), "eve");
    assert_eq!(engine.sign(&acme, "bob").await.text().trim(), "ada bob");

    // A connection serves nobody but the owner of its credential, whoever finds its tools.
    let refused = engine.sign(&gamma, "mallory").await;
    let error = refused.error.as_ref().unwrap();
    assert_eq!(error.kind, ErrorKind::Denied, "{error:?}");
    assert!(error.message.contains("another tenant"), "{error:?}");
    assert_eq!(engine.sign(&acme, "cy").await.text().trim(), "ada bob cy");

    engine.runtime.shut_down().await.unwrap();
    in_acme.stop().await;
    in_beta.stop().await;
    engine.ledger.close().await.unwrap();
}
