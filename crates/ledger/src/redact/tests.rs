//! What is taken out of the record, and what stays.

use serde_json::json;

use super::*;

#[test]
fn every_pattern_compiles() {
    let redactor = Redactor::new([]);
    assert!(Regex::new(HINTS).is_ok());
    assert_eq!(redactor.any().len(), PATTERNS.len());
    for (index, pattern) in PATTERNS.iter().enumerate() {
        assert!(redactor.pattern(index).is_some(), "{pattern}");
    }
}

#[test]
fn common_shapes_are_found_and_ordinary_text_is_left() {
    let redactor = Redactor::new(["horse-battery".to_owned()]);
    let check = |text: &str, expect: &str| assert_eq!(redactor.text(text), expect, "{text}");
    check("key AKIAIOSFODNN7EXAMPLE end", "key [redacted] end");
    check("ghp_0123456789abcdefghijABCDEFGHIJ012345", "[redacted]");
    check("github_pat_0123456789abcdefghijAB", "[redacted]");
    check("glpat-0123456789abcdefghij", "[redacted]");
    check("AIza0123456789abcdefghijABCDEFGHIJ01234", "[redacted]");
    check("eyJhbGciOiJI.eyJzdWIiOiIx.c2lnbmF0dXJl", "[redacted]");
    check(
        "aws_secret_access_key = 0123456789abcdefghijABCDEFGHIJ0123456789",
        "aws_secret_access_key = [redacted]",
    );
    check("mariadb -uroot -pS3cretPw", "mariadb -uroot -p[redacted]");
    check("a1://:x@", "a1://:[redacted]@");
    check("token='x", "token='[redacted]");
    check("xoxb-1234567890-abcdef", "[redacted]");
    check("sk-proj-abcdefghijklmnop1234", "[redacted]");
    check("PGPASSWORD=hunter22 psql", "PGPASSWORD=[redacted] psql");
    check(
        "{\"password\": \"hunter22\"}",
        "{\"password\": \"[redacted]\"}",
    );
    check(
        "curl -H 'Authorization: Bearer abc.def-123'",
        "curl -H 'Authorization: Bearer [redacted]'",
    );
    check(
        "a -----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY----- b",
        "a [redacted] b",
    );
    check("-----BEGIN PRIVATE KEY-----\nMIIE", "[redacted]");
    check(
        "DB_PASSWORD = \"hunter2 with spaces\" next",
        "DB_PASSWORD = \"[redacted]\" next",
    );
    check("--password='a long one' x", "--password='[redacted]' x");
    check("--token abcdef -v", "--token [redacted] -v");
    check(
        r#"{\"token\": \"a b\", \"n\": \"c\"}"#,
        r#"{\"token\": \"[redacted]\", \"n\": \"c\"}"#,
    );
    check(
        r#"secret = "one \" two" three"#,
        r#"secret = "[redacted]" three"#,
    );
    check("SECRET='cut off\nnext", "SECRET='[redacted]\nnext");
    check("password=my\\ pass x", "password=[redacted] x");
    check("mysql -uroot -pS3cretPw db", "mysql -uroot -p[redacted] db");
    check("sshpass -p 'a b' ssh x", "sshpass -p [redacted] ssh x");
    check("curl -u ada:pw http://x", "curl -u ada:[redacted] http://x");
    check("postgres://ada:pw1@db/x", "postgres://ada:[redacted]@db/x");
    check("the horse-battery staple", "the [redacted] staple");
    check("686f7273652d62617474657279", "[redacted]");
    for plain in [
        "cargo test --workspace",
        "src/token.rs",
        "desk-top risk-taking",
        "max_tokens: 12",
        "password = \"\"; user = \"ada\"",
        "PASSWORD=\"[redacted]\"",
        "mysql -h db -p",
        "ssh -p2222 host; cp -pr a b; mkdir -p src/token",
        "cargo run --token --verbose",
        "http://localhost:8080/a@b",
    ] {
        check(plain, plain);
    }
}

/// A made-up value of this length, in a token's alphabet.
fn made_up(length: usize) -> String {
    "Q1w2E3r4T5y6U7i8O9p0"
        .chars()
        .cycle()
        .take(length)
        .collect()
}

fn hexadecimal(length: usize) -> String {
    "0f1e2d3c4b5a6978".chars().cycle().take(length).collect()
}

/// Each text with the part that must be removed.
fn thirty_eight_shapes() -> Vec<(String, String)> {
    let (long, hex) = (made_up(64), hexadecimal(64));
    let upper = long.to_ascii_uppercase();
    let prefixed = [
        ("sk_live_", &long[..24]),
        ("rk_test_", &long[..24]),
        ("whsec_", &long[..32]),
        ("npm_", &long[..36]),
        ("hf_", &long[..34]),
        ("dop_v1_", &hex[..]),
        ("shpat_", &hex[..32]),
        ("glsa_", &long[..41]),
        ("figd_", &long[..40]),
        ("lin_api_", &long[..40]),
        ("ntn_", &long[..46]),
        ("sntrys_", &long[..50]),
        ("pscale_tkn_", &long[..43]),
        ("sbp_", &hex[..40]),
        ("rubygems_", &hex[..48]),
        ("dckr_pat_", &long[..27]),
        ("gsk_", &long[..52]),
        ("r8_", &long[..37]),
        ("xai-", &long[..60]),
        ("dapi", &hex[..32]),
        ("tskey-auth-", &long[..30]),
        ("GOCSPX-", &long[..28]),
        ("ya29.", &long[..60]),
        ("dp.pt.", &long[..43]),
        ("hvs.", &long[..24]),
        ("AGE-SECRET-KEY-1", &upper[..58]),
        ("pypi-", &long[..60]),
        ("SK", &hex[..32]),
        ("ATATT3", &long[..60]),
        ("NRAK-", &upper[..27]),
        ("LS0tLS1CRUdJTiBQUklWQVRF", &long[..60]),
        ("https://hooks.slack.com/services/T0/B0/", &long[..24]),
        (
            "https://discord.com/api/webhooks/123456789012345678/",
            &long[..60],
        ),
        ("123456789:AA", &long[..33]),
        ("DefaultEndpointsProtocol=https;AccountKey=", &long[..60]),
        ("Cookie: session=", &long[..30]),
    ];
    let mut shapes: Vec<(String, String)> = prefixed
        .iter()
        .map(|(prefix, value)| (format!("{prefix}{value}"), (*value).to_owned()))
        .collect();
    let sendgrid = format!("SG.{}.{}", &long[..22], &long[..43]);
    shapes.push((sendgrid, long[..43].to_owned()));
    let discord = format!("M{}.{}.{}", &long[..23], &long[..6], &long[..38]);
    shapes.push((discord, long[..38].to_owned()));
    shapes
}

#[test]
fn au_12_thirty_eight_shapes_are_found_wherever_they_stand() {
    let redactor = Redactor::new([]);
    let shapes = thirty_eight_shapes();
    assert_eq!(shapes.len(), 38);
    for (shape, secret) in shapes {
        for text in [
            shape.clone(),
            format!("a line with {shape} in it"),
            format!("{{\"x\": \"{shape}\"}}"),
            format!("export X={shape}\n"),
        ] {
            let clean = redactor.text(&text);
            assert!(!clean.contains(&secret), "{text}: {clean}");
            assert!(clean.contains(REDACTED), "{text}: {clean}");
        }
    }
}

#[test]
fn au_12_twenty_look_alikes_are_left() {
    let redactor = Redactor::new([]);
    let certificate = format!("LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS{}", made_up(60));
    for text in [
        "commit 0f1e2d3c4b5a69780f1e2d3c4b5a69780f1e2d3c",
        "npm_config_registry_and_other_settings_of_npm",
        "npm_package_version",
        "hf_hub_download(repo_id)",
        "pypi-publish",
        "dapi is a word",
        "r8_g8_b8",
        "SKU 0f1e2d3c4b5a",
        "SG.json",
        "xai-org/grok",
        "sbp_total",
        "https://slack.com/help",
        "https://discord.com/channels/1/2",
        "12:30:45 AAA",
        "sig=short",
        "design=AccountKeys",
        "cookiecutter: a tool",
        "550e8400-e29b-41d4-a716-446655440000",
        "ya29 degrees",
        certificate.as_str(),
    ] {
        assert_eq!(redactor.text(text), text);
    }
}

#[test]
fn fields_with_secret_names_are_blanked_whatever_they_hold() {
    let redactor = Redactor::new([]);
    let mut value = json!({
        "user": "ada", "api_key": "x", "token": ["y"], "n": 1, "secret": 12,
        "password": {"value": "z"}, "passwd": null, "passphrase": true,
    });
    assert!(redactor.value(&mut value));
    assert_eq!(
        value,
        json!({
            "user": "ada", "api_key": REDACTED, "token": REDACTED, "n": 1,
            "secret": REDACTED, "password": REDACTED, "passwd": null, "passphrase": true,
        })
    );
    assert!(!redactor.value(&mut value));
}

#[test]
fn an_exact_value_is_found_in_each_of_its_forms() {
    let redactor = Redactor::new(["a b/c~d".to_owned()]);
    let check = |text: &str, expect: &str| assert_eq!(redactor.text(text), expect, "{text}");
    check("x a b/c~d y", "x [redacted] y");
    check("?q=a%20b%2Fc~d&n=1", "?q=[redacted]&n=1");
    check("6120622f637e64", "[redacted]");
}

#[test]
fn the_shortest_and_the_last_exact_values_count() {
    let redactor = Redactor::new([]);
    assert!(!redactor.add("five5"));
    assert!(redactor.add("sixsix"));
    assert_eq!(redactor.text("sixsix"), REDACTED);
    // Each has three forms.
    for n in 1..MAX_SECRETS {
        assert!(redactor.add(&format!("secret/{n}")), "{n}");
    }
    assert!(redactor.text("secret/1023").contains(REDACTED));
}

#[test]
fn a_secret_among_others_is_reported_and_removed_at_any_depth() {
    let redactor = Redactor::new(["horse-battery".to_owned()]);
    let check = |mut value: Value, expect: Option<Value>| {
        let before = value.clone();
        assert_eq!(redactor.value(&mut value), expect.is_some(), "{before}");
        assert_eq!(value, expect.unwrap_or(before));
    };

    check(
        json!(["a", "horse-battery", "b"]),
        Some(json!(["a", REDACTED, "b"])),
    );
    check(
        json!(["horse-battery", "horse-battery"]),
        Some(json!([REDACTED, REDACTED])),
    );
    check(
        json!({"a": ["horse-battery"], "b": 1}),
        Some(json!({"a": [REDACTED], "b": 1})),
    );
    check(
        json!({"a": "horse-battery", "b": "horse-battery"}),
        Some(json!({"a": REDACTED, "b": REDACTED})),
    );
    check(
        json!({"the horse-battery": 1, "z": "a"}),
        Some(json!({"the [redacted]": 1, "z": "a"})),
    );
    check(
        json!({"token": "", "secret": [], "password": REDACTED}),
        None,
    );
    check(json!(["a", {"b": "c"}]), None);
}

#[test]
fn au_12_secrets_in_addresses_are_found_in_texts_and_in_encoded_bodies() {
    let redactor = Redactor::new([]);
    let body = br#"{"arguments":{"url":"/a?b=c&Signature=abcdef"}}"#;
    assert!(redactor.may_hold_secret(body));
    assert!(!redactor.may_hold_secret(br#"{"arguments":{"url":"/a?b=c&d=abcdef"}}"#));
    let mut value = serde_json::from_slice(body).unwrap();
    assert!(redactor.value(&mut value));
    assert_eq!(value["arguments"]["url"], "/a?b=c&Signature=[redacted]");
}
