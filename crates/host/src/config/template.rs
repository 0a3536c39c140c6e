//! The configuration `haft init` writes: every line explained, careful by default.

/// A new `haft.toml` with a preset.
pub fn haft_toml(preset: &str) -> String {
    TEMPLATE.replace("PRESET", preset)
}

const TEMPLATE: &str = r#"# Haft: what agents may do in this workspace.
#
# This file counts because you made it with `haft init`. After every edit run `haft trust`, which pins
# what it says now; until then Haft refuses to work here. Nobody else's haft.toml is ever read.

[policy]
# sandboxed  what a sandbox without network holds is allowed; the network, installs, leaving the
#            workspace and losing what no command makes again (`rm notes.txt`) ask you
# workspace  the same, but commands that delete files or rewrite history ask you as well
# careful    reads are allowed, and in the sandbox looking, building, testing and committing;
#            everything that is there to change a file asks you
# locked     nothing asks; what no rule allows is denied (for machines without a person)
preset = "PRESET"

# Rules are `tool` or `tool(pattern)`. deny beats ask, ask beats allow. `haft policy check` tries one
# out, `haft explain` names the rule that decided a call.

# Done without asking. A rule for commands is compared with the words of each command in a script,
# and every one needs a rule; a star at the end stands for any further words.
#   allow = ["bash(cargo test)", "bash(npm run *)", "edit(docs/**)"]
allow = []

# Always asked, whatever the preset says.
ask = []

# Never done, and what matches is left out of searches.
deny = ["read(**/.env)", "read(**/.env.local)", "read(**/.env.*.local)", "read(**/.env.production)",
        "read(**/*key*.pem)", "read(**/id_rsa*)", "read(**/id_ed25519*)", "read(**/id_ecdsa*)",
        "read(**/id_dsa*)", "read(**/.pgpass)", "read(**/.netrc)", "read(**/.git-credentials)",
        # What nobody should run for an agent, in any spelling: sudo, su, doas, mkfs, dd to a device,
        # rm -rf of the root or a home, fork bombs. The sandbox holds them too, so a command that is
        # not understood is left to it, instead of asking you because of them.
        { rule = "bash(@ruinous)", in_doubt = "sandbox" }]

# Commands run in a sandbox: they see this workspace, the system's programs and your toolchains,
# and nothing else of your files; no network, no other process. `haft doctor` proves it here,
# `haft doctor --show-sandbox bash` shows all of it.
#
# [sandbox]
# read_only = ["/opt/data"]     # more places commands may read
# writable = ["/var/cache/x"]   # and write
# path = ["~/bin"]              # where programs are looked for first
# env = { RUST_LOG = "info" }   # more variables of commands
# [sandbox.network]
# allow = ["crates.io", "*.crates.io", "registry.npmjs.org"]
# [sandbox.limits]
# memory_mib = 4096
# processes = 2048

# [limits]
# approval_wait_ms = 600000     # how long a question waits for you
# open_approvals = 100          # questions one session may have open
# hard_deadline_ms = 3600000    # no call runs longer than this

# [loop_guard]
# warn = 3                      # equal results in a row before the model is told
# ask = 6                       # and before you are asked

# [mcp]
# elicitation = "never"         # agents never ask you for an approval; `haft approvals --watch` does
# approval_wait = 50            # seconds an agent waits for one that it cannot ask you for
# requests_in_flight = 1024     # requests of one agent that are served at once

# [record]
# artifact_days = 30            # how long long output, and files before a change, are kept
# queue_bytes = 33554432        # what may wait in memory to be written; beyond it new calls wait

# [undo]
# ignore = ["generated/**"]     # what commands change there is not kept; see docs/guide/undo.md

# [scripts]
# folders = ["tools"]           # your own tools: a manifest and a program each, pinned by `haft trust`

# The web, APIs and databases are off until they are named here; see docs/guide/web.md, http.md and
# sources.md. `haft tools import openapi` writes tools of the type "http".
#
# [tools.web_fetch]
# type = "web_fetch"
# [tools.web_search]
# type = "web_search"
# config = { providers = [{ type = "brave", key = "env:BRAVE_API_KEY" }] }
# [sources.crm]
# type = "postgres"
# address = "postgres://haft@db.example.org/crm"
# password = "env:CRM_PASSWORD"
"#;
