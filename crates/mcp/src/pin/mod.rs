//! What a person accepted of a mounted server, and whether that is still what the server offers.
//!
//! A definition (a tool, a prompt, a template, the instructions) is hashed whole, as it came. One
//! that nobody accepted is withheld; one that is no longer what was accepted is withheld too, it
//! alone, until somebody has seen the difference. A new name is a new definition. What is accepted is
//! accepted of one server, not of an id: another program or address under the same id begins anew.
//! Descriptions are data: they are kept, shown escaped and compared, never followed.
//!
//! `item` says what has a hash, `origin` whose it is, `vet` what cannot be taken at all, `status` compares, `diff` shows
//! what changed, `store` says what a host keeps.

mod diff;
mod digest;
mod item;
mod origin;
mod status;
mod store;
mod vet;

pub use self::{
    diff::{Difference, difference},
    digest::Digest,
    item::{Item, ItemKey, Kind},
    origin::Origin,
    status::{LapseReason, PinStatus, Pins},
    store::{MemoryStore, SeenDefinitions, Store, StoreError},
    vet::{
        Filter, MAX_DEFINITION_BYTES, MAX_ITEMS, MAX_LIST_BYTES, MAX_RESOURCE_BYTES, MAX_RESOURCES,
        RefusedDefinition, VetError, VettedDefinitions, vet,
    },
};
