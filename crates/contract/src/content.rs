//! What a tool returns for the model to see.

/// One piece of a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// Text.
    Text(String),
    /// An image, as bytes of a media type such as `image/png`.
    Image {
        /// The raw bytes.
        data: Vec<u8>,
        /// The media type.
        media_type: String,
    },
    /// Audio, as bytes of a media type.
    Audio {
        /// The raw bytes.
        data: Vec<u8>,
        /// The media type.
        media_type: String,
    },
    /// A document such as a PDF, as bytes of a media type.
    Document {
        /// The raw bytes.
        data: Vec<u8>,
        /// The media type.
        media_type: String,
        /// The name to show.
        name: String,
    },
    /// A resource from another server, embedded whole.
    Resource {
        /// The URI the server gave it.
        uri: String,
        /// The media type, if known.
        media_type: Option<String>,
        /// The resource itself.
        body: ResourceBody,
    },
    /// A link to something stored elsewhere, such as spilled output.
    Link {
        /// Where it is.
        uri: String,
        /// The name to show.
        name: String,
        /// The media type, if known.
        media_type: Option<String>,
    },
}

/// The body of an embedded resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResourceBody {
    /// Text.
    Text(String),
    /// Anything else.
    Bytes(Vec<u8>),
}

impl ResourceBody {
    /// The bytes, for text too.
    pub fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Text(text) => text.as_bytes(),
            Self::Bytes(bytes) => bytes,
        }
    }
}

impl Content {
    /// A piece of text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    /// The text of this piece, if it is text.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Image { .. }
            | Self::Audio { .. }
            | Self::Document { .. }
            | Self::Resource { .. }
            | Self::Link { .. } => None,
        }
    }

    /// How many bytes this piece holds.
    pub fn len(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Image { data, .. } | Self::Audio { data, .. } | Self::Document { data, .. } => {
                data.len()
            }
            Self::Resource { body, .. } => body.as_bytes().len(),
            Self::Link { uri, .. } => uri.len(),
        }
    }

    /// Whether this piece holds no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
