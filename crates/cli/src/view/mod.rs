//! What commands print: one JSON shape and one text for each thing. The JSON shapes are an
//! interface; the domain types are not printed directly.

pub(crate) mod bars;
pub(crate) mod call;
pub(crate) mod decision;
pub(crate) mod event;
pub(crate) mod grant;
pub(crate) mod moment;
pub(crate) mod outcome;
pub(crate) mod question;
pub(crate) mod story;
pub(crate) mod table;
pub(crate) mod time;
