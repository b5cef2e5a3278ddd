//! Which parts of a library's file its loader maps. Symbols, debug information and the embedded package are never
//! looked at in a running process, and would be most of what every version leaves in memory for ever.

use std::ops::Range;

use cardinal_plugin_abi::section::PACKAGE_SECTION;
use object::{
    Endianness, elf,
    read::elf::{FileHeader as _, ProgramHeader as _, SectionHeader as _},
};

type File = elf::FileHeader64<Endianness>;

/// The kernel gives memory by pages; larger ones begin at multiples of this, too.
const PAGE: usize = 4096;

/// The parts, in whole pages and in order. All of it when it is not a library whose headers can be read.
pub(super) fn parts(bytes: &[u8]) -> Vec<Range<usize>> {
    pages(bytes).map_or_else(|| std::iter::once(0..bytes.len()).collect(), |pages| joined(&pages, bytes.len()))
}

/// For each page whether the loader maps it.
fn pages(bytes: &[u8]) -> Option<Vec<bool>> {
    let file = File::parse(bytes).ok()?;
    let endian = file.endian().ok()?;
    let segments = file.program_headers(endian, bytes).ok()?;
    let mut pages = vec![false; bytes.len().div_ceil(PAGE)];
    let table = usize::try_from(file.e_phoff(endian)).ok()?;
    let headers = [0..size_of::<File>(), table..table.checked_add(size_of_val(segments))?];
    let mapped = segments.iter().filter(|segment| segment.p_type(endian) == elf::PT_LOAD);
    let mapped = mapped.map(|segment| range(segment.p_offset(endian), segment.p_filesz(endian)));
    for part in headers.into_iter().map(Some).chain(mapped) {
        let part = part?;
        pages.get_mut(part.start / PAGE..part.end.div_ceil(PAGE))?.fill(true);
    }
    if let Some(package) = package(file, endian, bytes) {
        let (begin, end) = (package.start.div_ceil(PAGE), package.end / PAGE); // whole pages of it alone
        pages.get_mut(begin..end.max(begin))?.fill(false);
    }
    Some(pages)
}

fn package(file: &File, endian: Endianness, bytes: &[u8]) -> Option<Range<usize>> {
    let (_, section) = file.sections(endian, bytes).ok()?.section_by_name(endian, PACKAGE_SECTION.as_bytes())?;
    range(section.sh_offset(endian), section.sh_size(endian))
}

fn range(offset: u64, length: u64) -> Option<Range<usize>> {
    Some(usize::try_from(offset).ok()?..usize::try_from(offset.checked_add(length)?).ok()?)
}

fn joined(pages: &[bool], length: usize) -> Vec<Range<usize>> {
    let mut parts: Vec<Range<usize>> = Vec::new();
    for (page, _) in pages.iter().enumerate().filter(|(_, is_mapped)| **is_mapped) {
        let (begin, end) = (page * PAGE, ((page + 1) * PAGE).min(length));
        match parts.last_mut().filter(|last| last.end == begin) {
            Some(last) => last.end = end,
            None => parts.push(begin..end),
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn segments_are_kept_and_debug_information_is_not() {
        let program = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let parts = parts(&program);
        assert_eq!(parts[0].start, 0, "the file header");
        let kept: usize = parts.iter().map(Range::len).sum();
        assert!(kept < program.len() / 2, "{kept} of {}", program.len());
        let file = File::parse(&program[..]).unwrap();
        let endian = file.endian().unwrap();
        for segment in file.program_headers(endian, &program[..]).unwrap() {
            let Some(mapped) = range(segment.p_offset(endian), segment.p_filesz(endian)) else { panic!("a segment") };
            let is_kept = parts.iter().any(|part| part.start <= mapped.start && mapped.end <= part.end);
            assert!(segment.p_type(endian) != elf::PT_LOAD || is_kept, "{mapped:?} is in none of {parts:?}");
        }
    }

    #[test]
    fn what_is_not_a_library_is_kept_whole() {
        for bytes in [&b""[..], b"text", b"\x7fELF\x02\x01\x01 and nothing more"] {
            assert!(parts(bytes).into_iter().eq(std::iter::once(0..bytes.len())));
        }
    }

    #[test]
    fn pages_that_touch_are_one_part() {
        assert_eq!(joined(&[true, true, false, true], 3 * PAGE + 5), [0..2 * PAGE, 3 * PAGE..3 * PAGE + 5]);
        assert!(joined(&[], 0).is_empty());
    }
}
