//! What runs when this process is about to end by a fault: a signal handler and an exit handler that write into
//! the shared memory on whose behalf the thread was running, and let the end take its course.
//!
//! Everything that a handler does is safe in one: loads and stores of atomics, thread-local cells without a
//! destructor, and system calls. No lock, no allocation, no log.

use std::{
    ffi::{c_int, c_void},
    io,
    sync::{
        OnceLock,
        atomic::{AtomicU8, Ordering},
    },
};

use super::{
    current, descriptors,
    ending::who_changed_descriptors,
    shm::{self, CrashShm, flags},
    shown,
    tag::PluginTag,
};

/// The ends of a process that a fault in code can cause.
const SIGNALS: [c_int; 7] =
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGABRT, libc::SIGTRAP, libc::SIGSYS];
/// What else handled them before; Rust's own handler tells of stack overflows.
static BEFORE: OnceLock<[libc::sigaction; SIGNALS.len()]> = OnceLock::new();
/// A fault this near the stack pointer is one of the stack's end: the guard page, or what lies beyond.
const STACK_REACH: usize = 64 * 1024;
/// How much of the stack is looked through for the return addresses of a plugin, and how much at a time.
const SEARCHED: usize = 16 * 1024;
const WORDS: usize = 64;
/// The stack that a plugin's thread gets to have its overflow reported on.
const SIGNAL_STACK: usize = 32 * 1024;

/// Watches over this process from now on. Nothing is watched without shared memory.
///
/// # Errors
/// The system refuses a handler.
pub fn install() -> io::Result<()> {
    // SAFETY: a `sigaction` of zeros is one: the default action, no flags, an empty mask.
    let mut before = [unsafe { std::mem::zeroed::<libc::sigaction>() }; SIGNALS.len()];
    for (signal, before) in SIGNALS.iter().zip(&mut before) {
        // SAFETY: only asks; the out pointer is valid.
        check(unsafe { libc::sigaction(*signal, std::ptr::null(), before) })?;
    }
    BEFORE.set(before).map_err(|_| io::Error::other("the handlers are already installed"))?;
    // SAFETY: as above.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = on_signal as *const () as usize;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    for signal in SIGNALS {
        // SAFETY: `on_signal` has the signature that SA_SIGINFO asks for and does only what a handler may.
        check(unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) })?;
    }
    // SAFETY: `on_exit` is a function of this program, which is there until the process has ended.
    check(unsafe { libc::atexit(on_exit) })
}

fn check(outcome: c_int) -> io::Result<()> {
    if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

extern "C" fn on_signal(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: with SA_SIGINFO the kernel gives a valid `siginfo_t`.
    let code = unsafe { (*info).si_code };
    // Sent by somebody, `abort` of our own included, rather than raised by what the thread did.
    let sent = code <= 0;
    // SAFETY: as above; signals that were sent carry a sender. `getpid` may be called in a handler.
    let outside = sent && unsafe { (*info).si_pid() != libc::getpid() };
    if let Some(shm) = shm::mine() {
        let at = Registers::from_context(context);
        // SAFETY: as above; signals that the processor raised carry an address.
        let address = if sent { 0 } else { unsafe { (*info).si_addr() as usize } };
        let overflow = signal == libc::SIGSEGV && !sent && address.abs_diff(at.stack) < STACK_REACH;
        let mut seen = if outside { flags::OUTSIDE } else { 0 };
        seen |= if overflow { flags::STACK } else { 0 };
        record_end(shm, signal, seen, &at);
    }
    // No image of this process's memory, with its secrets and its customers' data, goes anywhere.
    // SAFETY: takes a number.
    unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0) };
    pass_on(signal, sent, info, context);
}

/// To whoever handled the signal before, else to its default: the end.
fn pass_on(signal: c_int, sent: bool, info: *mut libc::siginfo_t, context: *mut c_void) {
    let position = SIGNALS.iter().position(|known| *known == signal);
    let before = position.and_then(|at| BEFORE.get()?.get(at));
    if let Some(before) = before.filter(|before| {
        !sent
            && before.sa_flags & libc::SA_SIGINFO != 0
            && ![libc::SIG_DFL, libc::SIG_IGN].contains(&before.sa_sigaction)
    }) {
        // SAFETY: an installed action with SA_SIGINFO holds the address of a function of this signature.
        let handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) =
            unsafe { std::mem::transmute(before.sa_sigaction) };
        return handler(signal, info, context);
    }
    // SAFETY: both may be called in a handler. What the processor raised is raised again when this returns; what was
    // sent has to be sent again, and waits until then.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        if sent {
            libc::raise(signal);
        }
    }
}

extern "C" fn on_exit() {
    let Some(shm) = shm::mine() else { return };
    if shm.leaving.load(Ordering::SeqCst) == 0 {
        let here = AtomicU8::new(0);
        record_end(shm, 0, flags::EXIT, &Registers { code: 0, stack: here.as_ptr() as usize });
    }
}

fn record_end(shm: &CrashShm, signal: c_int, seen: u32, at: &Registers) {
    let end = &shm.end;
    if end.state.compare_exchange(0, 1, Ordering::SeqCst, Ordering::Relaxed).is_err() {
        return; // another thread was first, or this one is being ended by what handled it first
    }
    let (mut tag, mut offset) = culprit(shm, at);
    let mut seen = seen;
    if signal == libc::SIGABRT && !descriptors::are_whole() {
        // Whoever's descriptor is gone under its hands gives up, the host's own code or a thread of another plugin.
        // The one that closes them runs still.
        (tag, offset) = (who_changed_descriptors(shm, PluginTag::NOBODY), 0);
        seen |= flags::DESCRIPTORS;
    }
    end.signal.store(signal.unsigned_abs(), Ordering::Relaxed);
    end.flags.store(seen, Ordering::Relaxed);
    let mut name = [0_u8; 16];
    // SAFETY: this option writes at most 16 bytes to the buffer that it is given.
    unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) };
    end.thread.write(&name);
    end.tag.store(tag.bits(), Ordering::Relaxed);
    end.offset.store(offset as u64, Ordering::Relaxed);
    end.state.store(2, Ordering::SeqCst);
}

/// On whose behalf the thread ran, and where in its library, plus one.
fn culprit(shm: &CrashShm, at: &Registers) -> (PluginTag, usize) {
    let tag = current::tag();
    if let Some((owner, offset)) = shm.find_owner(at.code) {
        // The tag knows the handler; but code of one plugin may run for another (its wakers, its drops).
        let same = tag.page().is_some_and(|page| owner.page() == Some(page));
        return (if same { tag } else { owner }, offset + 1);
    }
    if tag != PluginTag::NOBODY || shown::is_ours() {
        return (tag, 0);
    }
    // A thread of nobody's: a plugin's own, in the C library. Who called there is on its stack.
    caller_on(at.stack, shm).map_or((PluginTag::NOBODY, 0), |(owner, offset)| (owner, offset + 1))
}

fn caller_on(stack: usize, shm: &CrashShm) -> Option<(PluginTag, usize)> {
    let mut words = [0_usize; WORDS];
    let start = stack & !(size_of::<usize>() - 1);
    for at in (start..start.saturating_add(SEARCHED)).step_by(size_of_val(&words)) {
        let read = copy(at, &mut words);
        let found = words[..read].iter().find_map(|word| shm.find_owner(*word));
        if found.is_some() || read < WORDS {
            return found;
        }
    }
    None
}

/// Reads memory that may end: through the kernel, which says so instead of sending a signal.
fn copy(from: usize, to: &mut [usize]) -> usize {
    let local = libc::iovec { iov_base: to.as_mut_ptr().cast(), iov_len: size_of_val(to) };
    let remote = libc::iovec { iov_base: from as *mut c_void, iov_len: size_of_val(to) };
    // SAFETY: writes to `to` alone, within its length; where nothing can be read from is an error.
    let read = unsafe { libc::process_vm_readv(libc::getpid(), &raw const local, 1, &raw const remote, 1, 0) };
    usize::try_from(read).unwrap_or(0) / size_of::<usize>()
}

/// Where a thread was.
struct Registers {
    code: usize,
    stack: usize,
}

impl Registers {
    #[cfg(target_arch = "x86_64")]
    fn from_context(context: *mut c_void) -> Self {
        // SAFETY: with SA_SIGINFO the kernel gives a valid `ucontext_t`.
        let registers = unsafe { &(*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
        let read = |register: c_int| usize::try_from(register).map_or(0, |at| registers[at] as usize);
        Self { code: read(libc::REG_RIP), stack: read(libc::REG_RSP) }
    }

    #[cfg(target_arch = "aarch64")]
    fn from_context(context: *mut c_void) -> Self {
        // SAFETY: as above.
        let machine = unsafe { &(*context.cast::<libc::ucontext_t>()).uc_mcontext };
        Self { code: machine.pc as usize, stack: machine.sp as usize }
    }

    /// Tags alone have to do.
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    fn from_context(_context: *mut c_void) -> Self {
        Self { code: 0, stack: 0 }
    }
}

thread_local! {
    static SIGNAL_STACK_OF_THIS_THREAD: std::cell::RefCell<Option<SignalStack>> =
        const { std::cell::RefCell::new(None) };
}

/// Gives this thread a stack for its last words, until it ends; without one an overflow of its own ends the process
/// before any handler could run. A thread that has one keeps it.
pub fn prepare_thread() {
    // A thread that is ending already has nowhere to keep one.
    let _ = SIGNAL_STACK_OF_THIS_THREAD.try_with(|kept| {
        let mut kept = kept.borrow_mut();
        if kept.is_none() {
            *kept = SignalStack::give();
        }
    });
}

struct SignalStack {
    memory: *mut c_void,
}

impl SignalStack {
    fn give() -> Option<Self> {
        use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
        // SAFETY: a `stack_t` of zeros is one; the first call only asks.
        let mut now: libc::stack_t = unsafe { std::mem::zeroed() };
        // SAFETY: the out pointer is valid.
        let result = unsafe { libc::sigaltstack(std::ptr::null(), &raw mut now) };
        if result != 0 || now.ss_flags & libc::SS_DISABLE == 0 {
            return None;
        }
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: new memory, where the system likes it.
        let memory =
            unsafe { mmap_anonymous(std::ptr::null_mut(), SIGNAL_STACK, access, MapFlags::PRIVATE | MapFlags::STACK) }
                .ok()?;
        let stack = libc::stack_t { ss_sp: memory, ss_flags: 0, ss_size: SIGNAL_STACK };
        // SAFETY: the memory is ours, readable and writable, and stays until `drop` has taken it out of use.
        let result = unsafe { libc::sigaltstack(&raw const stack, std::ptr::null_mut()) };
        let made = Self { memory };
        (result == 0).then_some(made)
    }
}

impl Drop for SignalStack {
    fn drop(&mut self) {
        let none = libc::stack_t { ss_sp: std::ptr::null_mut(), ss_flags: libc::SS_DISABLE, ss_size: SIGNAL_STACK };
        // SAFETY: the drop of a thread-local runs on its thread; from here on signals use the ordinary stack.
        unsafe { libc::sigaltstack(&raw const none, std::ptr::null_mut()) };
        // SAFETY: what `give` has mapped, once, and nothing uses it any more.
        let _ = unsafe { rustix::mm::munmap(self.memory, SIGNAL_STACK) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_of_descriptors_is_put_down_to_the_one_plugin_that_runs() {
        let shared = shm::Shared::new().unwrap();
        let (shm, one, other) = (shared.shm(), PluginTag::from_page(0), PluginTag::from_page(1));
        assert_eq!(who_changed_descriptors(shm, PluginTag::NOBODY), PluginTag::NOBODY, "nobody runs");
        shm.show_running(0, one.handler(2));
        shm.show_running(1, one.handler(4));
        assert_eq!(who_changed_descriptors(shm, one.handler(4)), one.handler(4));
        assert_eq!(who_changed_descriptors(shm, PluginTag::NOBODY).page(), one.page(), "seen by a thread of the host");
        assert_eq!(who_changed_descriptors(shm, other), PluginTag::NOBODY, "the one that looks does not run");
        shm.show_running(2, other.handler(0));
        for looking in [PluginTag::NOBODY, one.handler(4), other.handler(0)] {
            assert_eq!(who_changed_descriptors(shm, looking), PluginTag::NOBODY, "several run");
        }
    }
}
