//! Which packages may become code of this process: whether their hash is one that the operator has seen before, and who
//! signed them.

use std::{
    collections::BTreeMap,
    fs,
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use time::{OffsetDateTime, format_description::well_known::Rfc3339};

use super::{
    refusal::{Code, Refusal},
    signature::{SignatureState, Signer, signer_number},
};
use cardinal_base::config::Trust;

/// Hashes that a plugin had before, kept for the operator to look up.
const PREVIOUS_LIMIT: usize = 20;

/// The lock file: every plugin's content hash as it was first seen, or as an operator wrote it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lock {
    #[serde(default)]
    plugins: BTreeMap<String, Entry>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Entry {
    sha256: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    recorded_at: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    previous: Vec<String>,
}

/// What the lock knew of a package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LockChange {
    Known,
    /// Never seen before; recorded now.
    Recorded,
    /// Not what was recorded; loaded all the same, and recorded now.
    Changed {
        before: String,
    },
}

impl Lock {
    /// The lock at `path`; an empty one when there is no such file.
    pub fn load(path: &Path) -> io::Result<Self> {
        match fs::read(path) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(io::Error::from),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(error),
        }
    }

    /// Writes the lock, whole or not at all.
    pub fn save(&self, path: &Path) -> io::Result<()> {
        let folder = path.parent().unwrap_or(Path::new("."));
        let mut file = tempfile::Builder::new()
            .prefix(".plugins-lock")
            .make_in(folder, |path| fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path))?;
        file.write_all(&serde_json::to_vec_pretty(self)?)?;
        file.write_all(b"\n")?;
        file.as_file().sync_all()?;
        file.persist(path)?;
        Ok(())
    }

    /// Whether the rule lets the package with this content hash in.
    pub fn admit(&self, trust: Trust, name: &str, sha256: &str, signed: &SignatureState) -> Result<(), Refusal> {
        signed.not_wrong()?;
        match trust {
            Trust::Record => Ok(()),
            Trust::Lock => self.demand(name, sha256),
            Trust::Signed => signed.demand(),
        }
    }

    fn demand(&self, name: &str, sha256: &str) -> Result<(), Refusal> {
        let listed = self.plugins.get(name).map(|entry| entry.sha256.as_str());
        if listed == Some(sha256) {
            return Ok(());
        }
        Err(Refusal::new(Code::HashNotTrusted, "The plugin's content hash is not the one in the lock file.")
            .expected(listed.unwrap_or("an entry for this plugin"))
            .found(sha256))
    }

    /// Writes the hash down as the plugin's own from now on.
    pub fn record(&mut self, name: &str, sha256: &str, now: OffsetDateTime) -> LockChange {
        let recorded_at = now.format(&Rfc3339).ok();
        let Some(entry) = self.plugins.get_mut(name) else {
            let entry = Entry { sha256: sha256.to_owned(), recorded_at, previous: Vec::new() };
            self.plugins.insert(name.to_owned(), entry);
            return LockChange::Recorded;
        };
        if entry.sha256 == sha256 {
            return LockChange::Known;
        }
        let before = std::mem::replace(&mut entry.sha256, sha256.to_owned());
        entry.recorded_at = recorded_at;
        entry.previous.insert(0, before.clone());
        entry.previous.truncate(PREVIOUS_LIMIT);
        LockChange::Changed { before }
    }
}

/// The operator's rule at one look at the packages: what the settings ask for, and the lock as it read then.
#[derive(Clone, Debug)]
pub struct TrustRule {
    trust: Trust,
    /// None when it cannot be read.
    lock: Option<Lock>,
    lock_file: PathBuf,
}

impl TrustRule {
    pub fn new(trust: Trust, lock: Option<Lock>, lock_file: &Path) -> Self {
        Self { trust, lock, lock_file: lock_file.to_owned() }
    }

    /// Whether the rule lets the package with this content hash in.
    ///
    /// # Errors
    /// It does not.
    pub fn admit(&self, name: &str, sha256: &str, signed: &SignatureState) -> Result<(), Refusal> {
        match (self.trust, &self.lock) {
            // What only records does not depend on what it has recorded.
            (Trust::Record, _) => Lock::default().admit(Trust::Record, name, sha256, signed),
            (trust, Some(lock)) => lock.admit(trust, name, sha256, signed),
            // A damaged lock is no empty one.
            (_, None) => Err(Refusal::new(Code::HashNotTrusted, "The lock file cannot be read.")
                .expected("a lock file that lists the plugin")
                .found(self.lock_file.display().to_string())
                .fix("Repair the lock file; the log says what is wrong with it.")),
        }
    }
}

/// Whether a package may have the name, and with it schema, data and settings: its first signer keeps it. A name
/// that came unsigned is anybody's who gets past the operator's rule; the first signer makes it theirs.
pub fn check_owner(owner: Option<&Option<String>>, signed: &SignatureState) -> Result<(), Refusal> {
    let Some(Some(owner)) = owner else { return Ok(()) };
    let owner = Signer(owner.clone());
    if signed.signer() == Some(&owner) {
        return Ok(());
    }
    let found = match signed {
        SignatureState::By(signer) => format!("key {}", signer_number(signer)),
        SignatureState::ByStranger(number) => format!("key {number}, which this host does not trust"),
        SignatureState::No | SignatureState::Wrong(_) => "no signature".to_owned(),
    };
    Err(Refusal::new(Code::SignerChanged, "The plugin's name belongs to another signer.")
        .expected(format!("key {}", signer_number(&owner)))
        .found(found))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    const NOW: OffsetDateTime = OffsetDateTime::UNIX_EPOCH;

    #[test]
    fn a_hash_is_recorded_and_a_change_is_told_once() {
        let mut lock = Lock::default();
        let mut record = |hash: &str| lock.record("p", hash, NOW);
        assert_eq!(record("a"), LockChange::Recorded);
        assert_eq!(record("a"), LockChange::Known);
        assert_eq!(record("b"), LockChange::Changed { before: "a".to_owned() });
        assert_eq!(record("b"), LockChange::Known);
        assert_eq!(lock.plugins["p"].previous, ["a"]);
    }

    #[test]
    fn a_lock_takes_what_it_lists_and_nothing_else() {
        let mut lock = Lock::default();
        lock.record("p", "a", NOW);
        let code = |trust, name, hash, signed| lock.admit(trust, name, hash, signed).map_err(|it| it.code).err();
        let (signed, wrong) =
            (SignatureState::By(Signer("key".to_owned())), SignatureState::Wrong("other bytes".to_owned()));
        assert_eq!(code(Trust::Lock, "p", "a", &SignatureState::No), None);
        for (name, hash) in [("p", "b"), ("q", "a")] {
            assert_eq!(code(Trust::Lock, name, hash, &signed), Some(Code::HashNotTrusted));
        }
        assert_eq!(code(Trust::Signed, "p", "a", &SignatureState::No), Some(Code::SignatureMissing));
        assert_eq!(code(Trust::Signed, "q", "b", &signed), None);
        for trust in [Trust::Record, Trust::Lock, Trust::Signed] {
            assert_eq!(code(trust, "p", "a", &wrong), Some(Code::SignatureInvalid), "{trust:?}");
        }
    }

    #[test]
    fn a_name_belongs_to_who_signed_it_first() {
        let by = |key: &str| SignatureState::By(Signer(key.to_owned()));
        let code = |owner: Option<Option<&str>>, signed: SignatureState| {
            let owner = owner.map(|owner| owner.map(str::to_owned));
            check_owner(owner.as_ref(), &signed).map_err(|refusal| refusal.code).err()
        };
        for owner in [None, Some(None), Some(Some("a"))] {
            assert_eq!(code(owner, by("a")), None);
        }
        for signed in [by("b"), SignatureState::No, SignatureState::ByStranger("7".to_owned())] {
            assert_eq!(code(Some(Some("a")), signed.clone()), Some(Code::SignerChanged));
            assert_eq!((code(None, signed.clone()), code(Some(None), signed)), (None, None));
        }
    }

    #[test]
    fn the_lock_file_reads_as_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("plugins.lock");
        let mut lock = Lock::load(&path).unwrap();
        lock.record("p", "a", NOW);
        lock.save(&path).unwrap();
        assert_eq!(Lock::load(&path).unwrap(), lock);
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        fs::write(&path, "no lock").unwrap();
        assert!(Lock::load(&path).is_err(), "a damaged lock is no empty one");
    }
}
