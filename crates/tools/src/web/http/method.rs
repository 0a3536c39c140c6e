//! The methods of requests, and what each may do to the world.

use haft_contract::Effects;

/// A method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HttpMethod {
    /// Reads.
    Get,
    /// Reads the headers only.
    Head,
    /// Does anything.
    Post,
    /// Replaces something; twice is as once.
    Put,
    /// Changes a part of something.
    Patch,
    /// Removes something; twice is as once.
    Delete,
}

impl HttpMethod {
    const ALL: [Self; 6] = [
        Self::Get,
        Self::Head,
        Self::Post,
        Self::Put,
        Self::Patch,
        Self::Delete,
    ];

    /// The method of this name, in capitals or not.
    pub fn parse(word: &str) -> Option<Self> {
        let mut all = Self::ALL.into_iter();
        all.find(|method| method.as_str().eq_ignore_ascii_case(word))
    }

    /// The name in requests.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Head => "HEAD",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Patch => "PATCH",
            Self::Delete => "DELETE",
        }
    }

    /// What a request may do. One that only reads still tells a server something, so it is never a
    /// quiet one; of the others it is not known what they replace or remove.
    pub fn effects(self) -> Effects {
        match self {
            Self::Get | Self::Head => Effects {
                open_world: true,
                ..Effects::READ_ONLY
            },
            Self::Put | Self::Delete => Effects {
                idempotent: true,
                ..Effects::UNKNOWN
            },
            Self::Post | Self::Patch => Effects::UNKNOWN,
        }
    }

    /// Whether a request can have a body.
    pub(super) fn takes_a_body(self) -> bool {
        match self {
            Self::Get | Self::Head => false,
            Self::Post | Self::Put | Self::Patch | Self::Delete => true,
        }
    }

    /// Whether a request goes where a redirect leads within its server. One that changes something is not
    /// sent to a place that nobody has seen.
    pub(super) fn follows_redirects(self) -> bool {
        self.effects().read_only
    }
}
