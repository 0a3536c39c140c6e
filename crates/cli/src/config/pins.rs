//! What mounted servers offered and what a person accepted of it, in files of the data directory
//! that only their owner can read.
//!
//! ```text
//! mcp/pins.json               what was accepted, and what was shown last
//! mcp/definitions/<sha256>    what was accepted, as it came
//! mcp/seen/<id>-<origin>.json what each server offered in its last run
//! ```

use std::{
    collections::BTreeMap,
    fs::{File, OpenOptions},
    hash::{DefaultHasher, Hash as _, Hasher as _},
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use haft_contract::host::Timestamp;
use haft_mcp::{
    name::ServerId,
    pin::{Digest, Item, ItemKey, Kind, Pins, Seen, Store, StoreError},
    upstream::connection::{Definitions, Era},
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::private;

/// The directory in the data directory.
pub(crate) const DIRECTORY: &str = "mcp";

/// The largest file of pins that is read.
const MAX_PINS_BYTES: u64 = 16 * 1024 * 1024;

/// The largest file of definitions that is read.
const MAX_SEEN_BYTES: u64 = 64 * 1024 * 1024;

/// The version of both files.
const VERSION: u32 = 1;

/// The pins of one data directory.
#[derive(Debug)]
pub(crate) struct FilePins {
    directory: PathBuf,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredPins {
    v: u32,
    servers: BTreeMap<String, StoredServer>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredServer {
    accepted: Vec<StoredPin>,
    reviewed: Vec<StoredPin>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredPin {
    kind: String,
    name: String,
    sha256: String,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredSeen {
    v: u32,
    at_us: i64,
    modern: bool,
    server: Value,
    capabilities: Value,
    instructions: Option<String>,
    tools: Vec<Value>,
    resources: Vec<Value>,
    templates: Vec<Value>,
    prompts: Vec<Value>,
}

impl FilePins {
    /// The pins of a data directory.
    pub(crate) fn new(data_dir: &Path) -> Self {
        Self {
            directory: data_dir.join(DIRECTORY),
        }
    }

    fn pins_file(&self) -> PathBuf {
        self.directory.join("pins.json")
    }

    fn definition_file(&self, digest: Digest) -> PathBuf {
        self.directory.join("definitions").join(digest.to_string())
    }

    fn seen_file(&self, server: &ServerId, origin: Digest) -> PathBuf {
        let name = format!("{server}-{}.json", origin.short());
        self.directory.join("seen").join(name)
    }

    fn stored(&self) -> Result<StoredPins, StoreError> {
        let path = self.pins_file();
        let bytes = private::read_own(&path, MAX_PINS_BYTES).map_err(|error| at(&path, &error))?;
        let Some(bytes) = bytes else {
            return Ok(StoredPins {
                v: VERSION,
                servers: BTreeMap::new(),
            });
        };
        let stored: StoredPins =
            serde_json::from_slice(&bytes).map_err(|error| at(&path, &error))?;
        if stored.v != VERSION {
            let why = format!("it has version {}, this program knows {VERSION}", stored.v);
            return Err(at(&path, &why));
        }
        Ok(stored)
    }

    /// Held while pins are changed, so that of two changes neither is lost.
    fn lock(&self) -> Result<File, StoreError> {
        private::make_directory(&self.directory).map_err(|error| at(&self.directory, &error))?;
        let path = self.directory.join("pins.lock");
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path)
            .map_err(|error| at(&path, &error))?;
        file.lock().map_err(|error| at(&path, &error))?;
        Ok(file)
    }

    fn write(path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
        let directory = path.parent().unwrap_or(path);
        private::make_directory(directory).map_err(|error| at(directory, &error))?;
        private::replace(path, bytes).map_err(|error| at(path, &error))
    }
}

impl Store for FilePins {
    fn pins(&self, server: &ServerId) -> Result<Pins, StoreError> {
        let mut stored = self.stored()?;
        match stored.servers.remove(server.as_str()) {
            None => Ok(Pins::default()),
            Some(stored) => read(&stored)
                .ok_or_else(|| at(&self.pins_file(), &"it holds something that is no hash")),
        }
    }

    fn change(
        &self,
        server: &ServerId,
        kept: &[Item],
        change: &mut dyn FnMut(&mut Pins),
    ) -> Result<(), StoreError> {
        let _lock = self.lock()?;
        let mut pins = self.pins(server)?;
        change(&mut pins);
        // First what the pins speak of, so that a difference can always be shown.
        for item in kept {
            let path = self.definition_file(item.digest);
            if pins.accepted.get(&item.key) == Some(&item.digest) && !path.exists() {
                let text = serde_json::to_vec(&item.definition).unwrap_or_default();
                Self::write(&path, &text)?;
            }
        }
        let mut stored = self.stored()?;
        stored.servers.insert(server.to_string(), written(&pins));
        // The pins hold only strings, which JSON can always hold.
        let text = serde_json::to_string_pretty(&stored).unwrap_or_default();
        Self::write(&self.pins_file(), text.as_bytes())
    }

    fn seen(&self, server: &ServerId, origin: Digest) -> Result<Option<Seen>, StoreError> {
        let path = self.seen_file(server, origin);
        let bytes = private::read_own(&path, MAX_SEEN_BYTES).map_err(|error| at(&path, &error))?;
        let Some(bytes) = bytes else {
            return Ok(None);
        };
        let stored: StoredSeen =
            serde_json::from_slice(&bytes).map_err(|error| at(&path, &error))?;
        // Definitions of another version are fetched again.
        if stored.v != VERSION {
            return Ok(None);
        }
        Ok(Some(Seen {
            at: Timestamp(stored.at_us),
            era: if stored.modern {
                Era::Modern
            } else {
                Era::Legacy
            },
            definitions: Definitions {
                server: stored.server,
                capabilities: stored.capabilities,
                instructions: stored.instructions,
                tools: stored.tools,
                resources: stored.resources,
                templates: stored.templates,
                prompts: stored.prompts,
            },
        }))
    }

    fn remember(&self, server: &ServerId, origin: Digest, seen: &Seen) -> Result<(), StoreError> {
        let definitions = seen.definitions.clone();
        let stored = StoredSeen {
            v: VERSION,
            at_us: seen.at.0,
            modern: seen.era == Era::Modern,
            server: definitions.server,
            capabilities: definitions.capabilities,
            instructions: definitions.instructions,
            tools: definitions.tools,
            resources: definitions.resources,
            templates: definitions.templates,
            prompts: definitions.prompts,
        };
        let text = serde_json::to_vec(&stored).unwrap_or_default();
        Self::write(&self.seen_file(server, origin), &text)
    }

    fn definition(&self, digest: Digest) -> Result<Option<Value>, StoreError> {
        let path = self.definition_file(digest);
        let bytes = private::read_own(&path, MAX_PINS_BYTES).map_err(|error| at(&path, &error))?;
        let Some(bytes) = bytes else {
            return Ok(None);
        };
        let definition: Value =
            serde_json::from_slice(&bytes).map_err(|error| at(&path, &error))?;
        // It is what its name says, or it is nothing.
        Ok(Some(definition).filter(|definition| Digest::of(definition) == Some(digest)))
    }

    fn revision(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        if let Ok(metadata) = std::fs::metadata(self.pins_file()) {
            let parts = (metadata.ino(), metadata.mtime(), metadata.mtime_nsec());
            parts.hash(&mut hasher);
        }
        hasher.finish()
    }
}

fn at(path: &Path, why: &dyn std::fmt::Display) -> StoreError {
    StoreError(format!("`{}`: {why}", path.display()))
}

fn read(stored: &StoredServer) -> Option<Pins> {
    let pins = |list: &[StoredPin]| {
        list.iter()
            .map(|pin| {
                let kind = Kind::parse(&pin.kind)?;
                Some((ItemKey::new(kind, &pin.name), Digest::parse(&pin.sha256)?))
            })
            .collect::<Option<BTreeMap<_, _>>>()
    };
    Some(Pins {
        accepted: pins(&stored.accepted)?,
        reviewed: pins(&stored.reviewed)?,
    })
}

fn written(pins: &Pins) -> StoredServer {
    let list = |pins: &BTreeMap<ItemKey, Digest>| {
        pins.iter()
            .map(|(key, digest)| StoredPin {
                kind: key.kind.as_str().to_owned(),
                name: key.name.clone(),
                sha256: digest.to_string(),
            })
            .collect()
    };
    StoredServer {
        accepted: list(&pins.accepted),
        reviewed: list(&pins.reviewed),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use serde_json::json;

    use super::*;

    fn item(description: &str) -> Item {
        let definition = json!({"name": "say", "description": description});
        Item {
            key: ItemKey::new(Kind::Tool, "say"),
            digest: Digest::of(&definition).unwrap(),
            definition,
        }
    }

    #[test]
    fn what_was_accepted_is_there_again_and_nobody_else_can_read_it() {
        let data = tempfile::tempdir().unwrap();
        let store = FilePins::new(data.path());
        let server = ServerId::parse("a").unwrap();
        let before = store.revision();
        assert_eq!(store.pins(&server), Ok(Pins::default()));
        let item = item("says");
        let mut accept = |pins: &mut Pins| {
            pins.review([&item]);
            pins.accept(&item).unwrap();
        };
        let kept = std::slice::from_ref(&item);
        store.change(&server, kept, &mut accept).unwrap();
        assert_ne!(store.revision(), before);
        let again = FilePins::new(data.path());
        assert_eq!(
            again.pins(&server).unwrap().accepted[&item.key],
            item.digest
        );
        assert_eq!(again.definition(item.digest), Ok(Some(item.definition)));
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&store.pins_file()), 0o600);
        assert_eq!(mode(&store.definition_file(item.digest)), 0o600);
        assert_eq!(mode(&store.directory), 0o700);
    }

    #[test]
    fn a_store_that_was_tampered_with_accepts_nothing() {
        let data = tempfile::tempdir().unwrap();
        let store = FilePins::new(data.path());
        let server = ServerId::parse("a").unwrap();
        private::make_directory(&store.directory).unwrap();
        for text in [
            "{",
            "{\"v\":2,\"servers\":{}}",
            "{\"v\":1,\"servers\":{},\"x\":1}",
        ] {
            std::fs::write(store.pins_file(), text).unwrap();
            assert!(store.pins(&server).is_err(), "{text}");
        }
        std::fs::write(store.pins_file(), "{\"v\":1,\"servers\":{}}").unwrap();
        let open = std::fs::Permissions::from_mode(0o666);
        std::fs::set_permissions(store.pins_file(), open).unwrap();
        assert!(store.pins(&server).is_err());
        let item = item("says");
        FilePins::write(&store.definition_file(item.digest), b"{\"name\":\"other\"}").unwrap();
        assert_eq!(store.definition(item.digest), Ok(None));
    }

    #[test]
    fn what_a_server_offered_is_kept_as_it_came() {
        let data = tempfile::tempdir().unwrap();
        let store = FilePins::new(data.path());
        let server = ServerId::parse("a").unwrap();
        let origin = Digest::of(&json!("x")).unwrap();
        let seen = Seen {
            at: Timestamp(7),
            era: Era::Modern,
            definitions: Definitions {
                server: json!({"name": "s"}),
                instructions: Some("use it".into()),
                tools: vec![json!({"name": "say", "vendor": [1.5, null]})],
                ..Definitions::default()
            },
        };
        assert_eq!(store.seen(&server, origin), Ok(None));
        store.remember(&server, origin, &seen).unwrap();
        assert_eq!(store.seen(&server, origin), Ok(Some(seen)));
        let other = Digest::of(&json!("y")).unwrap();
        assert_eq!(store.seen(&server, other), Ok(None));
    }
}
