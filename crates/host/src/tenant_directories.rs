//! Whose directories are where. No tenant's directory is another's, lies in one or contains one, by its
//! path or by what it is: a directory that is mounted at a second place is still the same. Nor is one
//! shown to the commands of another tenant's workspaces.

use std::{
    collections::{BTreeMap, HashMap, hash_map::Entry},
    path::Path,
    sync::Arc,
};

use haft_contract::TenantId;
#[cfg(feature = "sandbox")]
use haft_contract::ops::BackendId;

use crate::directory::Directory;

/// The device and inode of a directory.
pub(crate) type DirectoryIdentity = (u64, u64);

/// A directory of a tenant.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TenantDirectory {
    /// Its path, and before it the back end if that is not this machine.
    pub(crate) place: Arc<str>,
    pub(crate) tenant: TenantId,
    /// What it is, if it is on this machine.
    pub(crate) identity: Option<DirectoryIdentity>,
    /// The directories above it.
    pub(crate) above: Box<[DirectoryIdentity]>,
    /// Whether commands of every workspace see it, or a part of it.
    pub(crate) is_shown: bool,
}

impl TenantDirectory {
    /// A directory of this machine.
    pub(crate) fn here(directory: &Directory, tenant: &TenantId) -> Self {
        Self {
            place: directory.operations().root,
            tenant: tenant.clone(),
            identity: Some(directory.identity()),
            above: directory.identities_above().into(),
            is_shown: directory.is_shown_to_commands(),
        }
    }

    /// A directory of another machine, or in a container, which commands here do not see.
    #[cfg(feature = "sandbox")]
    pub(crate) fn elsewhere(backend: &BackendId, root: &str, tenant: &TenantId) -> Self {
        Self {
            place: format!("{backend}:{root}").into(),
            tenant: tenant.clone(),
            identity: None,
            above: Box::default(),
            is_shown: false,
        }
    }
}

/// Why a tenant cannot have a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DirectoryConflict {
    /// It is, lies in or contains a directory of another tenant.
    Taken,
    /// Commands of other tenants would see it.
    Shown,
    /// Its commands would see a directory of another tenant.
    SeesOthers,
}

/// How many directories each tenant has somewhere.
#[derive(Debug, Default)]
struct TenantCounts(HashMap<TenantId, usize>);

/// The directories of all tenants. One that is in it twice has to be removed twice.
#[derive(Debug, Default)]
pub(crate) struct TenantDirectories {
    /// By their roots, so that those around a directory are found.
    by_place: BTreeMap<Arc<str>, TenantCounts>,
    at: HashMap<DirectoryIdentity, TenantCounts>,
    /// Which have one below a directory.
    below: HashMap<DirectoryIdentity, TenantCounts>,
    shown: TenantCounts,
    all: TenantCounts,
}

impl TenantDirectories {
    pub(crate) fn insert(&mut self, new: &TenantDirectory) {
        let place = Arc::clone(&new.place);
        self.by_place.entry(place).or_default().add(&new.tenant);
        if let Some(identity) = new.identity {
            self.at.entry(identity).or_default().add(&new.tenant);
        }
        for above in &new.above {
            self.below.entry(*above).or_default().add(&new.tenant);
        }
        if new.is_shown {
            self.shown.add(&new.tenant);
        }
        self.all.add(&new.tenant);
    }

    pub(crate) fn remove(&mut self, known: &TenantDirectory) {
        if let Some(tenants) = self.by_place.get_mut(&known.place)
            && tenants.take(&known.tenant)
        {
            self.by_place.remove(&known.place);
        }
        if let Some(identity) = known.identity {
            take_at(&mut self.at, identity, &known.tenant);
        }
        for above in &known.above {
            take_at(&mut self.below, *above, &known.tenant);
        }
        if known.is_shown {
            self.shown.take(&known.tenant);
        }
        self.all.take(&known.tenant);
    }

    /// Why a tenant cannot have this directory, if it cannot.
    pub(crate) fn conflict(&self, new: &TenantDirectory) -> Option<DirectoryConflict> {
        let has_others = |tenants: &TenantCounts| tenants.has_others(&new.tenant);
        let identities = new.identity.iter().chain(&new.above);
        let mut around = identities.filter_map(|identity| self.at.get(identity));
        let is_taken = around.any(has_others)
            || new
                .identity
                .and_then(|identity| self.below.get(&identity))
                .is_some_and(has_others)
            || self.around(&new.place).any(has_others);
        if is_taken {
            Some(DirectoryConflict::Taken)
        } else if new.is_shown && has_others(&self.all) {
            Some(DirectoryConflict::Shown)
        } else if new.identity.is_some() && has_others(&self.shown) {
            Some(DirectoryConflict::SeesOthers)
        } else {
            None
        }
    }

    /// Who has directories at this path, above it or below it, also where a directory was replaced.
    fn around(&self, root: &str) -> impl Iterator<Item = &TenantCounts> {
        let above = Path::new(root).ancestors().filter_map(Path::to_str);
        let above = above.filter_map(|path| self.by_place.get(path));
        let inside = format!("{}/", root.trim_end_matches('/'));
        let first: Arc<str> = inside.as_str().into();
        let below = self.by_place.range(first..);
        let below = below.take_while(move |(path, _)| path.starts_with(&inside));
        above.chain(below.map(|(_, tenants)| tenants))
    }
}

impl TenantCounts {
    fn add(&mut self, tenant: &TenantId) {
        *self.0.entry(tenant.clone()).or_default() += 1;
    }

    /// Removes one; says whether none is left of any tenant.
    fn take(&mut self, tenant: &TenantId) -> bool {
        if let Entry::Occupied(mut count) = self.0.entry(tenant.clone()) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
        self.0.is_empty()
    }

    fn has_others(&self, tenant: &TenantId) -> bool {
        self.0.keys().any(|known| known != tenant)
    }
}

fn take_at(
    counts: &mut HashMap<DirectoryIdentity, TenantCounts>,
    at: DirectoryIdentity,
    tenant: &TenantId,
) {
    if let Entry::Occupied(mut tenants) = counts.entry(at)
        && tenants.get_mut().take(tenant)
    {
        tenants.remove();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directory(root: &str, tenant: &str, line: &[u64]) -> TenantDirectory {
        let mut line = line.iter().map(|inode| (1, *inode));
        TenantDirectory {
            place: root.into(),
            tenant: TenantId::parse(tenant).unwrap(),
            identity: Some(line.next().unwrap()),
            above: line.collect(),
            is_shown: root.starts_with("/opt"),
        }
    }

    /// The directory itself, those above and below, by path and by what they are.
    #[test]
    fn what_is_around_a_tenants_directory_is_no_other_tenants() {
        let mut known = TenantDirectories::default();
        let acme = directory("/srv/a", "acme", &[3, 2, 1]);
        known.insert(&acme);
        let taken = Some(DirectoryConflict::Taken);
        for (root, line, expect) in [
            ("/srv/b", &[4, 2, 1][..], None),
            ("/srv/a-2", &[4, 2, 1], None),
            ("/srv/a", &[3, 2, 1], taken),
            // Replaced since.
            ("/srv/a", &[9, 2, 1], taken),
            ("/srv/a/sub", &[5, 3, 2, 1], taken),
            ("/srv", &[2, 1], taken),
            ("/", &[1], taken),
            // Mounted elsewhere: the directory, one below it, and one above it.
            ("/mnt", &[3, 1], taken),
            ("/mnt/sub", &[5, 3, 1], taken),
            ("/mnt", &[2, 1], taken),
        ] {
            let new = directory(root, "beta", line);
            assert_eq!(known.conflict(&new), expect, "{root} {line:?}");
            let own = directory(root, "acme", line);
            assert_eq!(known.conflict(&own), None, "{root} {line:?}");
        }
        known.remove(&acme);
        assert_eq!(
            known.conflict(&directory("/srv/a", "beta", &[3, 2, 1])),
            None
        );
    }

    #[test]
    fn what_commands_are_shown_is_a_directory_of_the_only_tenant_or_of_nobody() {
        let mut known = TenantDirectories::default();
        let shown = directory("/opt/a", "acme", &[3, 2, 1]);
        assert_eq!(known.conflict(&shown), None);
        known.insert(&shown);
        assert_eq!(
            known.conflict(&directory("/opt/b", "acme", &[4, 2, 1])),
            None
        );
        let beta = directory("/srv/b", "beta", &[5, 1]);
        assert_eq!(known.conflict(&beta), Some(DirectoryConflict::SeesOthers));
        known.remove(&shown);
        assert_eq!(known.conflict(&beta), None);
        known.insert(&beta);
        assert_eq!(known.conflict(&shown), Some(DirectoryConflict::Shown));
    }
}
