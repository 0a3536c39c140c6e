//! Text logic shared by the file tools. Pure: nothing here opens a file.
//!
//! [`encoding`] decodes bytes as text and writes changes back without touching the rest, [`locate`]
//! finds the place an edit refers to, [`patch`] reads and places patches, [`lines`] compares two
//! texts and [`diff`] shows the result, [`paging`] cuts a long text into pages, [`display`] makes
//! hostile names safe to show, [`untrusted`] marks what a stranger wrote, [`heavy`] runs long work
//! where it can be stopped.

pub(crate) mod diff;
pub(crate) mod display;
pub(crate) mod encoding;
pub(crate) mod heavy;
pub(crate) mod lines;
pub(crate) mod locate;
pub(crate) mod nearest;
pub(crate) mod paging;
pub(crate) mod patch;
pub(crate) mod tolerant;
pub(crate) mod untrusted;
