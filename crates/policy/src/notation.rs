//! The notation of rules: what may stand in `allow`, `ask` and `deny` lists, in a file and in code.
//!
//! ```text
//! rule     = ["future:"] tool ["(" pattern ")"] | word "(" pattern ")"
//! tool     = name | provider "/" name | name with "*" | "@" group
//! word     = "host" | "db" | "message"      accesses of one kind, by whichever tool makes them
//! pattern  = path | command | host | database | message | action | own
//! path     = glob relative to the workspace           src/**   **/.env   secrets/
//! command  = words, for the tool `bash`               cargo test *
//! host     = ["domain:"] name or address              docs.rs   domain:*.example.com   10.0.0.1
//! database = ["db:"] name [", reads" | ", writes"]    crm   db:crm, writes
//! message  = ["message:"] channel ":" target          slack:#ops   message:slack:*
//! action   = "action:" name                           action:rollout
//! own      = kind ":" target                          payment:eur/*
//! ```
//!
//! `*` stands for any run of characters (in a path, within one directory; `**` for any directories),
//! and `\*` for a star.
//!
//! - **A tool alone** is every use of it. `@all` is every tool, `@read-only` those that only read,
//!   `@changes` all the others.
//! - **`future:`** names a tool or a group that need not be registered yet: the rule takes effect
//!   when it is. Without it, a name that does not exist is an error, because it may be misspelt.
//! - **A path** in `read(…)` or `write(…)` of `deny` and `ask` holds for every tool that reads or
//!   writes it; in `allow` it is the tool of that name.
//! - **A host** needs no `domain:` if it is an address or a name with a dot; with a wildcard, only
//!   `*.example.com` in `deny` and `ask` needs none. `domain:` takes any name and no path. A rule
//!   in `deny` or `ask` also covers the subdomains of its host.
//! - **A database** without `reads` or `writes` is both. In `deny` and `ask`, `reads` covers writes
//!   too, since what may write also reads.
//! - **An action** is one that the tool's spec lists and its plan names. The rule covers the tool
//!   and everything it touches in such a call.
//! - **A kind of a tool's own** is one that its plans name with `Access::custom`. `@all(payment:*)`
//!   is what every tool does of that kind.
//! - **A word** covers every tool: `db(crm)` is whatever queries `crm`. A tool that is itself called
//!   `host`, `db` or `message` is named with its provider: `embedded/db(…)`.
//!
//! In `deny` and `ask` a pattern reaches as far as it can, in `allow` only as far as it says, and
//! deny goes over ask, ask over allow. A rule that can never match is an error where it is written,
//! and where only a call shows it, the call is denied with the form that can match.
//!
//! ```
//! use haft_policy::{CedarPolicy, PolicySource};
//!
//! CedarPolicy::load(&[PolicySource::new(
//!     "haft.toml",
//!     r#"
//!     [policy]
//!     allow = ["deploy(action:status)", "report(db:crm, reads)", "web_fetch(docs.rs)"]
//!     ask = ["message(slack:*)"]
//!     deny = ["deploy(prod.example.com)", "db(crm, writes)", "host(*.internal)"]
//!     "#,
//! )])?;
//! # Ok::<(), haft_policy::LoadError>(())
//! ```
