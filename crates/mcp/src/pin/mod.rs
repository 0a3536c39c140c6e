//! What a person accepted of a mounted server, and whether the server still offers that.
//!
//! A definition (a tool, a prompt, a template, the instructions) is hashed whole, as received. One
//! that nobody accepted is withheld. One that differs from what was accepted is withheld too, on
//! its own, until somebody has seen the difference. A new name is a new definition. Acceptance is
//! for one server, not for an id: another program or address under the same id starts over.
//! Descriptions are data: they are kept, shown escaped and compared, never followed.
//!
//! `item` defines what is hashed, `origin` identifies the server, `vet` refuses what cannot be
//! taken at all, `status` compares, `diff` shows what changed, `store` defines what a host keeps.

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
