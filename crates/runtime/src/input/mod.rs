//! From the arguments a model wrote to an input that fits a tool's schema.
//!
//! [`parse`] reads under limits, [`coerce`] accepts what models commonly get slightly wrong and
//! says so (`aliases.rs` what they call otherwise), [`complaint`] turns a schema violation into
//! something a model can act on, in the words it wrote ([`RenamedParameters`]).

mod aliases;
mod alternatives;
mod coerce;
mod complaint;
mod parse;
mod renamed;

pub(crate) use self::{
    coerce::{CoercedInput, PlainParameters, coerce},
    complaint::{SchemasOfInput, complaint, spelt},
    parse::{fits_in, parse},
    renamed::RenamedParameters,
};
