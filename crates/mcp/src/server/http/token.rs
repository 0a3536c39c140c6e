//! The secret that every request must carry, even on this machine: every program, and through a
//! browser every page, can reach a loopback address.

use std::fmt;

use sha2::{Digest as _, Sha256};

/// The shortest token, in characters. Those that Haft makes have 64.
const MIN_TOKEN_CHARS: usize = 32;

/// The longest token, in characters.
const MAX_TOKEN_CHARS: usize = 1_024;

/// A bearer token. Only its hash is kept.
#[derive(Clone)]
pub struct Token {
    hash: [u8; 32],
}

/// Why a text is not a token.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "a token has {MIN_TOKEN_CHARS} to {MAX_TOKEN_CHARS} characters of A-Z, a-z, 0-9 and - . _ ~ + / ="
)]
pub struct TokenError;

impl Token {
    /// Parses a token.
    pub fn parse(token: &str) -> Result<Self, TokenError> {
        let allowed = |c: char| c.is_ascii_alphanumeric() || "-._~+/=".contains(c);
        let fits = (MIN_TOKEN_CHARS..=MAX_TOKEN_CHARS).contains(&token.len());
        if !fits || !token.chars().all(allowed) {
            return Err(TokenError);
        }
        Ok(Self { hash: hash(token) })
    }

    /// Whether this is the token. Takes the same time wherever they differ, because whole hashes
    /// are compared.
    pub(super) fn is(&self, offered: &str) -> bool {
        let offered = hash(offered);
        let differing = self.hash.iter().zip(offered);
        differing.fold(0, |found, (a, b)| found | (a ^ b)) == 0
    }
}

fn hash(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_token_itself_is_the_token() {
        let text = "0123456789abcdef0123456789abcdef";
        let token = Token::parse(text).unwrap();
        assert!(token.is(text));
        for other in [
            "",
            "0",
            &text[..31],
            &format!("{text}0"),
            &text.to_uppercase(),
        ] {
            assert!(!token.is(other), "{other}");
        }
        assert_eq!(format!("{token:?}"), "Token");
    }

    #[test]
    fn a_short_or_odd_token_is_refused() {
        assert!(Token::parse("short").is_err());
        assert!(Token::parse(&"a b".repeat(20)).is_err());
    }
}
