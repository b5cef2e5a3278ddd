//! Opening a plugin library: from sealed bytes to a checked root table.
//!
//! Everything here assumes that `preflight` and `probe` have had their say: `dlopen` itself kills
//! the process when a file is cut short, and so does a library whose constructors abort.

pub mod about;
pub mod background;
pub mod forked;
mod loaded;
pub mod raw_instance;
pub mod trial;

use std::{
    collections::HashMap,
    fs::File,
    io,
    mem::MaybeUninit,
    ops::Range,
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd},
        unix::fs::{FileExt, MetadataExt},
    },
    sync::Arc,
    time::{Duration, Instant},
};

use abi_stable::{StableAbi, abi_stability::abi_checking::check_layout_compatibility, type_layout::TypeLayout};
use cardinal_plugin_abi::{
    API_VERSION, Entry, LAYOUT_HASH, PluginModuleRef, door,
    entry::{ABI_STABLE_0_11, ENTRY_SYMBOL},
    extension::{self, Memory, MemoryUse},
};
use libloading::os::unix::{RTLD_LOCAL, RTLD_NOW};
use parking_lot::Mutex;
use rustix::{
    fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create},
    io::Errno,
};
use sha2::{Digest, Sha256};

use cardinal_control::crash::PluginTag;
use cardinal_package::refusal::{Code, Refusal};

/// What a layout report is cut to in a refusal; the whole (10 KB and more) goes to the log.
const LAYOUT_TEXT_LIMIT: usize = 600;
/// How often memory is tried to be sealed that is busy; the kernel itself waits for some 80 ms each time.
const SEAL_TRIES: u32 = 30;
const SEAL_PAUSE: Duration = Duration::from_millis(20);
/// The largest `describe()` that is read.
const DESCRIBE_LIMIT: usize = 64 << 10;

/// A private copy of a library's bytes that no process, this one included, can change any more.
///
/// Judging a path and then opening it would judge one file and run another; overwriting a mapped
/// file in place is a segfault. A sealed copy has neither trouble. It stays for the life of the process, so it has only
/// what the loader maps; the rest reads as zeros.
#[derive(Debug)]
pub struct SealedLibrary {
    file: File,
    sha256: [u8; 32],
}

impl SealedLibrary {
    /// Copies `bytes` into sealed memory. Blocks.
    pub fn seal(bytes: &[u8]) -> io::Result<Self> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        // The loader maps it without the right to execute it as a program, which some systems grant no program. Systems
        // before Linux 6.3 do not know the flag.
        let memory = memfd_create(c"cardinal-plugin", flags | MemfdFlags::NOEXEC_SEAL)
            .or_else(|_| memfd_create(c"cardinal-plugin", flags))?;
        let file = File::from(memory);
        file.set_len(bytes.len() as u64)?;
        for part in loaded::parts(bytes) {
            file.write_all_at(&bytes[part.clone()], part.start as u64)?;
        }
        seal_once_free(&file)?;
        Ok(Self { file, sha256: Sha256::digest(bytes).into() })
    }

    /// The hash of the bytes.
    pub fn sha256(&self) -> [u8; 32] {
        self.sha256
    }

    /// The sealed memory, for a probe process to inherit.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// A busy kernel may hold on to some of the pages for a moment, to move or to count them, and refuses to make memory
/// unchangeable that is held. That passes; to refuse a plugin for it would be wrong.
fn seal_once_free(memory: &File) -> io::Result<()> {
    let seals = SealFlags::WRITE | SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
    let mut tries = 1;
    loop {
        match fcntl_add_seals(memory, seals) {
            Err(Errno::BUSY) if tries < SEAL_TRIES => std::thread::sleep(SEAL_PAUSE),
            outcome => return Ok(outcome?),
        }
        tries += 1;
    }
}

/// What a library says about itself, to be compared with its manifest.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Deserialize)]
pub struct Description {
    pub name: String,
    pub version: String,
    #[serde(default)]
    pub sdk: String,
    #[serde(default)]
    pub rustc: String,
}

/// An open library with a checked root table. It stays mapped for the life of the process: Rust
/// libraries can't be unloaded safely, and wakers, memory and threads of it may outlive any use.
#[derive(Clone)]
pub struct Library {
    module: PluginModuleRef,
    description: Arc<Description>,
    sha256: [u8; 32],
    place: Range<usize>,
    /// The sealed copy that it was opened from.
    sealed: &'static File,
}

impl Library {
    /// The sealed memory, for a probe process to inherit.
    pub fn fd(&self) -> BorrowedFd<'static> {
        self.sealed.as_fd()
    }

    /// The addresses that it lies at; empty when the system does not say.
    pub fn place(&self) -> Range<usize> {
        self.place.clone()
    }

    /// What the library's code holds, of all its instances together; `None` when it does not count.
    pub fn memory(&self) -> Option<MemoryUse> {
        let table = (self.module.get_extension())(extension::MEMORY).cast::<Memory>();
        // SAFETY: the ABI says that this number leads to nothing, or to a static table of this type.
        let table = unsafe { table.as_ref() }?;
        Some((table.read)())
    }

    /// What the library says about itself.
    pub fn description(&self) -> &Description {
        &self.description
    }

    /// The hash of the library's bytes.
    pub fn sha256(&self) -> [u8; 32] {
        self.sha256
    }
}

impl std::fmt::Debug for Library {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Library").field("description", &self.description).finish_non_exhaustive()
    }
}

/// The libraries that this process has opened, by content: the same bytes are mapped once, however
/// often they are loaded.
#[derive(Default)]
pub struct Libraries {
    open: Mutex<HashMap<[u8; 32], Library>>,
    /// Whose library is being opened, and since when.
    opening: Mutex<Option<(PluginTag, Instant)>>,
}

/// While it exists, a library of this plugin is being opened.
struct Opening<'l>(&'l Mutex<Option<(PluginTag, Instant)>>);

impl<'l> Opening<'l> {
    fn begin(opening: &'l Mutex<Option<(PluginTag, Instant)>>, tag: PluginTag) -> Self {
        *opening.lock() = Some((tag, Instant::now()));
        Self(opening)
    }
}

impl Drop for Opening<'_> {
    fn drop(&mut self) {
        *self.0.lock() = None;
    }
}

impl Libraries {
    /// [`open`], or the library of the same bytes that is open already. Blocks: one is opened after the other.
    pub fn open(&self, sealed: SealedLibrary, tag: PluginTag) -> Result<Library, Refusal> {
        let mut libraries = self.open.lock();
        if let Some(library) = libraries.get(&sealed.sha256) {
            return Ok(library.clone());
        }
        forked::watch();
        let opening = Opening::begin(&self.opening, tag);
        let library = open(sealed)?;
        drop(opening);
        libraries.insert(library.sha256, library.clone());
        Ok(library)
    }

    /// Whose library has been opening for longer than this.
    pub fn opening_for(&self, limit: Duration) -> Option<PluginTag> {
        self.opening.lock().filter(|(_, since)| since.elapsed() >= limit).map(|(tag, _)| tag)
    }

    /// How many different libraries are mapped.
    pub fn resident(&self) -> usize {
        self.open.lock().len()
    }
}

/// Opens a library and checks all that can be checked before its first own function runs. Blocks;
/// runs the library's constructors.
pub fn open(sealed: SealedLibrary) -> Result<Library, Refusal> {
    let sha256 = sealed.sha256;
    // glibc knows a library by the name that it was opened under. Were this descriptor closed, the
    // next sealed copy could get its number, and dlopen would hand out this library again.
    let sealed: &'static File = Box::leak(Box::new(sealed.file));
    let (entry, place) = map(sealed)?;
    check_entry(entry)?;
    check_layout(entry)?;
    let module = root_module(entry)?;
    let description = Arc::new(describe(module)?);
    Ok(Library { module, description, sha256, place, sealed })
}

fn map(sealed: &File) -> Result<(&'static Entry, Range<usize>), Refusal> {
    let path = format!("/proc/self/fd/{}", sealed.as_raw_fd());
    // SAFETY: opening runs the library's constructors. That is what loading a plugin means: its
    // code is trusted code, looked at by preflight and tried by a probe process before.
    let library = unsafe { libloading::os::unix::Library::open(Some(&path), RTLD_NOW | RTLD_LOCAL) }
        .map_err(|error| not_loadable(&error))?;
    let place = find_mapping(sealed);
    // SAFETY: only the symbol's address is taken here.
    let found = unsafe { library.get::<*const Entry>(ENTRY_SYMBOL.as_bytes()) }.map(|symbol| *symbol);
    std::mem::forget(library); // never dlclose: see `Library`
    let entry = found.map_err(|_| {
        not_a_plugin("The library does not export the plugin entry.")
            .expected(format!("the symbol {ENTRY_SYMBOL}"))
            .found("a library without it")
    })?;
    // SAFETY: the symbol's name is the contract's own, and says that a static of this type stands there, whose fields
    // never move. The library is never unloaded.
    let entry = unsafe { entry.as_ref() }
        .ok_or_else(|| not_a_plugin("The library's plugin entry is empty.").expected("a plugin entry").found("null"))?;
    Ok((entry, place))
}

/// Where the file is mapped, from the first piece of it to the last.
fn find_mapping(file: &File) -> Range<usize> {
    let inode = file.metadata().map(|found| found.ino().to_string()).unwrap_or_default();
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let mut place = 0..0;
    for line in maps.lines() {
        // Addresses, access, offset, device, inode, name. Memory files all lie on one device.
        let mut fields = line.split_ascii_whitespace();
        let ends = fields.next().and_then(|ends| ends.split_once('-'));
        if fields.nth(3) != Some(&inode) || !line.contains("/memfd:") {
            continue;
        }
        let number = |text| usize::from_str_radix(text, 16).ok();
        if let Some((begin, end)) = ends.and_then(|(begin, end)| number(begin).zip(number(end))) {
            place = if place.is_empty() { begin..end } else { place.start.min(begin)..place.end.max(end) };
        }
    }
    place
}

fn not_a_plugin(reason: &str) -> Refusal {
    Refusal::new(Code::NotAPlugin, reason)
}

fn not_loadable(error: &libloading::Error) -> Refusal {
    // The Display of libloading's own error says only "dlopen failed".
    let reason = std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string);
    let reason = reason.split_once(": ").map_or(reason.as_str(), |(_, rest)| rest);
    Refusal::new(Code::NotLoadable, "The system's loader does not accept the library.")
        .expected("a library that this system can load")
        .found(first_line(reason))
}

/// The entry's own words, which have to be those of `.crd_hdr`.
fn check_entry(entry: &Entry) -> Result<(), Refusal> {
    if entry.api != API_VERSION || (entry.size as usize) < size_of::<Entry>() {
        return Err(not_a_plugin("The library's plugin entry is of another format.")
            .expected(format!("API {API_VERSION} in {} bytes", size_of::<Entry>()))
            .found(format!("API {} in {} bytes", entry.api, entry.size)));
    }
    if entry.layout_hash != LAYOUT_HASH {
        return Err(layout_mismatch()
            .expected(format!("the layouts {LAYOUT_HASH:016x}"))
            .found(format!("{:016x}", entry.layout_hash)));
    }
    Ok(())
}

/// The hash says that the frozen layouts are the same. A library that describes its layouts is held to that, too: the
/// description names what differs. abi_stable's own check goes one way, and refuses an older plugin in a newer host.
/// All types that cross stand in one crate, so one side is newer in all of them: either direction will do.
fn check_layout(entry: &Entry) -> Result<(), Refusal> {
    let Some(layouts) = entry.layouts.filter(|_| entry.checker == ABI_STABLE_0_11) else { return Ok(()) };
    // SAFETY: the checker's number says that the function gives a static of this type, or null.
    let theirs = unsafe { layouts().cast::<TypeLayout>().as_ref() };
    let Some(theirs) = theirs else {
        return Err(layout_mismatch().found("a library without a description of its layouts"));
    };
    let ours = <PluginModuleRef as StableAbi>::LAYOUT;
    let Err(newer_plugin) = check_layout_compatibility(ours, theirs) else { return Ok(()) };
    let Err(older_plugin) = check_layout_compatibility(theirs, ours) else { return Ok(()) };
    tracing::warn!(as_newer = %newer_plugin, as_older = %older_plugin, "a plugin library has other layouts");
    Err(layout_mismatch().found(layout_tail(&newer_plugin.to_string())))
}

fn layout_mismatch() -> Refusal {
    Refusal::new(Code::LayoutMismatch, "The library was built against another layout of the plugin API.")
        .expected(format!("the layouts of plugin API {API_VERSION}"))
}

fn root_module(entry: &Entry) -> Result<PluginModuleRef, Refusal> {
    let (mut table, mut failure) = (std::ptr::null(), MaybeUninit::uninit());
    // SAFETY: both out pointers are valid for a write.
    let tag = unsafe { (entry.open)(&raw mut table, failure.as_mut_ptr()) };
    let no_table = |found: String| {
        not_a_plugin("The library gives no root table.").expected("a root table").found(first_line(&found))
    };
    if tag == door::READY {
        // SAFETY: `check_entry` and `check_layout` have compared the layouts just before.
        let module = unsafe { PluginModuleRef::from_raw(table) };
        return module.ok_or_else(|| no_table("null".to_owned()));
    }
    if tag != door::FAILED && tag != door::PANICKED {
        return Err(no_table(format!("the tag {tag}")));
    }
    // SAFETY: the contract of `open`: these two tags mean that `err` was written.
    let reason = unsafe { failure.assume_init() }.text();
    if tag == door::FAILED {
        return Err(no_table(reason));
    }
    Err(Refusal::new(Code::ConstructorPanicked, "The library panicked while it made its root table.")
        .expected("a root table")
        .found(first_line(&reason)))
}

fn describe(module: PluginModuleRef) -> Result<Description, Refusal> {
    let text = (module.describe())();
    let described = match text.get().len() {
        0..=DESCRIBE_LIMIT => serde_json::from_slice(text.get()).map_err(|error| error.to_string()),
        length => Err(format!("{length} bytes")),
    };
    described.map_err(|found| {
        not_a_plugin("The library's description of itself cannot be read.")
            .expected("{name, version, sdk, rustc} as JSON")
            .found(found)
    })
}

fn first_line(text: &str) -> String {
    text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("nothing").to_owned()
}

/// The end of a layout report names the difference; what leads there is for the log.
fn layout_tail(report: &str) -> String {
    let tail = report.rfind("Error:").map_or(report, |at| &report[at..]);
    let words = tail.split_whitespace().collect::<Vec<_>>().join(" ");
    words.chars().take(LAYOUT_TEXT_LIMIT).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::io::Write;

    use super::*;

    #[test]
    fn sealed_bytes_cannot_be_changed() {
        let sealed = SealedLibrary::seal(b"bytes").unwrap();
        assert!((&sealed.file).write_all(b"more").is_err());
        assert!(sealed.file.set_len(1).is_err());
        assert_eq!(sealed.sha256()[..], Sha256::digest(b"bytes")[..]);
    }

    #[test]
    fn text_is_refused_in_plain_words() {
        let refusal = open(SealedLibrary::seal(b"hello, not a library").unwrap()).unwrap_err();
        assert_eq!(refusal.code, Code::NotLoadable);
        let found = refusal.found.unwrap();
        assert!(found.contains("file too short") || found.contains("invalid ELF"), "{found}");
    }

    #[test]
    fn a_library_without_the_header_is_not_a_plugin() {
        let libm = ["/lib/x86_64-linux-gnu/libm.so.6", "/lib64/libm.so.6", "/usr/lib/libm.so.6"];
        let Some(bytes) = libm.iter().find_map(|path| std::fs::read(path).ok()) else { return };
        let refusal = open(SealedLibrary::seal(&bytes).unwrap()).unwrap_err();
        assert_eq!(refusal.code, Code::NotAPlugin);
    }
}
