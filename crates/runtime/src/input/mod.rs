//! From the arguments a model wrote to an input that fits a tool's schema.
//!
//! [`parse`] reads under limits, [`coerce`] accepts what models commonly get slightly wrong and
//! says so, [`complaint`] turns a schema violation into something a model can act on.

mod coerce;
mod complaint;
mod parse;

pub(crate) use self::{
    coerce::{coerce, text_parameters},
    complaint::{complaint, spelt},
    parse::{fits_in, parse},
};
