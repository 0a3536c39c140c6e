//! The text of an API key: `haft_<env>_<id>_<secret><checksum>`. Its beginning and its checksum let
//! scanners find a key that was published by mistake, and tell a mistyped one without asking the record.
//! Only the hash of the whole text is kept.

use std::fmt;

use haft_host::random::{NoRandomness, fill_random};
use haft_ledger::CredentialId;
use sha2::{Digest as _, Sha256};

/// Which keys these are for, so that a key of a test is not taken for a real one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum KeyEnvironment {
    /// What people depend on.
    #[default]
    Live,
    /// Everything else.
    Test,
}

impl KeyEnvironment {
    fn as_str(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Test => "test",
        }
    }
}

/// The characters of secrets and checksums.
const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

/// How many of them a secret has: 160 bits.
const SECRET_CHARS: usize = 32;

/// How many a checksum has.
const CHECK_CHARS: usize = 6;

/// An API key as its holder has it. It is shown once, where it is made.
#[derive(Clone, PartialEq, Eq)]
pub struct ApiKeyText {
    text: String,
    id: CredentialId,
}

impl ApiKeyText {
    /// A new key.
    pub fn make(environment: KeyEnvironment) -> Result<Self, NoRandomness> {
        let id = CredentialId::random().map_err(|_| NoRandomness)?;
        let secret = random(SECRET_CHARS)?;
        let head = format!("haft_{}_{id}_{secret}", environment.as_str());
        let text = format!("{head}{}", checksum(&head));
        Ok(Self { text, id })
    }

    /// The key that somebody sent, if it is written like one.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('_');
        let (haft, environment) = (parts.next()?, parts.next()?);
        let (id, rest) = (parts.next()?, parts.next()?);
        let is_ours = haft == "haft" && matches!(environment, "live" | "test");
        let is_whole = rest.len() == SECRET_CHARS + CHECK_CHARS
            && rest.bytes().all(|byte| ALPHABET.contains(&byte));
        let id = CredentialId::parse(id)?;
        if !is_ours || !is_whole || parts.next().is_some() {
            return None;
        }
        let (head, check) = text.split_at_checked(text.len() - CHECK_CHARS)?;
        (checksum(head) == check).then(|| Self {
            text: text.to_owned(),
            id,
        })
    }

    /// The key as its holder writes it.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The part that is no secret.
    pub fn id(&self) -> &CredentialId {
        &self.id
    }

    /// What is kept of it.
    pub fn hash(&self) -> [u8; 32] {
        Sha256::digest(self.text.as_bytes()).into()
    }
}

/// So that no log has it.
impl fmt::Debug for ApiKeyText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ApiKeyText")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

/// Characters drawn by chance, five bits each.
pub(crate) fn random(chars: usize) -> Result<String, NoRandomness> {
    let mut bytes = vec![0; chars];
    fill_random(&mut bytes)?;
    Ok(bytes.iter().map(|byte| letter(*byte)).collect())
}

fn checksum(head: &str) -> String {
    let hash = Sha256::digest(head.as_bytes());
    hash.iter()
        .take(CHECK_CHARS)
        .map(|byte| letter(*byte))
        .collect()
}

fn letter(byte: u8) -> char {
    let letter = ALPHABET.get(usize::from(byte & 31)).copied();
    char::from(letter.unwrap_or(b'a'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_read_as_it_was_made() {
        for environment in [KeyEnvironment::Live, KeyEnvironment::Test] {
            let key = ApiKeyText::make(environment).unwrap();
            let read = ApiKeyText::parse(key.text()).unwrap();
            assert_eq!((read.id(), read.hash()), (key.id(), key.hash()));
            assert!(!format!("{key:?}").contains(key.text()));
        }
        let (one, other) = (random(32).unwrap(), random(32).unwrap());
        assert_ne!(one, other);
    }

    #[test]
    fn a_mistyped_key_is_none() {
        let key = ApiKeyText::make(KeyEnvironment::Live).unwrap();
        let text = key.text();
        let other = if text.ends_with('a') { "b" } else { "a" };
        for wrong in [
            "",
            "haft_live__",
            &text[1..],
            &text[..text.len() - 1],
            &format!("{text}a"),
            &format!("{}{other}", &text[..text.len() - 1]),
            &text.replace("live", "test"),
            &text.to_uppercase(),
            &format!("{text}_a"),
        ] {
            assert!(ApiKeyText::parse(wrong).is_none(), "{wrong}");
        }
    }
}
