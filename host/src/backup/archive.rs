//! The file: a tar with plain names, every member hashed in a manifest that comes last. It stands under its name only
//! when it is whole and on disk.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, BufWriter, Read, Seek as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use sha2::{Digest as _, Sha256};

use super::{FORMAT, HEAD, Head, MANIFEST, Manifest, Member, PRODUCT};
use cardinal_base::{hex::hex, secret_file::sync_folder};

const BUFFER: usize = 1 << 20;
/// The manifest and the head are read whole: more than this is no list of ours.
const MAX_LIST: u64 = 256 << 20;

/// What is done where a file of the same name exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnExisting {
    Refuse,
    Replace,
}

/// An archive being written. Dropped before [`Writer::finish`] it leaves nothing.
pub struct Writer {
    tar: Option<tar::Builder<BufWriter<File>>>,
    draft: PathBuf,
    target: PathBuf,
    existing: OnExisting,
    members: Vec<Member>,
}

/// A place between two members of an archive that is being written.
pub struct Savepoint {
    position: u64,
    members: usize,
}

impl Writer {
    /// # Errors
    /// In words for an operator: the file exists, or cannot be made.
    pub fn create(target: &Path, existing: OnExisting) -> anyhow::Result<Self> {
        if existing == OnExisting::Refuse && target.exists() {
            bail!("{} exists: choose another name, or pass --overwrite", target.display());
        }
        let name = target.file_name().and_then(|name| name.to_str()).context("the file name is not UTF-8")?;
        let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        if !folder.is_dir() {
            bail!("the folder {} does not exist: create it, or choose another file", folder.display());
        }
        let draft = target.with_file_name(format!(".{name}.{}.part", std::process::id()));
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&draft)
            .with_context(|| format!("cannot write the backup to the folder {}", folder.display()))?;
        let tar = Some(tar::Builder::new(BufWriter::with_capacity(BUFFER, file)));
        Ok(Self { tar, draft, target: target.to_owned(), existing, members: Vec::new() })
    }

    /// # Errors
    /// The disk does not take it.
    pub fn add(&mut self, name: &str, content: &[u8]) -> anyhow::Result<()> {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o600);
        header.set_mtime(0);
        let tar = self.tar.as_mut().context("the archive is finished")?;
        tar.append_data(&mut header, name, content).with_context(|| format!("writing {}", self.draft.display()))?;
        self.members.push(Member {
            name: name.to_owned(),
            size: content.len() as u64,
            sha256: hex(&Sha256::digest(content)),
        });
        Ok(())
    }

    /// Where the archive ends so far.
    ///
    /// # Errors
    /// The disk does not take it.
    pub fn savepoint(&mut self) -> anyhow::Result<Savepoint> {
        let tar = self.tar.as_mut().context("the archive is finished")?;
        let position = tar.get_mut().stream_position().with_context(|| format!("writing {}", self.draft.display()))?;
        Ok(Savepoint { position, members: self.members.len() })
    }

    /// Takes everything out again that was added since.
    ///
    /// # Errors
    /// As the system reports them.
    pub fn roll_back_to(&mut self, savepoint: &Savepoint) -> anyhow::Result<()> {
        let buffer = self.tar.as_mut().context("the archive is finished")?.get_mut();
        let mut cut = || -> io::Result<()> {
            buffer.seek(io::SeekFrom::Start(savepoint.position))?;
            buffer.get_ref().set_len(savepoint.position)
        };
        cut().with_context(|| format!("writing {}", self.draft.display()))?;
        self.members.truncate(savepoint.members);
        Ok(())
    }

    /// Adds the manifest, makes sure that all of it is on disk, and gives the file its name.
    ///
    /// # Errors
    /// The disk does not take it, or somebody else made a file of that name meanwhile.
    pub fn finish(mut self, mut manifest: Manifest) -> anyhow::Result<Manifest> {
        manifest.members.clone_from(&self.members);
        self.add(MANIFEST, &serde_json::to_vec_pretty(&manifest)?)?;
        let tar = self.tar.take().context("the archive is finished")?;
        let write = || -> io::Result<()> {
            let mut buffer = tar.into_inner()?;
            buffer.flush()?;
            buffer.get_ref().sync_all()
        };
        write().with_context(|| format!("writing {}", self.draft.display()))?;
        let flags = match self.existing {
            OnExisting::Refuse => rustix::fs::RenameFlags::NOREPLACE,
            OnExisting::Replace => rustix::fs::RenameFlags::empty(),
        };
        rustix::fs::renameat_with(rustix::fs::CWD, &self.draft, rustix::fs::CWD, &self.target, flags)
            .with_context(|| format!("renaming the backup to {}", self.target.display()))?;
        sync_folder(&self.target).with_context(|| format!("syncing the folder of {}", self.target.display()))?;
        Ok(manifest)
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // After a rename there is none.
        let _ = fs::remove_file(&self.draft);
    }
}

/// An archive whose every byte was checked.
pub struct VerifiedArchive {
    pub head: Head,
    pub manifest: Manifest,
    path: PathBuf,
}

impl VerifiedArchive {
    /// Reads the whole archive once and compares it with its manifest.
    ///
    /// # Errors
    /// In words for an operator: it is none of ours, of a newer program, cut off or damaged.
    pub fn open(path: &Path) -> anyhow::Result<Self> {
        let mut tar = reader(path)?;
        let mut entries = tar.entries().with_context(|| format!("reading {}", path.display()))?;
        let (first, head) =
            read_head(&mut entries).with_context(|| format!("{} is not a Cardinal backup", path.display()))?;
        if head.format > FORMAT {
            bail!(
                "{} was made by Cardinal {}, in a format that this version ({}) does not know: use that version or \
                 a newer one",
                path.display(),
                head.core,
                env!("CARGO_PKG_VERSION")
            );
        }
        let damaged = || format!("{} is truncated or damaged; nothing was changed. Use another backup", path.display());
        let (found, manifest) = read_members(first, &mut entries).with_context(damaged)?;
        if manifest.members != found {
            let wrong = manifest.members.iter().zip(&found).find(|(listed, found)| listed != found);
            let name = wrong.map_or("a member", |(listed, _)| listed.name.as_str()).to_owned();
            return Err(anyhow::anyhow!("{name} does not match the manifest").context(damaged()));
        }
        Ok(Self { head, manifest, path: path.to_owned() })
    }

    /// The file once more, for [`Members::new`].
    ///
    /// # Errors
    /// As the system reports them.
    pub fn tar(&self) -> anyhow::Result<tar::Archive<BufReader<File>>> {
        reader(&self.path)
    }
}

/// The members of an archive that was checked, one after the other. They are hashed again: the file may have been
/// changed since.
pub struct Members<'a> {
    entries: Entries<'a>,
    list: std::iter::Peekable<std::slice::Iter<'a, Member>>,
}

impl<'a> Members<'a> {
    /// # Errors
    /// As the system reports them.
    pub fn new(tar: &'a mut tar::Archive<BufReader<File>>, manifest: &'a Manifest) -> anyhow::Result<Self> {
        Ok(Self { entries: tar.entries()?, list: manifest.members.iter().peekable() })
    }

    /// The next member, if its name begins like this.
    ///
    /// # Errors
    /// The file is not what it was when it was checked.
    pub fn next(&mut self, prefix: &str) -> anyhow::Result<Option<(&'a str, Vec<u8>)>> {
        let Some(listed) = self.list.next_if(|member| member.name.starts_with(prefix)) else { return Ok(None) };
        let mut entry = self.entries.next().context("the backup changed while it was read")??;
        let mut content = Vec::with_capacity(usize::try_from(listed.size).unwrap_or_default());
        entry.read_to_end(&mut content)?;
        if entry_name(&entry)? != listed.name || hex(&Sha256::digest(&content)) != listed.sha256 {
            bail!("the backup changed while it was read: {}", listed.name);
        }
        Ok(Some((&listed.name, content)))
    }
}

fn reader(path: &Path) -> anyhow::Result<tar::Archive<BufReader<File>>> {
    let file = File::open(path).with_context(|| format!("opening {}", path.display()))?;
    Ok(tar::Archive::new(BufReader::with_capacity(BUFFER, file)))
}

type Entries<'a> = tar::Entries<'a, BufReader<File>>;

fn read_head(entries: &mut Entries<'_>) -> anyhow::Result<(Member, Head)> {
    // The errors of these would repeat bytes of whatever file it is.
    let first = entries.next().context("it is empty")?.ok().context("not a tar archive")?;
    if entry_name(&first).ok().as_deref() != Some(HEAD) {
        bail!("its first member is not {HEAD}");
    }
    let mut text = Vec::new();
    first.take(MAX_LIST).read_to_end(&mut text)?;
    let head: Head = serde_json::from_slice(&text).ok().with_context(|| format!("{HEAD} in it is damaged"))?;
    if head.product != PRODUCT {
        bail!("it was made by {:?}", head.product);
    }
    let member = Member { name: HEAD.to_owned(), size: text.len() as u64, sha256: hex(&Sha256::digest(&text)) };
    Ok((member, head))
}

/// All members before the manifest, with their hashes, and the manifest.
fn read_members(head: Member, entries: &mut Entries<'_>) -> anyhow::Result<(Vec<Member>, Manifest)> {
    let mut found = vec![head];
    for entry in entries {
        let mut entry = entry?;
        let name = entry_name(&entry)?;
        if name == MANIFEST {
            let mut text = Vec::new();
            let size = entry.size();
            entry.take(MAX_LIST).read_to_end(&mut text)?;
            if text.len() as u64 != size {
                bail!("the manifest is truncated");
            }
            return Ok((found, serde_json::from_slice(&text)?));
        }
        let mut hash = Sha256::new();
        let size = io::copy(&mut entry, &mut HashWriter(&mut hash))?;
        if size != entry.size() {
            bail!("{name} is truncated");
        }
        found.push(Member { name, size, sha256: hex(&hash.finalize()) });
    }
    bail!("it has no manifest")
}

fn entry_name<R: Read>(entry: &tar::Entry<'_, R>) -> anyhow::Result<String> {
    String::from_utf8(entry.path_bytes().into_owned()).context("a member's name is not UTF-8")
}

struct HashWriter<'a>(&'a mut Sha256);

impl io::Write for HashWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
