//! What mounted servers offered and what a person accepted of it, in files of the data directory
//! that only their owner can read.
//!
//! ```text
//! mcp/pins.json               what was accepted, for which origin, and what was shown last
//! mcp/definitions/<sha256>    what was accepted, as received
//! mcp/seen/<id>-<origin>.json what each server offered in its last run
//! ```
//!
//! Version 1 of the pins identified servers by their ids alone. What it accepted no longer counts:
//! nobody can say for which program or address it was accepted. Such a file is read only for its
//! ids, so that the next review can mention it, and is written as the current version with the next
//! change.

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
    pin::{
        Digest, Item, ItemKey, Kind, LapseReason, Origin, Pins, SeenDefinitions, Store, StoreError,
    },
    upstream::connection::{Definitions, ProtocolEra},
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::private;

/// The directory in the data directory.
pub const DIRECTORY: &str = "mcp";

/// The largest file of pins that is read.
const MAX_PINS_BYTES: u64 = 16 * 1024 * 1024;

/// The largest file of definitions that is read.
const MAX_SEEN_BYTES: u64 = 64 * 1024 * 1024;

/// The format version of the pins.
const PINS_VERSION: u32 = 2;

/// The version of the pins that did not record the program or address.
const WITHOUT_ORIGINS: u32 = 1;

/// The format version of what was offered.
const SEEN_VERSION: u32 = 1;

/// How many programs and addresses are remembered under one id. The least recently changed are
/// forgotten, which never accepts anything.
const MAX_ORIGINS: usize = 32;

/// The pins of one data directory.
#[derive(Debug)]
pub struct FilePins {
    directory: PathBuf,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredPins {
    v: u32,
    /// By id; the most recently changed origin is last.
    servers: BTreeMap<String, Vec<StoredServer>>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredServer {
    /// The program or address; null if an older version did not record it, in which case nothing is
    /// accepted.
    origin: Option<Value>,
    accepted: Vec<StoredPin>,
    reviewed: Vec<StoredPin>,
}

/// The part that every version has.
#[derive(Debug, Deserialize)]
struct StoredVersion {
    v: u32,
}

/// The part that is read of the version without origins: which ids it had.
#[derive(Debug, Deserialize)]
struct StoredIds {
    servers: BTreeMap<String, Value>,
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
    pub fn new(data_dir: &Path) -> Self {
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

    fn seen_file(&self, server: &ServerId, origin: &Origin) -> PathBuf {
        let name = format!("{server}-{}.json", origin.digest());
        self.directory.join("seen").join(name)
    }

    fn stored(&self) -> Result<StoredPins, StoreError> {
        let path = self.pins_file();
        let bytes = private::read_own(&path, MAX_PINS_BYTES).map_err(|error| at(&path, &error))?;
        let Some(bytes) = bytes else {
            return Ok(StoredPins {
                v: PINS_VERSION,
                servers: BTreeMap::new(),
            });
        };
        let version: StoredVersion =
            serde_json::from_slice(&bytes).map_err(|error| at(&path, &error))?;
        match version.v {
            PINS_VERSION => serde_json::from_slice(&bytes).map_err(|error| at(&path, &error)),
            WITHOUT_ORIGINS => {
                let older: StoredIds =
                    serde_json::from_slice(&bytes).map_err(|error| at(&path, &error))?;
                let servers = older.servers.into_keys();
                Ok(StoredPins {
                    v: PINS_VERSION,
                    servers: servers
                        .map(|id| (id, vec![StoredServer::default()]))
                        .collect(),
                })
            }
            other => {
                let why = format!("it has version {other}, this program knows {PINS_VERSION}");
                Err(at(&path, &why))
            }
        }
    }

    /// The stored entry of a server, as pins.
    fn pins_in(
        &self,
        stored: &StoredPins,
        server: &ServerId,
        origin: &Origin,
    ) -> Result<Pins, StoreError> {
        let all = stored.servers.get(server.as_str());
        let all = all.map(Vec::as_slice).unwrap_or_default();
        let mut pins = match all.iter().find(|one| one.is_of(origin)) {
            None => Pins::default(),
            Some(mine) => {
                read(mine).ok_or_else(|| at(&self.pins_file(), &"it contains an invalid hash"))?
            }
        };
        if !pins.is_new_server() {
            return Ok(pins);
        }
        pins.lapsed = all.iter().rev().find_map(|one| match &one.origin {
            None => Some(LapseReason::Version),
            Some(_) if one.accepted.is_empty() => None,
            Some(what) => Some(LapseReason::Origin(Origin::new(what.clone()))),
        });
        Ok(pins)
    }

    /// Held while pins are changed, so that no change is lost.
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
    fn pins(&self, server: &ServerId, origin: &Origin) -> Result<Pins, StoreError> {
        self.pins_in(&self.stored()?, server, origin)
    }

    fn change(
        &self,
        server: &ServerId,
        origin: &Origin,
        kept: &[Item],
        change: &mut dyn FnMut(&mut Pins),
    ) -> Result<(), StoreError> {
        let _lock = self.lock()?;
        let mut stored = self.stored()?;
        let mut pins = self.pins_in(&stored, server, origin)?;
        change(&mut pins);
        // First write the definitions that the pins refer to, so that a difference can always be
        // shown.
        for item in kept {
            let path = self.definition_file(item.digest);
            if pins.accepted.get(&item.key) == Some(&item.digest) && !path.exists() {
                let text = serde_json::to_vec(&item.definition).unwrap_or_default();
                Self::write(&path, &text)?;
            }
        }
        let all = stored.servers.entry(server.to_string()).or_default();
        // Somebody reviewed it again, so there is nothing left to say about an older version.
        let looked = !pins.accepted.is_empty();
        all.retain(|one| !(one.is_of(origin) || looked && one.origin.is_none()));
        all.push(written(&pins, origin));
        let forgotten = all.len().saturating_sub(MAX_ORIGINS);
        all.drain(..forgotten);
        // The pins only hold strings, so serializing cannot fail.
        let text = serde_json::to_string_pretty(&stored).unwrap_or_default();
        Self::write(&self.pins_file(), text.as_bytes())
    }

    fn seen(
        &self,
        server: &ServerId,
        origin: &Origin,
    ) -> Result<Option<SeenDefinitions>, StoreError> {
        let path = self.seen_file(server, origin);
        let bytes = private::read_own(&path, MAX_SEEN_BYTES).map_err(|error| at(&path, &error))?;
        let Some(bytes) = bytes else {
            return Ok(None);
        };
        let stored: StoredSeen =
            serde_json::from_slice(&bytes).map_err(|error| at(&path, &error))?;
        // Definitions of another version are fetched again.
        if stored.v != SEEN_VERSION {
            return Ok(None);
        }
        Ok(Some(SeenDefinitions {
            at: Timestamp(stored.at_us),
            era: if stored.modern {
                ProtocolEra::Modern
            } else {
                ProtocolEra::Legacy
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

    fn remember(
        &self,
        server: &ServerId,
        origin: &Origin,
        seen: &SeenDefinitions,
    ) -> Result<(), StoreError> {
        let definitions = seen.definitions.clone();
        let stored = StoredSeen {
            v: SEEN_VERSION,
            at_us: seen.at.0,
            modern: seen.era == ProtocolEra::Modern,
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
        // A definition counts only if it matches the hash in its name.
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

impl StoredServer {
    fn is_of(&self, origin: &Origin) -> bool {
        self.origin.as_ref() == Some(origin.what())
    }
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
        lapsed: None,
    })
}

fn written(pins: &Pins, origin: &Origin) -> StoredServer {
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
        origin: Some(origin.what().clone()),
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

    fn origin(program: &str) -> Origin {
        Origin::new(json!({"command": [program]}))
    }

    #[test]
    fn what_was_accepted_is_there_again_and_nobody_else_can_read_it() {
        let data = tempfile::tempdir().unwrap();
        let store = FilePins::new(data.path());
        let server = ServerId::parse("a").unwrap();
        let before = store.revision();
        assert_eq!(store.pins(&server, &origin("one")), Ok(Pins::default()));
        let item = item("says");
        let mut accept = |pins: &mut Pins| {
            pins.review([&item]);
            pins.accept(&item).unwrap();
        };
        let kept = std::slice::from_ref(&item);
        store
            .change(&server, &origin("one"), kept, &mut accept)
            .unwrap();
        assert_ne!(store.revision(), before);
        let again = FilePins::new(data.path());
        assert_eq!(
            again.pins(&server, &origin("one")).unwrap().accepted[&item.key],
            item.digest
        );
        assert_eq!(again.definition(item.digest), Ok(Some(item.definition)));
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&store.pins_file()), 0o600);
        assert_eq!(mode(&store.definition_file(item.digest)), 0o600);
        assert_eq!(mode(&store.directory), 0o700);
    }

    #[test]
    fn mc_02_what_was_accepted_of_one_program_is_not_accepted_of_another() {
        let data = tempfile::tempdir().unwrap();
        let store = FilePins::new(data.path());
        let server = ServerId::parse("a").unwrap();
        let item = item("says");
        let mut accept = |pins: &mut Pins| {
            pins.review([&item]);
            pins.accept(&item).unwrap();
        };
        let kept = std::slice::from_ref(&item);
        store
            .change(&server, &origin("one"), kept, &mut accept)
            .unwrap();
        let other = store.pins(&server, &origin("other")).unwrap();
        assert!(other.accepted.is_empty() && other.reviewed.is_empty());
        assert_eq!(other.lapsed, Some(LapseReason::Origin(origin("one"))));
        // Reviewing the other does not affect the first.
        let mut look = |pins: &mut Pins| pins.review([&item]);
        store
            .change(&server, &origin("other"), &[], &mut look)
            .unwrap();
        let other = store.pins(&server, &origin("other")).unwrap();
        assert_eq!(other.lapsed, Some(LapseReason::Origin(origin("one"))));
        let first = store.pins(&server, &origin("one")).unwrap();
        assert_eq!(first.accepted[&item.key], item.digest);
        assert_eq!(first.lapsed, None);
        // However many there were, the file stays small, and forgotten origins are not accepted.
        for number in 0..2 * MAX_ORIGINS {
            store
                .change(&server, &origin(&number.to_string()), &[], &mut look)
                .unwrap();
        }
        let stored = store.stored().unwrap();
        assert_eq!(stored.servers["a"].len(), MAX_ORIGINS);
        let first = store.pins(&server, &origin("one")).unwrap();
        assert!(first.accepted.is_empty());
    }

    #[test]
    fn mc_02_what_a_version_without_origins_accepted_counts_no_longer() {
        let data = tempfile::tempdir().unwrap();
        let store = FilePins::new(data.path());
        let (server, other) = (ServerId::parse("a").unwrap(), ServerId::parse("b").unwrap());
        private::make_directory(&store.directory).unwrap();
        let item = item("says");
        let pin = json!({"kind": "tool", "name": "say", "sha256": item.digest.to_string()});
        let lists = json!({"accepted": [pin], "reviewed": [pin]});
        let older = json!({"v": 1, "servers": {"a": lists, "b": lists}});
        private::replace(&store.pins_file(), older.to_string().as_bytes()).unwrap();
        let lapsed = |server: &ServerId| {
            let pins = store.pins(server, &origin("one")).unwrap();
            assert!(pins.accepted.is_empty() && pins.reviewed.is_empty());
            pins.lapsed
        };
        assert_eq!(lapsed(&server), Some(LapseReason::Version));
        let mut accept = |pins: &mut Pins| {
            assert!(pins.accept(&item).is_err(), "nobody was shown it");
            pins.review([&item]);
            pins.accept(&item).unwrap();
        };
        store
            .change(&server, &origin("one"), &[], &mut accept)
            .unwrap();
        let pins = store.pins(&server, &origin("one")).unwrap();
        assert_eq!((pins.accepted.len(), pins.lapsed), (1, None));
        assert_eq!(
            lapsed(&other),
            Some(LapseReason::Version),
            "and it is still said"
        );
    }

    #[test]
    fn a_store_that_was_tampered_with_accepts_nothing() {
        let data = tempfile::tempdir().unwrap();
        let store = FilePins::new(data.path());
        let server = ServerId::parse("a").unwrap();
        private::make_directory(&store.directory).unwrap();
        for text in [
            "{",
            "{\"v\":3,\"servers\":{}}",
            "{\"v\":2,\"servers\":{},\"x\":1}",
        ] {
            std::fs::write(store.pins_file(), text).unwrap();
            assert!(store.pins(&server, &origin("one")).is_err(), "{text}");
        }
        std::fs::write(store.pins_file(), "{\"v\":2,\"servers\":{}}").unwrap();
        let open = std::fs::Permissions::from_mode(0o666);
        std::fs::set_permissions(store.pins_file(), open).unwrap();
        assert!(store.pins(&server, &origin("one")).is_err());
        let item = item("says");
        FilePins::write(&store.definition_file(item.digest), b"{\"name\":\"other\"}").unwrap();
        assert_eq!(store.definition(item.digest), Ok(None));
    }

    #[test]
    fn what_a_server_offered_is_kept_as_it_came() {
        let data = tempfile::tempdir().unwrap();
        let store = FilePins::new(data.path());
        let server = ServerId::parse("a").unwrap();
        let origin = origin("x");
        let seen = SeenDefinitions {
            at: Timestamp(7),
            era: ProtocolEra::Modern,
            definitions: Definitions {
                server: json!({"name": "s"}),
                instructions: Some("use it".into()),
                tools: vec![json!({"name": "say", "vendor": [1.5, null]})],
                ..Definitions::default()
            },
        };
        assert_eq!(store.seen(&server, &origin), Ok(None));
        store.remember(&server, &origin, &seen).unwrap();
        assert_eq!(store.seen(&server, &origin), Ok(Some(seen)));
        let other = Origin::new(json!({"command": ["y"]}));
        assert_eq!(store.seen(&server, &other), Ok(None));
    }
}
