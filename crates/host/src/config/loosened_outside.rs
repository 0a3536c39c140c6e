//! What a configuration file loosens outside its rules and tools, compared with when it was last
//! trusted: weaker sandboxes, mounted servers and what they get, and who else answers questions.

use haft_contract::ops::SandboxMode;
use haft_policy::ToolSettings;

use super::{approval_places::ApprovalPlaces, consequences, mcp::McpSettings};

/// The tools that are confined less than they were, one sentence each.
pub(super) fn sandboxes(before: &ToolSettings, after: &ToolSettings) -> Vec<String> {
    let weaker = after.sandboxes().filter(|(tool, mode)| {
        let was = before.sandbox(tool).unwrap_or(SandboxMode::Full);
        *mode < was
    });
    let said = weaker.map(|(tool, mode)| match mode {
        SandboxMode::Off => format!("`{tool}` runs without a sandbox"),
        SandboxMode::Basic | SandboxMode::Full => {
            format!("`{tool}` has the sandbox `{}`", mode.as_str())
        }
    });
    said.collect()
}

/// The servers that are mounted and were not, and what they get or reach in addition.
pub(super) fn servers(before: &McpSettings, after: &McpSettings) -> Vec<String> {
    let mut found = Vec::new();
    for server in after.mounted() {
        let known = before.mounted().find(|known| known.id == server.id);
        let known = known.map(consequences::mounted).unwrap_or_default();
        let is = consequences::mounted(server);
        let new = is
            .lines()
            .iter()
            .filter(|line| !known.lines().contains(line));
        found.extend(new.map(|(word, text)| match *word {
            "mounts" => format!("an MCP server is mounted: {text}"),
            "unconfined" | "secret" => text.clone(),
            word => format!("{word}: {text}"),
        }));
    }
    found
}

/// Who else answers questions.
pub(super) fn answers(before: &ApprovalPlaces, after: &ApprovalPlaces) -> Vec<String> {
    let known = before.lines();
    let new = after.lines().into_iter();
    new.filter(|line| !known.contains(line))
        .map(|line| format!("questions are also answered by {line}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use haft_policy::{PolicyFile, PolicySource};

    use super::*;
    use crate::config::file::{self, ConfigFile};

    fn parse(text: &str) -> ConfigFile {
        file::parse(&PolicySource::new("haft.toml", text)).unwrap()
    }

    #[test]
    fn a_weaker_sandbox_is_named() {
        let check = |before: &str, after: &str, expect: &[&str]| {
            let policy = |text: &str| PolicyFile::parse(&PolicySource::new("haft.toml", text));
            let (before, after) = (policy(before).unwrap(), policy(after).unwrap());
            assert_eq!(
                sandboxes(before.tool_settings(), after.tool_settings()),
                expect
            );
        };
        let mode = |mode: &str| format!("[tools.bash]\nsandbox = \"{mode}\"\n");
        let (off, basic, full) = (mode("off"), mode("basic"), mode("full"));
        check("", &off, &["`bash` runs without a sandbox"]);
        check(&basic, &off, &["`bash` runs without a sandbox"]);
        check("", &basic, &["`bash` has the sandbox `basic`"]);
        check("", &full, &[]);
        check(&off, &off, &[]);
        check(&off, &basic, &[]);
        check(&off, "", &[]);
    }

    #[test]
    fn a_server_that_is_mounted_and_what_it_gets_is_named() {
        let check = |before: &str, after: &str, expect: &[&str]| {
            assert_eq!(servers(&parse(before).mcp, &parse(after).mcp), expect);
        };
        let plain = "[[mcp.servers]]\nid = \"x\"\ncommand = [\"/bin/x\", \"-y\"]\n";
        let mounted = "an MCP server is mounted: `x`, which runs: /bin/x -y";
        check("", plain, &[mounted]);
        check(plain, plain, &[]);
        check(plain, "", &[]);
        let off = format!("{plain}enabled = false\n");
        check("", &off, &[]);
        check(&off, plain, &[mounted]);
        let other = plain.replace("/bin/x", "/bin/y");
        check(
            plain,
            &other,
            &["an MCP server is mounted: `x`, which runs: /bin/y -y"],
        );
        let more = format!(
            "{plain}secrets = {{ K = \"env:K\" }}\nsandbox = {{ mode = \"off\" }}\ntrust_annotations = true\n"
        );
        check(
            plain,
            &more,
            &[
                "`x` has the sandbox `off`",
                "`x` gets env:K as K",
                "trusts: what `x` says about its tools' effects",
            ],
        );
        check(&more, plain, &[]);
        let far = "[[mcp.servers]]\nid = \"y\"\nurl = \"https://y.example/mcp\"\n";
        check(
            plain,
            &format!("{plain}{far}"),
            &["an MCP server is mounted: `y` at https://y.example/mcp"],
        );
    }

    #[test]
    fn who_else_answers_is_named() {
        let check = |before: &str, after: &str, expect: &[&str]| {
            let places = |text: &str| parse(text).asking.places;
            assert_eq!(answers(&places(before), &places(after)), expect);
        };
        let webhook = |host: &str| {
            format!("[approvals.webhook]\nurl = \"https://{host}/hook\"\nkey = \"env:HOOK\"\n")
        };
        let (one, other) = (webhook("a.example"), webhook("b.example"));
        let said = "questions are also answered by the webhook `https://a.example/hook`";
        check("", &one, &[said]);
        check(&other, &one, &[said]);
        check(&one, &one, &[]);
        check(&one, "", &[]);
        check(
            "",
            "[approvals]\ndesktop = true\n",
            &["questions are also answered by notifications on the desktop"],
        );
    }
}
