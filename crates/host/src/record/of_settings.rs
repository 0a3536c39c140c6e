//! The record that settings name, and looking at it.

use super::{DIRECTORY, Record, RecordOptions};
use crate::{
    config::{ConfigPlaces, Settings},
    error::HostError,
};

impl RecordOptions {
    /// The record for these settings.
    pub fn of(settings: &Settings) -> Self {
        Self {
            max_queued_bytes: settings.queue_bytes,
            retention: Some(settings.retention),
            ..Self::of_places(&settings.places)
        }
    }

    /// The record in the program's data directory.
    fn of_places(places: &ConfigPlaces) -> Self {
        Self {
            database: places.database.clone(),
            artifacts: places.artifacts.clone(),
            ..Self::new(&places.data_dir, places.tenant.clone())
        }
    }
}

impl Record {
    /// Opens the record of a data directory, to look at its contents.
    pub async fn open_to_look(places: &ConfigPlaces) -> Result<Self, HostError> {
        Self::open(RecordOptions::of_places(places)).await
    }

    /// Whether anything has been recorded.
    pub fn exists(places: &ConfigPlaces) -> bool {
        places.database.is_some() || places.data_dir.join(DIRECTORY).exists()
    }
}
