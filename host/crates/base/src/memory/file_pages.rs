//! Pages of files that are mapped: the program's and those of libraries.

use std::{fs, io, ops::Range};

use parking_lot::Mutex;
use rustix::mm::{Advice, madvise};

/// Where libraries lie that are never unmapped.
static LIBRARIES: Mutex<Vec<Range<usize>>> = Mutex::new(Vec::new());

/// Notes where a library lies that is open, and that nobody ever unmaps.
pub fn stays_mapped(library: Range<usize>) {
    let mut libraries = LIBRARIES.lock();
    if !libraries.contains(&library) {
        libraries.push(library);
    }
}

/// Gives back all pages of this program and of libraries that stay but those that were written to, as the kernel does
/// when memory is short. What is still in use is mapped again from the file's cache, 64 KiB at a time.
pub(super) fn release() -> io::Result<()> {
    // Before the mappings: what is noted later may have been half mapped when they were read.
    let libraries = LIBRARIES.lock().clone();
    let maps = fs::read_to_string("/proc/self/smaps")?;
    let mappings: Vec<Mapping<'_>> = mappings(&maps).collect();
    let own = release as fn() -> io::Result<()> as usize;
    let own = mappings.iter().find(|mapping| (mapping.start..mapping.end).contains(&own));
    let own = own.ok_or_else(|| io::Error::other("the program's own mapping is not listed"))?;
    let stays = |mapping: &Mapping<'_>| {
        let is_inside = |library: &Range<usize>| library.start <= mapping.start && mapping.end <= library.end;
        mapping.file == own.file || libraries.iter().any(is_inside)
    };
    for mapping in mappings.iter().filter(|mapping| mapping.is_clean && stays(mapping)) {
        // SAFETY: the mapping is private and not writable, and none of its pages is another by relocation: they are the
        // file's, which nobody writes to. Whoever reads one again gets the same from the file. Nothing else is mapped
        // here meanwhile, since programs and these libraries are never unmapped.
        unsafe { madvise(mapping.start as *mut _, mapping.end - mapping.start, Advice::LinuxDontNeed) }?;
    }
    Ok(())
}

/// A mapping of a file.
struct Mapping<'a> {
    start: usize,
    end: usize,
    /// Device, inode and path.
    file: &'a str,
    /// Private, not writable, and without a page of its own.
    is_clean: bool,
}

fn mappings(smaps: &str) -> impl Iterator<Item = Mapping<'_>> {
    let is_head =
        |line: &&str| line.split_once(' ').is_some_and(|(range, _)| range.contains('-') && !range.ends_with(':'));
    let mut lines = smaps.lines().peekable();
    std::iter::from_fn(move || {
        let head = lines.next()?;
        let mut anonymous = None;
        while let Some(line) = lines.next_if(|line| !is_head(line)) {
            if let Some(size) = line.strip_prefix("Anonymous:") {
                anonymous = size.trim().split(' ').next().and_then(|size| size.parse::<u64>().ok());
            }
        }
        Some((head, anonymous))
    })
    .filter_map(|(head, anonymous)| {
        // Range, flags, offset; the rest names the file.
        let mut fields = head.splitn(4, ' ');
        let (start, end) = fields.next()?.split_once('-')?;
        let (flags, _offset) = (fields.next()?, fields.next()?);
        Some(Mapping {
            start: usize::from_str_radix(start, 16).ok()?,
            end: usize::from_str_radix(end, 16).ok()?,
            file: fields.next()?,
            is_clean: anonymous == Some(0) && flags.ends_with('p') && !flags.contains('w'),
        })
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// KiB of the program's code that are in memory.
    fn code_in_memory() -> u64 {
        let smaps = fs::read_to_string("/proc/self/smaps").unwrap();
        let program = std::env::current_exe().unwrap();
        let is_own_code = |line: &str| line.contains("r-xp") && line.ends_with(program.to_str().unwrap());
        let own = smaps.lines().position(is_own_code).unwrap();
        let rss = smaps.lines().skip(own).find_map(|line| line.strip_prefix("Rss:")).unwrap();
        rss.trim().trim_end_matches(" kB").parse().unwrap()
    }

    #[test]
    fn pages_of_the_program_go_and_come_back() {
        let before = code_in_memory();
        release().unwrap();
        let after = code_in_memory();
        assert!(after < before, "{before} KiB before, {after} after");
        // Constants and code are as they were.
        assert_eq!(format!("{:?}", mappings("").count()), "0");
    }

    #[test]
    fn written_pages_and_others_files_stay() {
        let smaps = "1000-3000 r--p 00000000 fe:01 7 /bin/x\nRss: 8 kB\nAnonymous:         4 kB\nVmFlags: rd\n\
            3000-4000 r-xp 00002000 fe:01 7 /bin/x\nAnonymous:         0 kB\n\
            4000-5000 rw-p 00003000 fe:01 7 /bin/x\nAnonymous:         0 kB\n";
        let clean: Vec<_> = mappings(smaps).map(|mapping| (mapping.start, mapping.is_clean)).collect();
        assert_eq!(clean, [(0x1000, false), (0x3000, true), (0x4000, false)]);
        assert!(mappings(smaps).all(|mapping| mapping.file.ends_with("7 /bin/x")));
    }
}
