//! `haft tools import`: from a description to a tool that was trusted and called.

use serde_json::{Value, json};

use crate::{api_server::Api, http_tool::fine, support::Stage};

const DESCRIPTION: &str = "\
openapi: 3.1.0
info: { title: Tracker, version: '2' }
servers:
  - url: https://tracker.example.com/v2
paths:
  /projects/{project}/issues:
    parameters:
      - name: project
        in: path
        required: true
        schema: { type: string }
    get:
      operationId: listIssues
      summary: Lists issues
      parameters:
        - name: state
          in: query
          schema: { type: string, enum: [open, closed] }
    post:
      operationId: createIssue
      summary: Opens an issue
      requestBody:
        required: true
        content:
          application/json:
            schema: { $ref: '#/components/schemas/Issue' }
components:
  schemas:
    Issue:
      type: object
      required: [title]
      properties:
        title: { type: string, maxLength: 120 }
";

#[test]
fn a_description_becomes_tools_that_are_trusted_and_called() {
    let api = Api::start(fine);
    let stage = Stage::with_config("[policy]\nallow = [\"future:listIssues\"]\n");
    stage.write("api.yaml", DESCRIPTION);
    let import = ["tools", "import", "openapi", "api.yaml", "--only"];
    // Printed, and nothing is changed.
    let printed = stage.haft(&[&import[..], &["listIssues"]].concat()).ok();
    assert!(
        printed.starts_with("[tools.listIssues]\ntype = \"http\"\n"),
        "{printed}"
    );
    assert!(printed.contains("url = \"https://tracker.example.com/v2/projects/{project}/issues\""));
    assert_eq!(
        stage.read("haft.toml"),
        "[policy]\nallow = [\"future:listIssues\"]\n"
    );
    // Written, and not trusted by that.
    let url = api.url("/v2");
    let write = [
        "listIssues,createIssue",
        "--server",
        &url,
        "--private",
        "--write",
    ];
    let nobody = stage.haft(&[&import[..], &write[..]].concat());
    assert!(
        nobody.all().contains("nobody is there to confirm"),
        "{}",
        nobody.all()
    );
    stage
        .haft(&[&import[..], &write[..], &["--yes"]].concat())
        .ok();
    let call = [
        "call",
        "listIssues",
        r#"{"project": "web", "state": "open"}"#,
    ];
    assert_ne!(stage.haft(&call).code, 0);
    let trusted = stage.haft(&["trust", "--yes"]).ok();
    assert!(
        trusted.contains("`createIssue`: POST http://127.0.0.1:"),
        "{trusted}"
    );
    stage.haft(&call).ok();
    let asked = stage.haft(&[
        "call",
        "--ask",
        "never",
        "createIssue",
        r#"{"project": "web", "body": {"title": "x"}}"#,
    ]);
    assert_ne!(asked.code, 0, "{}", asked.all());
    let wrong = stage.haft(&[
        "call",
        "listIssues",
        r#"{"project": "web", "state": "gone"}"#,
    ]);
    assert!(wrong.all().contains("state"), "{}", wrong.all());
    assert_eq!(api.asked().len(), 1);
    assert!(api.asked()[0].starts_with("GET /v2/projects/web/issues?state=open HTTP/1.1\r\n"));
    // A tool that is there already is not replaced.
    let again = stage.haft(&[&import[..], &write[..], &["--yes"]].concat());
    assert_ne!(again.code, 0, "{}", again.all());
    let said = again.all();
    assert!(
        said.contains("the tool `listIssues` exists already"),
        "{said}"
    );
    assert!(said.contains("--prefix"), "{said}");
}

#[test]
fn json_is_read_too_and_what_is_neither_is_refused() {
    let stage = Stage::new();
    let description = json!({"openapi": "3.0.3", "servers": [{"url": "https://a.example"}],
        "paths": {"/x": {"get": {"operationId": "x"}}}});
    stage.write("api.json", description.to_string());
    let import = |file: &str, id: &str| {
        stage.haft(&["tools", "import", "openapi", file, "--only", id, "--json"])
    };
    let said: Value = serde_json::from_str(&import("api.json", "x").ok()).unwrap();
    assert_eq!(said["tools"][0]["request"], "GET https://a.example/x");
    for (file, text, expect) in [
        (
            "api.json",
            None,
            "the operation `y`: the description does not have it",
        ),
        ("none.json", None, "it does not exist"),
        ("bad.json", Some("{"), "EOF"),
        ("bad.yaml", Some("a: &x [1]\nb: *x\n"), "alias"),
        ("list.yaml", Some("- a\n"), "not an OpenAPI description"),
    ] {
        if let Some(text) = text {
            stage.write(file, text);
        }
        let refused = import(file, "y");
        assert_ne!(refused.code, 0, "{file}");
        assert!(refused.all().contains(expect), "{}", refused.all());
    }
}

#[test]
fn tools_in_a_persons_own_file_are_on_and_said_to_be() {
    let stage = Stage::bare();
    let description = json!({"openapi": "3.1.0", "servers": [{"url": "https://a.example"}],
        "paths": {"/x": {"get": {"operationId": "x"}}}});
    stage.write("api.json", description.to_string());
    let import = [
        "tools", "import", "openapi", "api.json", "--only", "x", "--write", "--yes",
    ];
    let said = stage.haft(&import).ok();
    assert!(
        said.contains("the file is your own, so they are on"),
        "{said}"
    );
    let tools = stage.haft(&["tools"]).ok();
    assert!(tools.contains("x "), "{tools}");
}
