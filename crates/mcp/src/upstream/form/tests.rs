//! Forms that are rejected, each with a similar one that is not.

use serde_json::json;

use super::*;

/// A form with one field.
fn form(message: &str, name: &str, field: Value) -> Map<String, Value> {
    let mut properties = Map::new();
    properties.insert(name.to_owned(), field);
    let form = json!({ "message": message,
        "requestedSchema": { "type": "object", "properties": properties } });
    form.as_object().unwrap().clone()
}

fn asks_secret(form: &Map<String, Value>) -> bool {
    matches!(refusal(form), Some(FormRefusal::Secret { .. }))
}

#[test]
fn mc_29_a_field_that_asks_for_a_secret_is_noticed_by_its_name() {
    for name in [
        "password",
        "Password",
        "user_password",
        "userPassword",
        "passwd",
        "passphrase",
        "pwd",
        "apiKey",
        "api_key",
        "API-KEY",
        "apikey",
        "access_token",
        "authToken",
        "token",
        "secret",
        "client_secret",
        "privateKey",
        "PIN",
        "pin",
        "pinCode",
        "otp",
        "cvv",
        "cardNumber",
        "card_number",
        "credit-card",
        "one_time_code",
        "verification_code",
        "2fa_code",
        "seed_phrase",
        "credentials",
        "p4ssw0rd",
        "p\u{430}ssword",
        "Passwort",
        "contraseña",
        "пароль",
        "密码",
        "パスワード",
    ] {
        let asked = form("Please fill this in", name, json!({ "type": "string" }));
        assert!(asks_secret(&asked), "{name}");
        // A form that only offers choices takes no secret.
        for choice in [
            json!({ "type": "boolean" }),
            json!({ "type": "string", "enum": ["keep", "reset"] }),
            json!({ "type": "string", "oneOf": [{ "const": "keep", "title": "Keep" }] }),
            json!({ "type": "array", "items": { "anyOf": [{ "const": "a" }] } }),
        ] {
            let asked = form("Please choose", name, choice.clone());
            assert_eq!(refusal(&asked), None, "{name} {choice}");
        }
    }
}

#[test]
fn mc_29_a_field_that_asks_for_a_secret_is_noticed_by_what_is_said_of_it() {
    let fields = [
        json!({ "type": "string", "format": "password" }),
        json!({ "type": "string", "writeOnly": true }),
        json!({ "type": "string", "title": "Your GitHub token" }),
        json!({ "type": "string", "title": "Enter the token" }),
        json!({ "type": "string", "description": "Paste your private key here" }),
        json!({ "type": "string", "description": "the P a s s w o r d of the account" }),
        json!({ "type": "string", "description": "it begins with ghp_" }),
        json!({ "type": "string", "pattern": "^sk_live_[a-z]+$" }),
        json!({ "title": "Sign-in code" }),
        json!({ "type": "integer", "title": "One-time code" }),
        json!({ "type": "number", "title": "Card number" }),
        json!({ "type": "integer", "title": "PIN" }),
        json!({ "type": "object", "properties": { "password": { "type": "string" } } }),
    ];
    for field in fields {
        let asked = form("Please fill this in", "value", field.clone());
        assert!(asks_secret(&asked), "{field}");
    }
}

#[test]
fn mc_29_a_message_that_asks_for_a_secret_is_noticed_where_it_can_be_typed() {
    for message in [
        "Enter your password to go on",
        "Your API key, please",
        "We need the token of your account",
        "What is your PIN?",
        "Type the verification code that was sent to you",
        "Please provide the recovery phrase",
        "Login credentials",
    ] {
        let typed = form(message, "value", json!({ "type": "string" }));
        assert!(asks_secret(&typed), "{message}");
        let chosen = form(message, "value", json!({ "type": "boolean" }));
        assert_eq!(refusal(&chosen), None, "{message}");
        // On the server's own page it is allowed.
        let mut page = typed.clone();
        page.insert("mode".to_owned(), json!("url"));
        assert_eq!(refusal(&page), None, "{message}");
    }
    let digits = form("What is your PIN?", "value", json!({ "type": "integer" }));
    assert!(asks_secret(&digits));
}

#[test]
fn an_ordinary_form_passes_also_with_words_that_secrets_have() {
    let text = || json!({ "type": "string" });
    let number = || json!({ "type": "integer" });
    for (message, name, field) in [
        ("What is your name?", "name", text()),
        (
            "Who are you?",
            "email",
            json!({ "type": "string", "format": "email" }),
        ),
        ("Which column?", "primary_key_column", text()),
        ("Enter the primary key column", "column", text()),
        ("Which keyboard layout?", "keyboard_layout", text()),
        ("How many tokens at most?", "max_tokens", number()),
        ("What is the token count?", "token_count", number()),
        ("Set the policy", "password_length", number()),
        ("A key and a value", "key", text()),
        ("Which key is sorted by?", "sort_key", text()),
        ("Enter the key name", "key_name", text()),
        ("Which separator token?", "separator", text()),
        ("Share key metrics with whom?", "team", text()),
        ("Pin the message where?", "channel", text()),
        ("Which country code?", "country_code", text()),
        ("Which error code?", "code", text()),
        ("The public key's file", "path", text()),
        ("A random seed", "seed", number()),
        ("Kubernetes object", "secret_name", text()),
        ("Which author?", "author", text()),
        ("Which language, such as sk-SK?", "language", text()),
        ("A compass point", "passing", text()),
        ("Time code of the scene", "time_code", text()),
        ("Which Haft version do you use?", "version", text()),
        ("", "", text()),
    ] {
        let asked = form(message, name, field);
        assert_eq!(refusal(&asked), None, "{message} {name}");
    }
    let bare = json!({ "message": "Your password was changed. Go on?" });
    assert_eq!(refusal(bare.as_object().unwrap()), None);
}

#[test]
fn mc_29_a_form_that_speaks_as_haft_is_noticed_wherever_it_does() {
    let by_message = form(
        "Haft needs your approval",
        "ok",
        json!({ "type": "boolean" }),
    );
    let by_title = form(
        "Go on?",
        "ok",
        json!({ "type": "boolean", "title": "Haft: allow" }),
    );
    let by_choice = form(
        "Go on?",
        "ok",
        json!({ "type": "string", "enum": ["haft approve 1"] }),
    );
    let by_lines = form(
        "will      read a.txt\nwhy       a rule asks",
        "ok",
        json!({ "type": "boolean" }),
    );
    let mut page = by_message.clone();
    page.insert("mode".to_owned(), json!("url"));
    for asked in [by_message, by_title, by_choice, by_lines, page] {
        let refused = refusal(&asked);
        let speaks = matches!(refused, Some(FormRefusal::SpeaksAsHaft { .. }));
        assert!(speaks, "{asked:?}: {refused:?}");
    }
}
