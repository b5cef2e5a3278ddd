//! Other names of a path: a file system, or a folder of it, can be mounted at several places, and Landlock judges a
//! file by the place that it was opened through.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

const MOUNTS: &str = "/proc/self/mountinfo";

/// A line of mountinfo(5).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mount {
    /// `major:minor` of the file system.
    device: String,
    /// The folder of the file system that is mounted.
    root: PathBuf,
    place: PathBuf,
}

/// What is mounted; nothing where the system does not tell.
pub(super) fn read() -> Vec<Mount> {
    std::fs::read(MOUNTS).unwrap_or_default().split(|byte| *byte == b'\n').filter_map(parse).collect()
}

fn parse(line: &[u8]) -> Option<Mount> {
    let mut fields = line.split(|byte| *byte == b' ').skip(2);
    let device = String::from_utf8(fields.next()?.to_owned()).ok()?;
    Some(Mount { device, root: unescape(fields.next()?), place: unescape(fields.next()?) })
}

/// Spaces and the like are written as a backslash and three octal digits.
fn unescape(field: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, after)) = rest.split_first() {
        let digits = after.get(..3).filter(|_| *first == b'\\').and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[3..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    PathBuf::from(OsString::from_vec(bytes))
}

/// The other names of a path without links.
pub(super) fn aliases(mounts: &[Mount], path: &Path) -> Vec<PathBuf> {
    let covering = mounts.iter().filter(|mount| path.starts_with(&mount.place));
    // The last of several at one place covers the others.
    let Some(own) = covering.max_by_key(|mount| mount.place.components().count()) else { return Vec::new() };
    let Ok(below) = path.strip_prefix(&own.place) else { return Vec::new() };
    let within = own.root.join(below);
    let same = mounts.iter().filter(|mount| mount.device == own.device);
    let names = same.filter_map(|mount| Some(mount.place.join(within.strip_prefix(&mount.root).ok()?)));
    names.filter(|name| name != path).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mounts(text: &str) -> Vec<Mount> {
        text.lines().filter_map(|line| parse(line.as_bytes())).collect()
    }

    #[test]
    fn a_path_is_found_wherever_its_folder_is_mounted() {
        let mounts = mounts(
            "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n\
             23 22 8:2 / /srv rw - ext4 /dev/sda2 rw\n\
             24 22 8:2 /app /mnt/with\\040space rw - ext4 /dev/sda2 rw\n\
             25 22 8:1 /srv/app /wrong rw - ext4 /dev/sda1 rw\n\
             26 22 8:2 /app/data/pg /pg rw - ext4 /dev/sda2 rw\n",
        );
        assert_eq!(aliases(&mounts, Path::new("/srv/app/data")), [PathBuf::from("/mnt/with space/data")]);
        let deeper = aliases(&mounts, Path::new("/srv/app/data/pg/cluster"));
        assert_eq!(deeper, [PathBuf::from("/mnt/with space/data/pg/cluster"), PathBuf::from("/pg/cluster")]);
        assert!(aliases(&mounts, Path::new("/home/data")).is_empty());
    }

    #[test]
    fn this_systems_mounts_are_read() {
        assert!(read().iter().any(|mount| mount.place == Path::new("/")));
    }
}
