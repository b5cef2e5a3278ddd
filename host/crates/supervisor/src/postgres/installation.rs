//! Which PostgreSQL of this machine to use.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail};

use cardinal_base::config;

/// The oldest with the defaults for `public` that the isolation of plugins rests on.
pub(crate) const MIN_MAJOR: u32 = 15;
const DEBIAN_FOLDER: &str = "/usr/lib/postgresql";
/// Where `scripts/run` puts a PostgreSQL of its own when the system has none: beside `DATA_DIR`.
const VENDORED_FOLDER: &str = "postgres";

/// A folder with `initdb` and `postgres`, and their major version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Installation {
    pub bin_dir: PathBuf,
    pub major: u32,
}

impl Installation {
    pub(crate) fn program(&self, name: &str) -> PathBuf {
        self.bin_dir.join(name)
    }

    fn at(bin_dir: PathBuf) -> anyhow::Result<Self> {
        if !bin_dir.join("initdb").is_file() {
            bail!("{} has no initdb", bin_dir.display());
        }
        let postgres = bin_dir.join("postgres");
        let output = Command::new(&postgres)
            .arg("--version")
            .env_clear()
            .stdin(Stdio::null())
            .output()
            .with_context(|| format!("starting {}", postgres.display()))?;
        let text = String::from_utf8_lossy(&output.stdout);
        let major = parse_major(&text).with_context(|| format!("{} does not print its version", postgres.display()))?;
        Ok(Self { bin_dir, major })
    }
}

/// `postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)`, `postgres (PostgreSQL) 19beta1`.
fn parse_major(version: &str) -> Option<u32> {
    let number = version.split(") ").nth(1)?;
    let digits: String = number.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}

/// Chooses: the folder that was set; else the first, of the places below, with the version that the data was made
/// with, or when there is no data yet, the newest of the system's.
///
/// # Errors
/// There is none, or none for this data, with what to do.
pub fn choose(set: Option<&Path>, data_dir: &Path, data_major: Option<u32>) -> anyhow::Result<Installation> {
    let found = match set {
        Some(bin_dir) => vec![Installation::at(bin_dir.to_owned()).context("POSTGRES_BIN_DIR")?],
        None => found(data_dir),
    };
    pick(&found, data_major, data_dir)
}

fn pick(found: &[Installation], data_major: Option<u32>, data_dir: &Path) -> anyhow::Result<Installation> {
    let mut usable = found.iter().filter(|installation| installation.major >= MIN_MAJOR);
    let Some(major) = data_major else {
        return usable.next().cloned().ok_or_else(|| nothing_usable(found));
    };
    if let Some(same) = usable.find(|installation| installation.major == major) {
        return Ok(same.clone());
    }
    bail!(
        "the database in {} was made by PostgreSQL {major}, and {}: install PostgreSQL {major} (or name its folder in \
         POSTGRES_BIN_DIR), or bring the data over with pg_upgrade or with a dump and a new DATA_DIR",
        data_dir.join(super::SERVER_FOLDER).display(),
        listed(found, "this machine has only ", "this machine has no PostgreSQL")
    );
}

fn nothing_usable(found: &[Installation]) -> anyhow::Error {
    anyhow::anyhow!(
        "no PostgreSQL {MIN_MAJOR} or newer was found{}: install one (Debian and Ubuntu: apt-get install \
         postgresql), name its folder in POSTGRES_BIN_DIR, or name a running one in DATABASE_URL",
        listed(found, ", only ", "")
    )
}

fn listed(found: &[Installation], some: &str, none: &str) -> String {
    if found.is_empty() {
        return none.to_owned();
    }
    let versions: Vec<String> =
        found.iter().map(|one| format!("PostgreSQL {} ({})", one.major, one.bin_dir.display())).collect();
    format!("{some}{}", versions.join(", "))
}

/// Debian's folders, newest first; what `pg_config` names; the one that was brought along.
fn found(data_dir: &Path) -> Vec<Installation> {
    let mut installations: Vec<Installation> = debian_folders().into_iter().filter_map(usable).collect();
    installations.sort_by_key(|installation| std::cmp::Reverse(installation.major));
    installations.extend(pg_config_folder().and_then(usable));
    let vendored = data_dir.parent().map(|parent| parent.join(VENDORED_FOLDER).join("bin"));
    installations.extend(vendored.and_then(usable));
    installations
}

fn usable(bin_dir: PathBuf) -> Option<Installation> {
    match Installation::at(bin_dir) {
        Ok(installation) => Some(installation),
        Err(error) => {
            tracing::debug!(error = format!("{error:#}"), "not a PostgreSQL to use");
            None
        }
    }
}

fn debian_folders() -> Vec<PathBuf> {
    let entries = std::fs::read_dir(DEBIAN_FOLDER).into_iter().flatten().flatten();
    entries.map(|entry| entry.path().join("bin")).filter(|bin| bin.is_dir()).collect()
}

fn pg_config_folder() -> Option<PathBuf> {
    let program =
        config::program_folders().into_iter().map(|folder| folder.join("pg_config")).find(|it| it.is_file())?;
    let mut command = Command::new(program);
    command.arg("--bindir").env_clear().env("PATH", "/usr/bin:/bin").stdin(Stdio::null()).stderr(Stdio::null());
    let output = command.output().ok()?;
    let folder = String::from_utf8(output.stdout).ok()?;
    Some(PathBuf::from(folder.trim())).filter(|folder| folder.is_absolute())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn installation(major: u32) -> Installation {
        Installation { bin_dir: PathBuf::from(format!("/pg/{major}/bin")), major }
    }

    #[test]
    fn versions_are_read_as_postgres_prints_them() {
        assert_eq!(parse_major("postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)\n"), Some(15));
        assert_eq!(parse_major("postgres (PostgreSQL) 19beta1"), Some(19));
        assert_eq!(parse_major("something else"), None);
    }

    #[test]
    fn new_data_takes_the_first_and_old_data_its_own_version() {
        let found = [installation(18), installation(16), installation(14)];
        let data_dir = Path::new("/data");
        assert_eq!(pick(&found, None, data_dir).unwrap().major, 18);
        assert_eq!(pick(&found, Some(16), data_dir).unwrap().major, 16);
    }

    #[test]
    fn another_major_is_refused_with_both_versions_and_a_way_out() {
        let refused = pick(&[installation(18)], Some(15), Path::new("/data")).unwrap_err().to_string();
        for part in ["made by PostgreSQL 15", "PostgreSQL 18 (/pg/18/bin)", "install PostgreSQL 15", "pg_upgrade"] {
            assert!(refused.contains(part), "{refused}");
        }
    }

    #[test]
    fn too_old_a_server_is_refused_by_name() {
        let refused = pick(&[installation(13)], None, Path::new("/data")).unwrap_err().to_string();
        assert!(refused.contains("15 or newer") && refused.contains("only PostgreSQL 13"), "{refused}");
    }
}
