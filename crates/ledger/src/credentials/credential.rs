//! A credential as whoever checks it sees it: whose it is, what it may do, and until when. It never has the
//! secret, nor the hash of it. How one is stored is in `row.rs`.

use std::{collections::BTreeSet, fmt, io};

use haft_contract::{
    AgentId, TenantId, UserId, WorkspaceId, displayed::is_deceptive, host::Timestamp,
    identity::Scope,
};

use crate::directory::fill_random;

/// How many characters an id has.
pub const CREDENTIAL_ID_CHARS: usize = 16;

/// The longest name of a credential, and of whoever made it, in characters.
pub const MAX_CREDENTIAL_NAME_CHARS: usize = 80;

/// The most scopes that a credential has.
pub const MAX_CREDENTIAL_SCOPES: usize = 64;

/// The most workspaces that a credential names.
pub const MAX_CREDENTIAL_WORKSPACES: usize = 64;

/// The letters of a random id: five bits each.
const LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

/// The public part of a credential, which it is found by. No secret.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CredentialId(String);

impl CredentialId {
    /// A new one, which nobody can foresee.
    pub fn random() -> io::Result<Self> {
        let mut bytes = [0; CREDENTIAL_ID_CHARS];
        fill_random(&mut bytes)?;
        // A byte has more bits than a letter needs, and 256 is a multiple of 32, so no letter is likelier.
        let letters = bytes.map(|byte| {
            let letter = LETTERS.get(usize::from(byte) % LETTERS.len());
            letter.map_or('a', |letter| char::from(*letter))
        });
        Ok(Self(letters.iter().collect()))
    }

    /// Parses an id from outside: 16 lower-case letters and digits.
    pub fn parse(id: &str) -> Option<Self> {
        let is_allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let is_id = id.len() == CREDENTIAL_ID_CHARS && id.bytes().all(is_allowed);
        is_id.then(|| Self(id.to_owned()))
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for CredentialId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a credential is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CredentialKind {
    /// A program's key, which it sends with every request.
    ApiKey,
    /// A person's session in the console.
    ConsoleSession,
    /// What a session of the console begins with: it can be used once.
    LoginCode,
}

impl CredentialKind {
    /// Every kind.
    pub const ALL: [Self; 3] = [Self::ApiKey, Self::ConsoleSession, Self::LoginCode];

    /// The name in the store and in output.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ApiKey => "api_key",
            Self::ConsoleSession => "console_session",
            Self::LoginCode => "login_code",
        }
    }

    /// The kind with this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }
}

impl fmt::Display for CredentialKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What somebody logs in with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Credential {
    /// What it is found by.
    pub id: CredentialId,
    /// What it is for.
    pub kind: CredentialKind,
    /// Whose data and rules apply.
    pub tenant: TenantId,
    /// The person it acts for.
    pub user: UserId,
    /// The agent it acts as, where it is bound to one.
    pub agent: Option<AgentId>,
    /// What people know it by. Kept without what does not display, and without secrets.
    pub name: String,
    /// The rights it carries.
    pub scopes: BTreeSet<Scope>,
    /// The workspaces it is for; all of the tenant's if none is named.
    pub workspaces: Vec<WorkspaceId>,
    /// Who made it, as people know them. Kept like the name.
    pub made_by: String,
    /// When it was made.
    pub made: Timestamp,
    /// From when on it does not hold. Only an API key may hold for ever.
    pub expires: Option<Timestamp>,
    /// When it was taken back.
    pub revoked: Option<Timestamp>,
}

impl Credential {
    /// Whether it holds at a moment.
    pub fn is_live(&self, now: Timestamp) -> bool {
        self.revoked.is_none() && self.expires.is_none_or(|expires| now < expires)
    }

    /// Why it cannot be kept, if it cannot.
    pub(super) fn refusal(&self) -> Option<&'static str> {
        if self.scopes.len() > MAX_CREDENTIAL_SCOPES {
            return Some("a credential has at most 64 scopes");
        }
        if self.workspaces.len() > MAX_CREDENTIAL_WORKSPACES {
            return Some("a credential names at most 64 workspaces; name none for all of them");
        }
        match self.kind {
            CredentialKind::ConsoleSession | CredentialKind::LoginCode
                if self.expires.is_none() =>
            {
                Some("a session and a login code must end")
            }
            CredentialKind::ApiKey | CredentialKind::ConsoleSession | CredentialKind::LoginCode => {
                None
            }
        }
    }
}

/// A name as people may be shown it: one line, without characters that act or hide.
pub(super) fn shown_name(name: &str) -> String {
    let clean = name
        .chars()
        .map(|c| if is_deceptive(c) { ' ' } else { c })
        .take(MAX_CREDENTIAL_NAME_CHARS);
    clean.collect::<String>().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_sixteen_small_letters_and_digits() {
        let random = CredentialId::random().unwrap();
        assert_eq!(CredentialId::parse(random.as_str()), Some(random.clone()));
        assert_ne!(random, CredentialId::random().unwrap());
        for wrong in [
            "",
            "abcdefghijklmno",
            "abcdefghijklmnopq",
            "Abcdefghijklmnop",
            "abcdefgh_jklmnop",
            "abcdefghijklmnö",
        ] {
            assert_eq!(CredentialId::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_name_is_one_line_that_shows_what_it_says() {
        assert_eq!(shown_name(" a\nb\u{202e}c\u{1b}[2J "), "a b c [2J");
        assert_eq!(
            shown_name(&"x".repeat(200)).len(),
            MAX_CREDENTIAL_NAME_CHARS
        );
    }
}
