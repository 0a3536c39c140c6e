//! Entries of mounted servers as people write them: what is accepted, and what is refused with
//! which message.

use haft_policy::PolicySource;

use super::*;
use crate::config::{file, secrets::filled};

fn read(text: &str) -> Result<McpSettings, String> {
    let parsed = file::parse(&PolicySource::new("haft.toml", text));
    parsed.map(|file| file.mcp).map_err(|problems| {
        let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
        lines.join("\n")
    })
}

fn refused(text: &str, expect: &str) {
    let problems = read(text).unwrap_err();
    assert!(problems.contains(expect), "{text}: {problems}");
}

#[test]
fn a_server_is_a_command_with_what_it_gets() {
    let text = r#"
        [[mcp.servers]]
        id = "files"
        command = ["npx", "-y", "@scope/files@1.2.3", "/srv"]
        env = { LEVEL = "info" }
        secrets = { TOKEN = "env:FILES_TOKEN" }
        cwd = "sub"
        sandbox = { network = ["api.example.org:443"], writable = ["/srv"] }
        prefix = false
        start_timeout = 5
        idle = 0
        tools = { deny = ["delete"] }
    "#;
    let settings = read(text).unwrap();
    let server = &settings.servers[0];
    assert_eq!(server.id.as_str(), "files");
    assert_eq!(server.naming, ToolNaming::Plain);
    assert_eq!(server.start_timeout, Some(Duration::from_secs(5)));
    assert_eq!(server.idle, Some(Idle::Never));
    assert!(!server.trust_annotations && server.enabled);
    assert!(!server.tools.wants("delete") && server.tools.wants("read"));
    let Target::Command(command) = &server.target else {
        panic!("{:?}", server.target);
    };
    assert_eq!(command.mode, SandboxMode::Full);
    assert_eq!(command.writable, [PathBuf::from("/srv")]);
    assert_eq!(command.network.as_ref().unwrap().allow.len(), 1);
    let mut joined = McpSettings::default();
    joined
        .join(settings.clone(), Path::new("/home/me"))
        .unwrap();
    let Target::Command(command) = &joined.servers[0].target else {
        panic!();
    };
    assert_eq!(command.cwd, Some("/home/me/sub".into()));
    let twice = joined.join(settings, Path::new("/"));
    assert!(twice.unwrap_err().contains("given twice"));
}

#[test]
fn a_server_is_an_address_with_what_it_is_sent() {
    let text = r#"
        [[mcp.servers]]
        id = "issues"
        url = "https://mcp.example.org/mcp"
        secrets = { TOKEN = "file:/run/secrets/token" }
        headers = { Authorization = "Bearer ${TOKEN}" }
    "#;
    let settings = read(text).unwrap();
    let Target::Url { headers, .. } = &settings.servers[0].target else {
        panic!();
    };
    let secrets = [("TOKEN".to_owned(), "s3cret".to_owned())].into();
    assert_eq!(filled(&headers["Authorization"], &secrets), "Bearer s3cret");
}

#[test]
fn what_cannot_be_is_told_with_its_line_and_no_secret() {
    let server = |more: &str| format!("[[mcp.servers]]\nid = \"a\"\n{more}\n");
    refused(
        &server(""),
        "haft.toml:1:1: a server without `command` or `url`",
    );
    refused(
        "[[mcp.servers]]\ncommand = [\"x\"]\n",
        "a server without `id`",
    );
    refused(
        &server("command = [\"x\"]\nurl = \"https://y\""),
        "not both",
    );
    refused(&server("command = []"), "does not name a program");
    refused(&server("command = \"x y\""), "`command` must be a list");
    refused(&server("url = \"ftp://y\""), "not an http or https address");
    refused(
        &server("url = \"https://y\"\ncwd = \"/\""),
        "`cwd` has no meaning with `url`",
    );
    for host in [
        "192.0.2.1",
        "localhost.evil.test",
        "127.0.0.1@evil.test",
        "[::2]:80",
    ] {
        refused(
            &server(&format!(
                "url = \"http://{host}/mcp\"\nheaders = {{ A = \"b\" }}"
            )),
            "would be sent unencrypted",
        );
    }
    for host in ["127.0.0.1:80", "localhost", "[::1]:80"] {
        let text = server(&format!(
            "url = \"http://{host}/mcp\"\nheaders = {{ A = \"b\" }}"
        ));
        assert!(read(&text).is_ok(), "{host}");
    }
    refused(&server("comand = [\"x\"]"), "did you mean `command`?");
    refused(
        &server("command = [\"npx\", \"server\"]"),
        "\"server@1.2.3\"",
    );
    read(&server("command = [\"npx\", \"server\"]\nenabled = false")).unwrap();
    refused(
        "[[mcp.servers]]\nid = \"a__b\"\ncommand = [\"x\"]\n",
        "ambiguous",
    );
    refused("[mcp]\nservers = 3\n", "must be a list of tables");
    refused(
        &server("url = \"https://y\"\nheaders = { A = \"${T}\" }"),
        "but there is no secret `T`",
    );
    refused(
        &server("command = [\"x\"]\nsandbox = { network = [\"169.254.169.254\"] }"),
        "credentials",
    );
    let leak = server("command = [\"x\"]\nsecrets = { T = \"ghp_verysecret\" }");
    refused(&leak, "`secrets.T` is not a reference");
    assert!(!read(&leak).unwrap_err().contains("verysecret"));
    let two = format!(
        "{}[[mcp.servers]]\nid = \"a\"\ncommand = [\"x\"]\n",
        server("command = [\"x\"]")
    );
    refused(&two, "the server id `a` is given twice");
}

#[test]
fn two_servers_without_a_prefix_are_one_too_many() {
    let text =
        |id: &str| format!("[[mcp.servers]]\nid = \"{id}\"\ncommand = [\"x\"]\nprefix = false\n");
    let settings = read(&format!("{}{}", text("a"), text("b"))).unwrap();
    let joined = McpSettings::default().join(settings, Path::new("/"));
    assert!(joined.unwrap_err().contains("prefix = false"));
}
