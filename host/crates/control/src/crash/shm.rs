//! The memory that supervisor and worker share. All of it is atomics, so that either side may read at any time whatever
//! the other does; the supervisor believes none of it beyond its type, since a plugin can write anywhere in its
//! process.

use std::{
    fs::File,
    io,
    ops::{Deref, Range},
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::{
        OnceLock,
        atomic::{AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering},
    },
};

use parking_lot::Mutex;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};

use super::tag::PluginTag;

/// Different packages that one worker can tell apart; what it loads beyond is nobody's.
const PAGES: usize = 256;
/// Instances whose calls are counted where the supervisor can see them.
const COUNTS: usize = 1_024;
/// Threads whose running plugin the supervisor can see; what runs on others is not seen.
const RUNNING: usize = 512;
const NAME: usize = 40;
const VERSION: usize = 64;
const HASH: usize = 64;
/// The names of a plugin's handlers, a line each; what is longer is cut.
const HANDLERS: usize = 4_096;

/// See the module.
#[repr(C)]
pub struct CrashShm {
    /// Not 0 when the worker ends because it wants to.
    pub(super) leaving: AtomicU32,
    pub(super) end: End,
    pages: [PluginSlot; PAGES],
    counts: [Count; COUNTS],
    running: [Running; RUNNING],
}

/// How the worker ended; written by the first thread that is about to end it.
#[repr(C)]
pub(super) struct End {
    /// 0 nobody was here, 1 being written, 2 written.
    pub state: AtomicU32,
    pub signal: AtomicU32,
    /// Bits of [`flags`].
    pub flags: AtomicU32,
    pub tag: AtomicU64,
    /// Where in the culprit's library, plus one.
    pub offset: AtomicU64,
    pub thread: Text<16>,
}

pub(super) mod flags {
    /// `exit()` rather than a signal.
    pub(crate) const EXIT: u32 = 1;
    /// The signal came from another process.
    pub(crate) const OUTSIDE: u32 = 2;
    /// The address that could not be reached lies where the stack ends.
    pub(crate) const STACK: u32 = 4;
    /// The worker ended itself: descriptors or limits that it lives by were changed.
    pub(crate) const DESCRIPTORS: u32 = 8;
    /// The same: a library did not finish opening.
    pub(crate) const OPENING: u32 = 16;
}

/// One package that is or was loaded.
#[repr(C)]
pub(super) struct PluginSlot {
    used: AtomicU32,
    pub name: Text<NAME>,
    pub version: Text<VERSION>,
    pub sha256: Text<HASH>,
    /// Where its library lies.
    pub begin: AtomicUsize,
    pub end: AtomicUsize,
    pub handlers: Text<HANDLERS>,
}

/// What one instance has under way. Alone on its cache line: every call of the plugin counts here.
#[repr(C, align(64))]
pub struct Count {
    /// The page, plus one; 0 is free.
    page: AtomicU32,
    calls: AtomicUsize,
}

/// What one thread runs. Alone on its cache line: it is written at each poll.
#[repr(C, align(64))]
struct Running {
    /// 0 free, 1 a thread that may belong to a plugin, 2 one of the host's own.
    taken: AtomicU32,
    tag: AtomicU64,
}

/// Text that ends at its first zero byte.
#[repr(C)]
pub(super) struct Text<const N: usize>([AtomicU8; N]);

impl<const N: usize> Text<N> {
    pub(super) fn write(&self, text: &[u8]) {
        for (to, from) in self.0.iter().zip(text.iter().chain(std::iter::repeat(&0))) {
            to.store(*from, Ordering::Relaxed);
        }
    }

    pub(super) fn read(&self) -> String {
        let bytes: Vec<u8> = self.0.iter().map(|b| b.load(Ordering::Relaxed)).take_while(|b| *b != 0).collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

/// Shared memory as the supervisor has it: the memory to hand over, and a view of it.
#[derive(Debug)]
pub struct Shared {
    memory: OwnedFd,
    view: View,
}

impl Shared {
    /// Empty memory for the life of one worker.
    ///
    /// # Errors
    /// The system gives none.
    pub fn new() -> io::Result<Self> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        // Systems before Linux 6.3 do not know the flag, some later ones insist on it.
        let memory = memfd_create(c"cardinal-shm", flags | MemfdFlags::NOEXEC_SEAL)
            .or_else(|_| memfd_create(c"cardinal-shm", flags))?;
        rustix::fs::ftruncate(&memory, size_of::<CrashShm>() as u64)?;
        // Were it made shorter, reading it would end the supervisor.
        fcntl_add_seals(&memory, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        let view = View::map(memory.as_fd())?;
        Ok(Self { memory, view })
    }

    pub fn memory(&self) -> BorrowedFd<'_> {
        self.memory.as_fd()
    }

    pub fn shm(&self) -> &CrashShm {
        &self.view
    }
}

/// The memory, mapped until this is dropped.
#[derive(Debug)]
struct View {
    at: *mut std::ffi::c_void,
}

// SAFETY: the mapping belongs to the process and not to a thread, and all in it is atomics.
unsafe impl Send for View {}
// SAFETY: as above.
unsafe impl Sync for View {}

impl View {
    fn map(memory: BorrowedFd<'_>) -> io::Result<Self> {
        use rustix::mm::{MapFlags, ProtFlags, mmap};
        let length = size_of::<CrashShm>();
        if rustix::fs::fstat(memory)?.st_size != i64::try_from(length).map_err(io::Error::other)? {
            return Err(io::Error::other("the shared memory has an unexpected size"));
        }
        // SAFETY: a new mapping, where the system likes it, of memory that is as long and sealed against being cut.
        let at = unsafe {
            mmap(std::ptr::null_mut(), length, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED, memory, 0)
        }?;
        Ok(Self { at })
    }
}

impl Deref for View {
    type Target = CrashShm;

    fn deref(&self) -> &CrashShm {
        // SAFETY: `at` is a live mapping of the size of a `CrashShm`, page-aligned, that ends with `self`. A `CrashShm`
        // is made of atomics alone, so any bytes are one and others may write it meanwhile.
        unsafe { &*self.at.cast::<CrashShm>() }
    }
}

impl Drop for View {
    fn drop(&mut self) {
        // SAFETY: what `of` has mapped, once; references into it have borrowed `self`.
        let _ = unsafe { rustix::mm::munmap(self.at, size_of::<CrashShm>()) };
    }
}

static LEDGER: OnceLock<View> = OnceLock::new();

/// The worker's own view; nothing in processes that have no supervisor.
pub(super) fn mine() -> Option<&'static CrashShm> {
    LEDGER.get().map(|view| &**view)
}

/// Takes what the supervisor handed over as the shared memory of this process.
///
/// # Errors
/// It cannot be mapped.
pub fn adopt(memory: OwnedFd) -> io::Result<()> {
    let view = View::map(File::from(memory).as_fd())?;
    LEDGER.set(view).map_err(|_| io::Error::other("the shared memory is already mapped"))
}

/// Says that this process ends because it wants to, when it is dropped.
pub struct ExitGuard;

impl Drop for ExitGuard {
    fn drop(&mut self) {
        if let Some(shm) = mine() {
            shm.leaving.store(1, Ordering::SeqCst);
        }
    }
}

/// The tag of a package: a page of its own, the same one whenever it is loaded again.
pub fn register(name: &str, version: &str, sha256: &str) -> PluginTag {
    static ALONE: Mutex<()> = Mutex::new(());
    let Some(shm) = mine() else { return PluginTag::NOBODY };
    let _alone = ALONE.lock();
    let known = shm.pages().position(|page| page.name.read() == name && page.sha256.read() == sha256);
    if let Some(page) = known {
        return PluginTag::from_page(page);
    }
    let Some(free) = shm.pages.iter().position(|page| page.used.load(Ordering::Acquire) == 0) else {
        tracing::warn!(
            plugin = name,
            "too many packages were loaded since the start: crashes of this one cannot be \
            attributed to it"
        );
        return PluginTag::NOBODY;
    };
    let page = &shm.pages[free];
    page.name.write(name.as_bytes());
    page.version.write(version.as_bytes());
    page.sha256.write(sha256.as_bytes());
    page.used.store(1, Ordering::Release);
    PluginTag::from_page(free)
}

/// Records where the package's library lies.
pub fn located(tag: PluginTag, at: Range<usize>) {
    if let Some(page) = mine().and_then(|shm| shm.page(tag)) {
        page.begin.store(at.start, Ordering::Relaxed);
        page.end.store(at.end, Ordering::Release);
    }
}

/// Records what the plugin's handlers are called, in the order of their numbers.
pub fn name_handlers(tag: PluginTag, names: impl Iterator<Item = String>) {
    if let Some(page) = mine().and_then(|shm| shm.page(tag)) {
        let lines: Vec<String> = names.map(|name| name.replace(['\n', '\0'], " ")).collect();
        let text = lines.join("\n");
        page.handlers.write(&text.as_bytes()[..text.len().min(HANDLERS)]);
    }
}

/// Whether two tags are of one plugin, in whatever version.
pub fn is_same_plugin(one: PluginTag, other: PluginTag) -> bool {
    one.page() == other.page() || plugin_name(one).is_some_and(|name| plugin_name(other) == Some(name))
}

/// The name of a tag's plugin.
pub fn plugin_name(tag: PluginTag) -> Option<String> {
    mine()?.page(tag).map(|page| page.name.read())
}

impl CrashShm {
    /// The pages in use, from the first.
    pub(super) fn pages(&self) -> impl Iterator<Item = &PluginSlot> {
        self.pages.iter().take_while(|page| page.used.load(Ordering::Acquire) != 0)
    }

    pub(super) fn page(&self, tag: PluginTag) -> Option<&PluginSlot> {
        self.pages.get(tag.page()?).filter(|page| page.used.load(Ordering::Acquire) != 0)
    }

    /// Whose library lies at an address: the tag, and how far into it. Of several packages with the same library the
    /// last one.
    pub(super) fn find_owner(&self, address: usize) -> Option<(PluginTag, usize)> {
        let mut owner = None;
        for (at, page) in self.pages().enumerate() {
            let begin = page.begin.load(Ordering::Relaxed);
            if begin != 0 && (begin..page.end.load(Ordering::Relaxed)).contains(&address) {
                owner = Some((PluginTag::from_page(at), address - begin));
            }
        }
        owner
    }

    /// What each thread runs that runs a plugin; with `own_alone`, of the host's own threads.
    pub(super) fn running(&self, own_alone: bool) -> impl Iterator<Item = PluginTag> {
        let counts = move |slot: &&Running| match slot.taken.load(Ordering::Acquire) {
            FREE => false,
            kind => !own_alone || kind == OWN_THREAD,
        };
        let tags =
            self.running.iter().filter(counts).map(|slot| PluginTag::from_bits(slot.tag.load(Ordering::Acquire)));
        tags.filter(|tag| tag.page().is_some())
    }

    /// The one plugin whose code runs, on whatever thread; none when there are several, or nobody's does.
    pub(super) fn only_running(&self) -> Option<PluginTag> {
        let mut running = self.running(false);
        let first = running.next()?;
        running.all(|other| other.page() == first.page()).then_some(first)
    }

    #[cfg(test)]
    pub(super) fn show_running(&self, slot: usize, tag: PluginTag) {
        self.running[slot].taken.store(FOREIGN_THREAD, Ordering::Release);
        self.running[slot].tag.store(tag.bits(), Ordering::Release);
    }

    /// The pages of instances that are there, with what each has under way.
    pub(super) fn under_way(&self) -> Vec<(&PluginSlot, usize)> {
        let counted = self.counts.iter().filter_map(|count| {
            let page = usize::try_from(count.page.load(Ordering::Acquire)).ok()?.checked_sub(1)?;
            Some((self.pages.get(page)?, count.calls.load(Ordering::Relaxed) & !CLOSED))
        });
        counted.collect()
    }
}

/// This thread's place in the shared memory, until the thread ends. None without shared memory, or when all are taken.
pub(super) struct RunningSlot(Option<&'static Running>);

const FREE: u32 = 0;
const FOREIGN_THREAD: u32 = 1;
const OWN_THREAD: u32 = 2;

impl RunningSlot {
    /// `is_own`: the thread is the host's own.
    pub(super) fn claim(is_own: bool) -> Self {
        let kind = if is_own { OWN_THREAD } else { FOREIGN_THREAD };
        let free =
            |slot: &&Running| slot.taken.compare_exchange(FREE, kind, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        Self(mine().and_then(|shm| shm.running.iter().find(free)))
    }

    /// What the thread shows.
    pub(super) fn shown(&self) -> PluginTag {
        self.0.map_or(PluginTag::NOBODY, |slot| PluginTag::from_bits(slot.tag.load(Ordering::Relaxed)))
    }

    /// Shows what the thread runs; gives what it showed before.
    pub(super) fn replace(&self, tag: PluginTag) -> PluginTag {
        let Some(slot) = self.0 else { return PluginTag::NOBODY };
        // This thread alone writes here.
        let before = slot.tag.load(Ordering::Relaxed);
        slot.tag.store(tag.bits(), Ordering::Release);
        PluginTag::from_bits(before)
    }
}

impl Drop for RunningSlot {
    fn drop(&mut self) {
        if let Some(slot) = self.0 {
            slot.tag.store(0, Ordering::Relaxed);
            slot.taken.store(FREE, Ordering::Release);
        }
    }
}

/// Of a count: nothing more may begin.
pub const CLOSED: usize = 1 << (usize::BITS - 1);

/// Where an instance counts what it has under way: in the shared memory when there is room.
pub enum InFlight {
    Seen(&'static Count),
    Unseen(AtomicUsize),
}

impl InFlight {
    pub fn from_tag(tag: PluginTag) -> Self {
        let taken = mine().zip(tag.page()).and_then(|(shm, page)| {
            let page = u32::try_from(page + 1).ok()?;
            shm.counts
                .iter()
                .find(|count| count.page.compare_exchange(0, page, Ordering::AcqRel, Ordering::Relaxed).is_ok())
        });
        match taken {
            Some(count) => {
                count.calls.store(0, Ordering::SeqCst);
                Self::Seen(count)
            }
            None => Self::default(),
        }
    }
}

impl Default for InFlight {
    fn default() -> Self {
        Self::Unseen(AtomicUsize::new(0))
    }
}

impl Deref for InFlight {
    type Target = AtomicUsize;

    fn deref(&self) -> &AtomicUsize {
        match self {
            Self::Seen(count) => &count.calls,
            Self::Unseen(calls) => calls,
        }
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        if let Self::Seen(count) = self {
            count.page.store(0, Ordering::Release);
        }
    }
}
