//! `[tenants.NAME]` and `[users.NAME]`: rules and presets for the people behind an agent.

use haft_contract::{
    TenantId, UserId,
    host::{
        Policy as _,
        Verdict::{self, Allow, Ask, Deny},
    },
};
use haft_policy::CedarPolicy;

use crate::world::{Call, policy, problem};

const RULES: &str = r#"
[policy]
preset = "careful"
deny = ["read(**/.env)"]

[tenants.acme]
allow = ["write(deploy/**)"]
deny = ["write(pushed/**)"]

[tenants.locked-out]
preset = "locked"

[users.ada]
allow = ["write(pushed/**)"]
ask = ["read(secrets/**)"]
"#;

/// A call of a user of a tenant.
fn by(user: &str, tenant: &str, mut call: Call) -> Call {
    call.principal.user = UserId::parse(user).unwrap();
    call.principal.tenant = TenantId::parse(tenant).unwrap();
    call
}

fn verdict(policy: &CedarPolicy, user: &str, tenant: &str, call: Call) -> Verdict {
    by(user, tenant, call).decide(policy).verdict
}

#[test]
fn a_rule_holds_for_the_tenant_or_user_it_names_and_for_nobody_else() {
    let policy = policy(RULES);
    let deploy = || Call::write("deploy/a");
    let push = || Call::write("pushed/a");
    // Twice, because the second answer is remembered: it must not be another's.
    for _ in 0..2 {
        assert_eq!(verdict(&policy, "bob", "acme", deploy()), Allow);
        assert_eq!(verdict(&policy, "bob", "other", deploy()), Ask);
        assert_eq!(verdict(&policy, "bob", "local", deploy()), Ask);
        assert_eq!(verdict(&policy, "ada", "other", push()), Allow);
        assert_eq!(verdict(&policy, "bob", "other", push()), Ask);
        // Deny beats allow, whichever of the two says it.
        assert_eq!(verdict(&policy, "ada", "acme", push()), Deny);
        assert_eq!(verdict(&policy, "bob", "acme", push()), Deny);
    }
    let secret = || Call::read("secrets/key");
    assert_eq!(verdict(&policy, "ada", "acme", secret()), Ask);
    assert_eq!(verdict(&policy, "bob", "acme", secret()), Allow);
    let env = || Call::read(".env");
    assert_eq!(verdict(&policy, "ada", "acme", env()), Deny);
}

#[test]
fn a_tenants_preset_only_makes_it_stricter() {
    let policy = policy(RULES);
    let write = || Call::write("a");
    assert_eq!(verdict(&policy, "bob", "other", write()), Ask);
    assert_eq!(verdict(&policy, "bob", "locked-out", write()), Deny);
    let looser = crate::world::policy(
        "[policy]\npreset = \"locked\"\n[users.ada]\npreset = \"workspace\"\n",
    );
    assert_eq!(verdict(&looser, "ada", "local", write()), Deny);
}

#[test]
fn a_decision_names_the_section_and_the_line() {
    let policy = policy(RULES);
    let call = by("bob", "acme", Call::write("pushed/a"));
    let decision = policy.decide(&call.question());
    let rule = decision.rule.as_ref().unwrap();
    assert_eq!(
        (rule.text.as_str(), rule.line),
        ("write(pushed/**)", Some(8))
    );
    let mut rules = policy.rules();
    let section = rules.find_map(|rule| rule.holds_for().filter(|of| of.contains("acme")));
    assert_eq!(section.as_deref(), Some("[tenants.acme]"));
    let cedar = policy.cedar_text();
    assert!(cedar.contains("principal.tenant == \"acme\""), "{cedar}");
    assert!(cedar.contains("principal.user == \"ada\""), "{cedar}");
}

#[test]
fn the_same_section_of_two_files_adds_up() {
    let one = haft_policy::PolicySource::new("one.toml", "[tenants.acme]\npreset = \"locked\"\n");
    let two = haft_policy::PolicySource::new(
        "two.toml",
        "[tenants.acme]\npreset = \"workspace\"\nallow = [\"write(deploy/**)\"]\n",
    );
    let policy = CedarPolicy::load(&[one, two]).unwrap();
    let deploy = || Call::write("deploy/a");
    assert_eq!(verdict(&policy, "bob", "acme", deploy()), Allow);
    assert_eq!(verdict(&policy, "bob", "acme", Call::write("a")), Deny);
    assert_eq!(verdict(&policy, "bob", "other", deploy()), Ask);
}

#[test]
fn what_is_misspelt_is_an_error() {
    for (text, says) in [
        ("[tenants.acme]\nalow = [\"bash\"]\n", "alow"),
        (
            "[users.\"a b\"]\ndeny = [\"bash\"]\n",
            "is not an identifier",
        ),
        ("[users.ada]\npreset = \"loose\"\n", "loose"),
    ] {
        let problem = problem(text);
        assert!(problem.contains(says), "{problem}");
    }
}
