//! A description as APIs publish them, and what becomes of each of its operations.

use serde_json::{Value, json};

use super::{ImportedTool, OpenApiImport, import};

/// A description as a tracker of issues publishes one.
fn tracker(version: &str) -> Value {
    json!({
        "openapi": version,
        "info": {"title": "Tracker", "version": "2"},
        "servers": [{"url": "https://tracker.example.com/v2/"}],
        "security": [{"bearerAuth": []}],
        "paths": {
            "/projects/{project-id}/issues": {
                "parameters": [{"$ref": "#/components/parameters/Project"}],
                "get": {
                    "operationId": "listIssues", "summary": "Lists issues",
                    "description": "Newest\tfirst.\u{202e}",
                    "parameters": [
                        {"name": "filter[state]", "in": "query", "schema": {"type": "string",
                            "enum": ["open", "closed"]}},
                        {"name": "labels", "in": "query", "schema": {"type": "array",
                            "items": {"type": "string"}}},
                        {"name": "near", "in": "query", "style": "deepObject",
                            "schema": {"type": "object"}},
                        {"name": "X-Trace", "in": "header", "schema": {"type": "string"}},
                        {"name": "Accept", "in": "header", "schema": {"type": "string"}},
                    ],
                    "responses": {"200": {"description": "them"}},
                },
                "post": {
                    "operationId": "createIssue", "deprecated": true,
                    "requestBody": {"required": true, "content": {"application/json":
                        {"schema": {"$ref": "#/components/schemas/Issue"}}}},
                    "security": [{}, {"key": []}],
                },
            },
            "/files": {"put": {"operationId": "upload",
                "requestBody": {"required": true, "content": {"multipart/form-data": {}}}}},
            "/tree": {"post": {"operationId": "grow", "requestBody": {"required": true, "content":
                {"application/json": {"schema": {"$ref": "#/components/schemas/Tree"}}}}}},
            "/odd": {"post": {"operationId": "odd", "requestBody": {"required": true, "content":
                {"application/json": {"schema": {"if": {}}}}}}},
            "/away": {"post": {"operationId": "away", "requestBody": {"$ref": "other.yaml#/a"}}},
            "/cookie": {"get": {"operationId": "cookie", "parameters": [
                {"name": "s", "in": "cookie", "required": true, "schema": {"type": "string"}}]}},
            "/tls": {"get": {"operationId": "tls", "security": [{"tls": []}]}},
            "/x/{y}": {"get": {"operationId": "undeclared"}},
        },
        "components": {
            "parameters": {"Project": {"name": "project-id", "in": "path", "required": true,
                "description": "Which project", "schema": {"type": "string"}}},
            "schemas": {
                "Issue": {"type": "object", "required": ["id", "title"], "properties": {
                    "id": {"type": "integer", "readOnly": true},
                    "title": {"type": "string", "maxLength": 120, "example": "x"},
                    "owner": {"$ref": "#/components/schemas/Person"},
                    "x": {"type": "number", "x-own": 1},
                }},
                "Person": {"type": "object", "properties": {"name": {"type": "string"}}},
                "Tree": {"type": "object", "properties": {
                    "left": {"$ref": "#/components/schemas/Tree"}}},
            },
            "securitySchemes": {
                "bearerAuth": {"type": "http", "scheme": "bearer"},
                "key": {"type": "apiKey", "in": "query", "name": "api_key"},
                "tls": {"type": "mutualTLS"},
            },
        },
    })
}

fn imported(description: &Value, id: &str) -> Result<ImportedTool, String> {
    let wanted = OpenApiImport {
        only: vec![id.to_owned()],
        ..OpenApiImport::default()
    };
    let tools = import(description, &wanted);
    let mut tools = tools.map_err(|error| format!("{error}; {}", error.hint()))?;
    Ok(tools.remove(0))
}

/// The `config` as haft.toml has it.
fn config(tool: &ImportedTool) -> toml::Table {
    let file: toml::Table = tool.text.parse().unwrap_or_else(|error| {
        panic!("{error}\n{}", tool.text);
    });
    let tool = file["tools"][&tool.name].as_table().unwrap().clone();
    assert_eq!(tool["type"].as_str(), Some("http"));
    tool["config"].as_table().unwrap().clone()
}

#[test]
fn an_operation_becomes_a_tool() {
    for version in ["3.0.3", "3.1.0"] {
        let tool = imported(&tracker(version), "listIssues").unwrap();
        assert_eq!(
            tool.line,
            "GET https://tracker.example.com/v2/projects/{project-id}/issues"
        );
        let config = config(&tool);
        assert_eq!(
            config["description"].as_str(),
            Some("Lists issues\nNewest first.")
        );
        let query = config["query"].as_table().unwrap();
        assert_eq!(query["filter[state]"].as_str(), Some("{filter_state_}"));
        assert_eq!(query["labels"].as_str(), Some("{labels}"));
        let headers = config["headers"].as_table().unwrap();
        assert_eq!(
            headers["Authorization"].as_str(),
            Some("Bearer ${BEARER_AUTH}")
        );
        assert_eq!(headers["X-Trace"].as_str(), Some("{X-Trace}"));
        assert_eq!(headers.len(), 2);
        assert_eq!(
            config["secrets"]["BEARER_AUTH"].as_str(),
            Some("env:BEARER_AUTH_FOR_TRACKER_EXAMPLE_COM")
        );
        let input = config["input"].as_table().unwrap();
        assert_eq!(input["required"].as_array().unwrap().len(), 1);
        let project = &input["properties"]["project-id"];
        assert_eq!(project["description"].as_str(), Some("Which project"));
        assert_eq!(input["properties"].as_table().unwrap().len(), 4);
        let notes = tool.notes.join("\n");
        assert!(notes.contains("`near` in the query is left out"), "{notes}");
        assert!(
            notes.contains("the variable BEARER_AUTH_FOR_TRACKER_EXAMPLE_COM"),
            "{notes}"
        );
        assert!(tool.text.starts_with("# "), "{}", tool.text);
    }
}

#[test]
fn a_body_is_one_argument_with_its_schema_in_place() {
    let tool = imported(&tracker("3.1.0"), "createIssue").unwrap();
    let config = config(&tool);
    assert_eq!(config["method"].as_str(), Some("POST"));
    assert_eq!(config["body"].as_str(), Some("{body}"));
    assert_eq!(config["query"]["api_key"].as_str(), Some("${KEY}"));
    let body = config["input"]["properties"]["body"].as_table().unwrap();
    let names: Vec<&String> = body["properties"].as_table().unwrap().keys().collect();
    assert_eq!(names, ["owner", "title", "x"]);
    assert_eq!(body["required"].as_array().unwrap().len(), 1);
    assert!(tool.notes.iter().any(|note| note.contains("deprecated")));
    assert!(
        !tool.text.contains("$ref") && !tool.text.contains("x-own"),
        "{}",
        tool.text
    );
}

#[test]
fn words_of_openapi_3_0_are_translated() {
    let mut description = tracker("3.0.3");
    description["components"]["schemas"]["Person"] = json!({"type": "object", "properties": {
        "name": {"type": "string", "nullable": true, "default": null},
        "kind": {"type": "string", "nullable": true, "enum": ["a", null], "description": "d"},
        "age": {"type": "integer", "minimum": 0, "exclusiveMinimum": true},
    }});
    let config = config(&imported(&description, "createIssue").unwrap());
    let owner = &config["input"]["properties"]["body"]["properties"]["owner"];
    let owner = serde_json::to_value(owner).unwrap();
    assert_eq!(
        owner["properties"],
        json!({
            "name": {"type": ["string", "null"]},
            "kind": {"anyOf": [{"enum": ["a"]}, {"type": "null"}], "description": "d"},
            "age": {"type": "integer", "exclusiveMinimum": 0},
        })
    );
}

#[test]
fn what_has_no_counterpart_is_refused_by_name() {
    let tracker = tracker("3.1.0");
    for (id, expect) in [
        (
            "upload",
            "its body is `multipart/form-data`, and only JSON is sent",
        ),
        ("grow", "nested deeper than 12, or refers to itself"),
        ("odd", "has `if`, which is not read"),
        ("away", "`other.yaml#/a` is outside the description"),
        ("cookie", "the parameter `s` is a cookie"),
        ("tls", "`tls` is of a kind that is not sent"),
        ("undeclared", "its path has `y`, which is not a parameter"),
        (
            "missing",
            "the description does not have it; it has `away`, `cookie`",
        ),
    ] {
        let said = imported(&tracker, id).unwrap_err();
        assert!(said.contains(expect), "{id}: {said}");
        assert!(
            said.starts_with(&format!("the operation `{id}`: ")),
            "{said}"
        );
    }
    for (description, expect) in [
        (json!({"swagger": "2.0"}), "Swagger 2.0 is not read"),
        (
            json!({"openapi": "4.0\u{1b}[2J"}),
            r"OpenAPI `4.0\u{1b}[2J` is not read",
        ),
        (json!([]), "not an OpenAPI description"),
    ] {
        assert!(
            imported(&description, "x").unwrap_err().contains(expect),
            "{expect}"
        );
    }
}

#[test]
fn the_server_is_one_whole_address() {
    let with = |servers: Value| {
        let mut description = tracker("3.1.0");
        description["servers"] = servers;
        imported(&description, "listIssues").map(|tool| tool.line)
    };
    for (servers, expect) in [
        (json!([]), "does not name a server"),
        (json!([{"url": "/v1"}]), "is not a whole address"),
        (
            json!([{"url": "https://{region}.example.com"}]),
            "has variables",
        ),
        (
            json!([{"url": "http://localhost:8080"}]),
            "add `private = true`",
        ),
        (
            json!([{"url": "http://tracker.example.com"}]),
            "must begin with `https://`",
        ),
    ] {
        let said = with(servers).unwrap_err();
        assert!(said.contains(expect), "{said}");
    }
    let wanted = OpenApiImport {
        only: vec!["listIssues".to_owned()],
        server: Some("http://127.0.0.1:8080/".to_owned()),
        prefix: "my_".to_owned(),
        private: true,
    };
    let tools = import(&tracker("3.1.0"), &wanted).unwrap();
    assert_eq!(tools[0].name, "my_listIssues");
    assert!(
        tools[0]
            .line
            .starts_with("GET http://127.0.0.1:8080/projects/")
    );
}

#[test]
fn a_description_cannot_choose_which_variable_is_sent() {
    let mut description = tracker("3.1.0");
    description["security"] = json!([{"GITHUB_TOKEN": []}]);
    description["components"]["securitySchemes"]["GITHUB_TOKEN"] =
        json!({"type": "http", "scheme": "bearer"});
    let mut variable = |server: &str| {
        description["servers"] = json!([{"url": server}]);
        let config = config(&imported(&description, "listIssues").unwrap());
        let secrets = config["secrets"].as_table().unwrap();
        secrets["GITHUB_TOKEN"].as_str().unwrap().to_owned()
    };
    let mut seen = std::collections::BTreeSet::new();
    for (server, expect) in [
        ("https://tracker.example.com/v2", "TRACKER_EXAMPLE_COM"),
        (
            "https://tracker-example.com:8443",
            "TRACKER__EXAMPLE_COM_8443",
        ),
        (
            "https://tr\u{e4}cker.example.com",
            "XN____TRCKER__CUA_EXAMPLE_COM",
        ),
        ("https://[2606:4700::1111]/v2", "2606__4700____1111"),
    ] {
        let found = variable(server);
        assert_eq!(found, format!("env:GITHUB_TOKEN_FOR_{expect}"));
        assert!(seen.insert(found));
    }
}

#[test]
fn long_names_that_begin_alike_stay_apart() {
    let mut description = tracker("3.1.0");
    let long = "n".repeat(80);
    let parameters = (0..5).map(|number| {
        json!({"name": format!("{long}{number}"), "in": "query", "schema": {"type": "string"}})
    });
    description["paths"]["/long"] =
        json!({"get": {"operationId": "long", "parameters": parameters.collect::<Vec<_>>()}});
    let config = config(&imported(&description, "long").unwrap());
    assert_eq!(config["input"]["properties"].as_table().unwrap().len(), 5);
    assert_eq!(config["query"].as_table().unwrap().len(), 5);
}

#[test]
fn a_path_is_no_part_of_the_host() {
    for path in [
        ".evil.example/x",
        "mons.example/x",
        ":8443/x",
        "@evil.example/x",
        "",
    ] {
        let mut description = tracker("3.1.0");
        description["paths"] = json!({path: {"get": {"operationId": "x"}}});
        let said = imported(&description, "x").unwrap_err();
        assert!(said.contains("does not begin with `/`"), "{path}: {said}");
    }
}

#[test]
fn a_small_description_stays_a_small_tool() {
    let mut description = tracker("3.1.0");
    let values: Vec<String> = (0..1000).map(|number| format!("{number:0100}")).collect();
    description["components"]["schemas"]["Many"] = json!({"enum": values});
    let reference = json!({"$ref": "#/components/schemas/Many"});
    let all = vec![reference; 900];
    description["paths"]["/large"] = json!({"get": {"operationId": "large", "parameters": [
        {"name": "x", "in": "query", "required": true, "schema": {"allOf": all}}]}});
    let said = imported(&description, "large").unwrap_err();
    assert!(said.contains("more than 1048576 bytes"), "{said}");
}
