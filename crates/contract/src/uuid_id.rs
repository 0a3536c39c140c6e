//! Ids that Haft generates: version 7 UUIDs, which sort by creation time.
//!
//! Names that come from outside are in `identity.rs`.

/// Defines a type for one kind of id, so that ids of two kinds are never mixed up.
macro_rules! uuid_id {
    ($(#[$doc:meta])* $type:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $type(uuid::Uuid);

        impl $type {
            /// A fresh id.
            #[expect(
                clippy::new_without_default,
                reason = "an id that is made by default is a mistake"
            )]
            pub fn new() -> Self {
                Self(uuid::Uuid::now_v7())
            }

            /// Parses an id.
            pub fn parse(text: &str) -> Option<Self> {
                uuid::Uuid::try_parse(text).ok().map(Self)
            }

            /// The id as a UUID.
            pub fn as_uuid(self) -> uuid::Uuid {
                self.0
            }
        }

        impl From<uuid::Uuid> for $type {
            fn from(id: uuid::Uuid) -> Self {
                Self(id)
            }
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Display::fmt(&self.0, f)
            }
        }

        impl std::fmt::Debug for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Display::fmt(&self.0, f)
            }
        }
    };
}

pub(crate) use uuid_id;
