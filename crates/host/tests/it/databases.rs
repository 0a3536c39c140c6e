//! Configured databases, which are the host's own tenant's in every workspace.

use haft_contract::WorkspaceId;
use serde_json::json;

use crate::configured_host::{ConfiguredHost, principal};

#[tokio::test]
#[ignore = "ci: needs Python"]
async fn databases_reach_added_workspaces_of_the_hosts_own_tenant_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("shop.db");
    let made = std::process::Command::new("python3")
        .args(["-c", MAKE, path.to_str().unwrap()])
        .status();
    assert!(made.unwrap().success());
    let config = format!(
        "[policy]\nallow = [\"db(shop, reads)\"]\n[sources.shop]\ntype = \"sqlite\"\npath = \"{}\"\n",
        path.display()
    );
    let house = ConfiguredHost::open(&config).await;
    let (ada, ann) = (principal("local", "ada"), principal("acme", "ann"));
    let (own, other) = (
        house.workspace("local", "more"),
        house.workspace("acme", "acme"),
    );
    let query = || json!({"query": "SELECT name FROM item"});
    for workspace in [&WorkspaceId::local(), own.id()] {
        let read = house.call(&ada, workspace, "database_query", query()).await;
        assert!(read.text().contains("lamp"), "{workspace}: {read:?}");
    }
    let refused = house
        .call(&ann, other.id(), "database_query", query())
        .await;
    assert!(!refused.succeeded(), "{refused:?}");
    assert!(!refused.model_text().contains("lamp"), "{refused:?}");
    house.served.host().close().await.unwrap();
}

/// Makes a database with one row.
const MAKE: &str = "import sqlite3, sys\n\
    made = sqlite3.connect(sys.argv[1])\n\
    made.execute('CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT)')\n\
    made.execute(\"INSERT INTO item VALUES (1, 'lamp')\")\n\
    made.commit()\n";
