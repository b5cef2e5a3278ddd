//! Reading below one opened folder, without ever following a link.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, Read},
    os::fd::{AsFd, OwnedFd},
    path::{Path, PathBuf},
};

use bytes::Bytes;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat, fstat, open, openat, statat};

use crate::{
    manifest::is_plain_relative,
    owners::{FileOwner, Owners},
    refusal::{Code, Refusal},
};

/// Folders inside folders of a frontend.
const DEPTH_LIMIT: usize = 16;
/// Names in one folder that are looked at.
const NAMES_LIMIT: usize = 10_000;

/// An opened folder whose owner and mode have been checked.
pub(super) struct Folder<'o> {
    fd: OwnedFd,
    path: PathBuf,
    owners: &'o Owners,
}

impl<'o> Folder<'o> {
    /// The plugins folder itself; links in the path to it are the operator's.
    pub(super) fn open(path: &Path, owners: &'o Owners) -> Result<Self, Refusal> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = open(path, flags, Mode::empty()).map_err(|error| unreadable(path, error))?;
        Self::checked(fd, path.to_owned(), owners)
    }

    fn checked(fd: OwnedFd, path: PathBuf, owners: &'o Owners) -> Result<Self, Refusal> {
        let stat = fstat(&fd).map_err(|error| unreadable(&path, error))?;
        owners.check(file_owner(&stat), &path)?;
        Ok(Self { fd, path, owners })
    }

    pub(super) fn has_folder(&self, name: &str) -> bool {
        self.kind(name).is_ok_and(|kind| kind == FileType::Directory)
    }

    pub(super) fn has_file(&self, name: &str) -> bool {
        self.kind(name).is_ok_and(|kind| kind == FileType::RegularFile)
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.kind(name).is_ok()
    }

    fn kind(&self, name: &str) -> Result<FileType, Refusal> {
        let stat = statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW)
            .map_err(|error| unreadable(&self.path.join(name), error))?;
        Ok(FileType::from_raw_mode(stat.st_mode))
    }

    /// A folder in this one.
    pub(super) fn folder(&self, name: &str) -> Result<Folder<'o>, Refusal> {
        let path = self.path.join(name);
        match self.kind(name)? {
            FileType::Directory => {}
            FileType::Symlink => return Err(link(&path)),
            kind => {
                return Err(Refusal::new(Code::Unreadable, format!("{} is not a folder.", path.display()))
                    .expected("a folder")
                    .found(describe(kind)));
            }
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = openat(&self.fd, name, flags, Mode::empty()).map_err(|error| unreadable(&path, error))?;
        Self::checked(fd, path, self.owners)
    }

    /// A file in this folder, whole.
    pub(super) fn file(&self, name: &str, limit: u64) -> Result<Bytes, Refusal> {
        let path = self.path.join(name);
        if self.kind(name)? == FileType::Symlink {
            return Err(link(&path));
        }
        // Without NONBLOCK the opening of a pipe would wait for its other end.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let fd = openat(&self.fd, name, flags, Mode::empty()).map_err(|error| unreadable(&path, error))?;
        let stat = fstat(&fd).map_err(|error| unreadable(&path, error))?;
        let kind = FileType::from_raw_mode(stat.st_mode);
        if kind != FileType::RegularFile {
            return Err(Refusal::new(Code::Unreadable, format!("{} is not a regular file.", path.display()))
                .expected("a regular file")
                .found(describe(kind)));
        }
        self.owners.check(file_owner(&stat), &path)?;
        read_whole(File::from(fd), limit, &path)
    }

    /// The names in this folder that are UTF-8 and not hidden, in order.
    pub(super) fn names(&self) -> Result<Vec<String>, Refusal> {
        let list = || -> io::Result<Vec<String>> {
            let mut names = Vec::new();
            for entry in Dir::read_from(self.fd.as_fd())? {
                let entry = entry?;
                match entry.file_name().to_str() {
                    Ok(name) if !name.starts_with('.') => names.push(name.to_owned()),
                    _ => {}
                }
                if names.len() > NAMES_LIMIT {
                    return Err(io::Error::other("too many files"));
                }
            }
            names.sort();
            Ok(names)
        };
        list().map_err(|error| unreadable(&self.path, error))
    }

    /// Every file below this folder, by relative path.
    pub(super) fn tree(&self, limit: u64, count: usize) -> Result<BTreeMap<String, Bytes>, Refusal> {
        let mut tree = Tree { files: BTreeMap::new(), room: limit, count };
        tree.add(self, "", DEPTH_LIMIT)?;
        Ok(tree.files)
    }
}

struct Tree {
    files: BTreeMap<String, Bytes>,
    room: u64,
    count: usize,
}

impl Tree {
    fn add(&mut self, folder: &Folder, prefix: &str, depth: usize) -> Result<(), Refusal> {
        for name in folder.names()? {
            let path = format!("{prefix}{name}");
            if !is_plain_relative(&path) {
                return Err(Refusal::new(Code::FrontendInvalid, "A frontend file has a name that cannot be served.")
                    .expected("plain names without \\, : and control characters")
                    .found(path));
            }
            if folder.has_folder(&name) {
                if depth == 0 {
                    return Err(frontend_too_large(format!("a folder deeper than that, {path}")));
                }
                self.add(&folder.folder(&name)?, &format!("{path}/"), depth - 1)?;
                continue;
            }
            let data = folder.file(&name, self.room).map_err(|refusal| match refusal.code {
                Code::TooLarge => frontend_too_large("more bytes".to_owned()),
                _ => refusal,
            })?;
            self.room -= data.len() as u64; // the file was read within this room
            if self.files.len() >= self.count {
                return Err(frontend_too_large("more files".to_owned()));
            }
            self.files.insert(path, data);
        }
        Ok(())
    }
}

fn read_whole(file: File, limit: u64, path: &Path) -> Result<Bytes, Refusal> {
    let length = file.metadata().map_or(0, |found| found.len());
    if length > limit {
        return Err(too_large(path, limit, length));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(length).unwrap_or(0));
    // One byte more than allowed shows a file that grows while it is read.
    file.take(limit + 1).read_to_end(&mut bytes).map_err(|error| unreadable(path, error))?;
    let read = bytes.len() as u64;
    if read > limit { Err(too_large(path, limit, read)) } else { Ok(bytes.into()) }
}

fn file_owner(stat: &Stat) -> FileOwner {
    FileOwner { uid: stat.st_uid, gid: stat.st_gid, mode: stat.st_mode }
}

pub(super) fn too_large(path: &Path, limit: u64, length: u64) -> Refusal {
    Refusal::new(Code::TooLarge, format!("{} is too large.", path.display()))
        .expected(format!("at most {limit} bytes"))
        .found(format!("{length} bytes"))
}

pub(super) fn frontend_too_large(found: String) -> Refusal {
    let (bytes, files) = (super::FRONTEND_LIMIT, super::FRONTEND_FILES);
    Refusal::new(Code::TooLarge, "The plugin's frontend is too large.")
        .expected(format!("at most {bytes} bytes in {files} files, {DEPTH_LIMIT} folders deep"))
        .found(found)
}

fn describe(kind: FileType) -> &'static str {
    match kind {
        FileType::RegularFile => "a file",
        FileType::Directory => "a folder",
        FileType::Fifo => "a named pipe",
        FileType::Socket => "a socket",
        FileType::CharacterDevice | FileType::BlockDevice => "a device",
        FileType::Symlink => "a link",
        FileType::Unknown => "something else",
    }
}

fn link(path: &Path) -> Refusal {
    Refusal::new(Code::LinkRefused, format!("{} is a symbolic link.", path.display()))
        .expected("a file or folder")
        .found("a link")
}

fn unreadable(path: &Path, error: impl Into<io::Error>) -> Refusal {
    let error = error.into();
    if error.kind() == io::ErrorKind::NotFound {
        let reason = format!("There is no file or folder {}.", path.display());
        return Refusal::new(Code::Unreadable, reason)
            .expected("a file or folder")
            .found("nothing")
            .fix("Correct the path, or put the file there.");
    }
    Refusal::new(Code::Unreadable, format!("{} cannot be read.", path.display()))
        .expected("a file or folder that the host may read")
        .found(error.to_string())
}
