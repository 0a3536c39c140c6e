//! Recognises images and PDFs by their first bytes, never by their name.

/// A file that is returned as it is instead of as text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Media {
    /// The media type.
    pub(crate) mime: &'static str,
    /// The most bytes that are returned.
    pub(crate) max_bytes: usize,
    pub(crate) class: MediaClass,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MediaClass {
    Image,
    Document,
}

/// The largest image model providers accept.
const MAX_IMAGE_BYTES: usize = 5 * 1024 * 1024;

/// The largest PDF returned; providers accept a little more.
const MAX_PDF_BYTES: usize = 20 * 1024 * 1024;

impl Media {
    /// Recognises a file by its first bytes, if it is one of these types.
    pub(crate) fn sniff(start: &[u8]) -> Option<Self> {
        let image = |mime| Self {
            mime,
            max_bytes: MAX_IMAGE_BYTES,
            class: MediaClass::Image,
        };
        match start {
            [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Some(image("image/png")),
            [0xff, 0xd8, 0xff, ..] => Some(image("image/jpeg")),
            [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some(image("image/gif")),
            [
                b'R',
                b'I',
                b'F',
                b'F',
                _,
                _,
                _,
                _,
                b'W',
                b'E',
                b'B',
                b'P',
                ..,
            ] => Some(image("image/webp")),
            [b'%', b'P', b'D', b'F', b'-', ..] => Some(Self {
                mime: "application/pdf",
                max_bytes: MAX_PDF_BYTES,
                class: MediaClass::Document,
            }),
            _ => None,
        }
    }
}
