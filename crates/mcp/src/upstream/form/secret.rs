//! Which words ask for a secret. Some always do, some only in combination, and some only when the
//! text asks the reader to give them: `key` and `token` mean many things.

use super::{
    FieldKind,
    words::{List, Words},
};

/// Words that mean a secret anywhere.
const ALWAYS: List = List(
    "password, passwords, passwd, passcode, passphrase, passphrases, credential, credentials, \
     mnemonic, otp, totp, cvv, cvv2, cvc, ssn, apikey, accesskey, secretkey, privatekey, \
     accesstoken, authtoken, clientsecret, cardnumber, creditcard, pincode, seedphrase, passwort, \
     kennwort, contrasena, senha, wachtwoord, losenord, haslo, motdepasse, kreditkarte, пapoль, \
     密码, 密碼, パスワード, 暗証番号, 비밀번호",
);

/// Words that mean a secret next to each other.
const TOGETHER: List = List(
    "api key, api keys, access key, private key, secret key, ssh key, signing key, encryption \
     key, decryption key, recovery key, security key, master key, license key, wallet key, your \
     key, access token, auth token, authentication token, authorization token, bearer token, api \
     token, refresh token, session token, security token, secret token, personal token, oauth \
     token, bot token, login token, your token, client secret, shared secret, api secret, app \
     secret, webhook secret, your secret, pass phrase, pass word, pass code, seed phrase, \
     recovery phrase, secret phrase, seed words, session cookie, credit card, debit card, card \
     number, bank account, social security, mot de passe, pin code, pin number, your pin, card \
     pin, security answer, secret answer, login data, one time code, sign in code, github token, \
     hub token, gitlab token, lab token",
);

/// Words that make a *code* one that proves identity.
const CODES: List = List(
    "verification, security, auth, authentication, authenticator, login, sms, 2fa, mfa, factor, \
     backup, recovery, confirmation, access, secret",
);

/// Words that make a number a secret. Other secrets are not numbers.
const DIGITS: List = List(
    "password, passcode, otp, totp, cvv, cvv2, cvc, ssn, cardnumber, pincode, creditcard, 暗証番号",
);

/// The same, as phrases.
const DIGITS_TOGETHER: List = List(
    "pin code, pin number, your pin, card pin, card number, credit card, debit card, bank \
     account, social security, one time code, sign in code",
);

/// A property of a secret, not the secret itself.
const MEASURES: List =
    List("length, count, size, limit, minimum, maximum, min, max, days, attempts");

/// Words that ask the reader to give something.
const ASKS: List = List(
    "enter, paste, provide, supply, give, send, share, submit, insert, need, needs, require, your",
);

/// Words that mean a secret only when the reader is asked to give them.
const GIVEN: List = List("token, key, secret, pin, passkey");

/// Those of [`GIVEN`] that are numbers.
const GIVEN_DIGITS: List = List("pin");

/// Words before or after a [`GIVEN`] word that give it another meaning.
const HARMLESS: List = List(
    "primary, foreign, public, sort, partition, shortcut, arrow, json, cache, map, lookup, \
     object, unique, composite, column, config, translation, redis, issue, project, stop, \
     separator, delimiter, name, names, columns, metrics, layout, count, binding, bindings, \
     field, fields, prefix, pattern, type, label, length, limit, budget, size, index, santa, \
     location, results, points, findings, features, figures, people",
);

/// Names that, alone as a field's name, ask for a secret.
const BARE: List = List("token, secret, secrets, pin, pw, pwd");

/// The prefixes of well-known services' keys and tokens.
const BEGINNINGS: [&str; 9] = [
    "sk-ant-",
    "sk_live_",
    "ghp_",
    "gho_",
    "github_pat_",
    "glpat-",
    "xoxb-",
    "akia",
    "-----begin ",
];

/// How far before a word the one that asks for it may be.
const ASKS_WITHIN: usize = 4;

/// Whether a text asks for a secret that this kind of field can take.
pub(super) fn asks_for_secret(text: &Words, takes: FieldKind) -> bool {
    let is_code = || text.has_code(CODES) || text.has_capitals("PIN");
    match takes {
        FieldKind::Text => {
            text.has_any(ALWAYS)
                || text.has_phrase(TOGETHER)
                || is_code()
                || text.has_any_after(GIVEN, ASKS, ASKS_WITHIN, HARMLESS)
                || BEGINNINGS
                    .iter()
                    .any(|beginning| text.is_beginning(beginning))
        }
        FieldKind::Digits => {
            let is_asked = || {
                text.has_any(DIGITS)
                    || text.has_phrase(DIGITS_TOGETHER)
                    || is_code()
                    || text.has_any_after(GIVEN_DIGITS, ASKS, ASKS_WITHIN, HARMLESS)
            };
            !text.has_any(MEASURES) && is_asked()
        }
    }
}

/// Whether a text is the name of a secret and nothing else, as a field's name is.
pub(super) fn is_called_secret(text: &Words) -> bool {
    text.is_just(BARE)
}
