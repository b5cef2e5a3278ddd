//! A small disk of a test's own, which it may fill.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::PathBuf;
use std::process::Command;

use tempfile::TempDir;

/// What is written at a time to fill it.
const PIECE: usize = 64 * 1024;

/// A file system in memory, unmounted when dropped.
pub struct SmallDisk {
    place: PathBuf,
    _around: TempDir,
}

impl SmallDisk {
    /// `None` where this user may not mount: a disk can only be full that has an end, and nothing else gives a test one.
    pub fn new(mebibytes: u64) -> Option<SmallDisk> {
        let around = tempfile::Builder::new().prefix("cardinal-disk-").tempdir().unwrap();
        let place = around.path().join("disk");
        fs::create_dir(&place).unwrap();
        let options = format!("size={mebibytes}m,mode=0755");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &options, "cardinal-test"]).arg(&place).output();
        let mounted = mounted.is_ok_and(|output| output.status.success());
        if !mounted {
            eprintln!("NOT TRIED: a full disk, because this user may not mount one");
        }
        mounted.then_some(SmallDisk { place, _around: around })
    }

    /// A new folder on it.
    pub fn folder(&self) -> TempDir {
        tempfile::tempdir_in(&self.place).unwrap()
    }

    fn ballast(&self) -> PathBuf {
        self.place.join("ballast")
    }

    /// Leaves no room on it.
    pub fn fill(&self) {
        let mut ballast = File::options().create(true).append(true).open(self.ballast()).unwrap();
        for piece in [PIECE, 1] {
            while ballast.write_all(&vec![0; piece]).is_ok() {}
        }
    }

    /// Takes away what [`SmallDisk::fill`] put there.
    pub fn make_room(&self) {
        fs::remove_file(self.ballast()).unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // What ends a little later than its test may still hold a file open.
        let _ = Command::new("umount").arg("--lazy").arg(&self.place).status();
    }
}
