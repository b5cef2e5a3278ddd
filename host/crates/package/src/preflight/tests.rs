use proptest::prelude::*;

use super::*;

/// A whole, minimal plugin library, made by hand: file header, two segments, a symbol table with
/// the header symbol, `.crd_hdr`, and a section table at the end.
fn library(header: &Header) -> Vec<u8> {
    Elf::default().build(Some(header))
}

fn to_bytes(header: &Header) -> Vec<u8> {
    let Header { magic, format, api, minor, panic, flags, reserved, layout_hash, target } = header;
    [&magic[..], format, api, minor, panic, flags, reserved, layout_hash, target].concat()
}

struct Elf {
    kind: u16,
    machine: u16,
    symbol: &'static [u8],
    defined: u16,
}

impl Default for Elf {
    fn default() -> Self {
        let symbol = ENTRY_SYMBOL.as_bytes();
        Self { kind: 3, machine: find_machine(std::env::consts::ARCH).unwrap(), symbol, defined: 1 }
    }
}

impl Elf {
    fn build(&self, header: Option<&Header>) -> Vec<u8> {
        let strings = [b"\0", self.symbol, b"\0"].concat();
        let names: &[u8] = b"\0.dynsym\0.dynstr\0.crd_hdr\0.shstrtab\0";
        let mut symbols = vec![0u8; 24];
        symbols.extend([&1u32.to_le_bytes()[..], &[0x11, 0], &self.defined.to_le_bytes(), &[0; 16]].concat());
        let header: Vec<u8> = header.map(to_bytes).unwrap_or_default();
        let mut at = 64 + 2 * 56;
        let mut place = |data: &[u8]| {
            let offset = at;
            at += data.len();
            offset
        };
        let places = [place(&symbols), place(&strings), place(&header), place(names)];
        let table = at;
        let size = table + 5 * 64;

        let mut out = Vec::new();
        out.extend(*b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0");
        out.extend([self.kind.to_le_bytes(), self.machine.to_le_bytes()].concat());
        out.extend(1u32.to_le_bytes());
        out.extend([0u64, 64, table as u64].map(u64::to_le_bytes).concat());
        out.extend(0u32.to_le_bytes());
        out.extend([64u16, 56, 2, 64, 5, 4].map(u16::to_le_bytes).concat());
        for (kind, length) in [(1u32, size), (2, 64)] {
            out.extend([kind.to_le_bytes(), 4u32.to_le_bytes()].concat());
            out.extend([0, 0, 0, length as u64, length as u64, 8].map(u64::to_le_bytes).concat());
        }
        for data in [&symbols[..], &strings, &header, names] {
            out.extend(data);
        }
        let lengths = [symbols.len(), strings.len(), header.len(), names.len()];
        out.extend([0; 64]);
        for (i, (name, kind, link, entry)) in
            [(1u32, 11u32, 2u32, 24u64), (9, 3, 0, 0), (17, 1, 0, 0), (26, 3, 0, 0)].into_iter().enumerate()
        {
            out.extend([name.to_le_bytes(), kind.to_le_bytes()].concat());
            out.extend([0, 0, places[i] as u64, lengths[i] as u64].map(u64::to_le_bytes).concat());
            out.extend([link.to_le_bytes(), 1u32.to_le_bytes()].concat());
            out.extend([8, entry].map(u64::to_le_bytes).concat());
        }
        assert_eq!(out.len(), size);
        out
    }
}

fn code(bytes: &[u8]) -> Code {
    check(bytes).unwrap_err().code
}

#[test]
fn a_plugin_library_passes() {
    let checked = check(&library(&Header::of_this_build())).map(|checked| checked.header);
    assert_eq!(checked, Ok(Header::of_this_build()));
}

#[test]
fn other_files_are_called_by_their_name() {
    assert_eq!(code(b""), Code::NotAPlugin);
    let text = check(b"hello, this is not a library\n").unwrap_err();
    assert_eq!(text.code, Code::NotAPlugin);
    assert!(text.found.unwrap().contains("hello"));
    assert_eq!(code(b"MZ\x90\0"), Code::WrongPlatform);
    assert_eq!(code(&[0xcf, 0xfa, 0xed, 0xfe, 0, 0]), Code::WrongPlatform);
    assert_eq!(code(&Elf { kind: 2, ..Elf::default() }.build(None)), Code::NotAPlugin);
}

#[test]
fn another_machine_is_named() {
    let foreign = check(&Elf { machine: 8, ..Elf::default() }.build(None)).unwrap_err();
    assert_eq!(foreign.code, Code::WrongArchitecture);
    assert_eq!(foreign.expected.as_deref(), Some(std::env::consts::ARCH));
    assert_eq!(foreign.found.as_deref(), Some("mips (64 bit)"));
}

#[test]
fn a_library_cut_anywhere_is_refused_and_never_passes() {
    let whole = library(&Header::of_this_build());
    for end in 4..whole.len() {
        assert_eq!(code(&whole[..end]), Code::Truncated, "cut at {end}");
    }
}

#[test]
fn a_library_without_the_header_symbol_is_not_a_plugin() {
    let header = Header::of_this_build();
    assert_eq!(code(&Elf { symbol: b"something_else", ..Elf::default() }.build(Some(&header))), Code::NotAPlugin);
    assert_eq!(code(&Elf { defined: 0, ..Elf::default() }.build(Some(&header))), Code::NotAPlugin, "only imported");
    assert_eq!(code(&Elf::default().build(None)), Code::NotAPlugin, "no header section");
}

#[test]
fn what_the_header_says_is_held_against_the_host() {
    let good = Header::of_this_build();
    assert_eq!(code(&library(&Header { panic: PANIC_ABORT.to_le_bytes(), ..good })), Code::PanicAbort);
    assert_eq!(code(&library(&Header { panic: 9u32.to_le_bytes(), ..good })), Code::PanicAbort);
    assert_eq!(code(&library(&Header { api: 2u32.to_le_bytes(), ..good })), Code::UnsupportedApiVersion);
    assert_eq!(code(&library(&Header { format: 7u32.to_le_bytes(), ..good })), Code::LayoutMismatch);
    let another = (LAYOUT_HASH ^ 1).to_le_bytes();
    assert_eq!(code(&library(&Header { layout_hash: another, ..good })), Code::LayoutMismatch);
    assert_eq!(code(&library(&Header { flags: 1u32.to_le_bytes(), ..good })), Code::FeatureMissing);
    let later = Header { flags: (1u32 << 16).to_le_bytes(), minor: [9, 0, 0, 0], reserved: [1; 4], ..good };
    assert!(check(&library(&later)).is_ok(), "a later minor version, with what may be ignored");
    let mut target = [0; cardinal_plugin_abi::section::TARGET];
    target[..16].copy_from_slice(b"x86_64-linux-mus");
    assert_eq!(code(&library(&Header { target, ..good })), Code::WrongPlatform);
}

/// A library as compilers make them, to be damaged.
fn real() -> Vec<u8> {
    let own = std::fs::read("/proc/self/exe").unwrap();
    own[..own.len().min(1 << 20)].to_vec()
}

proptest! {
    #[test]
    fn any_bytes_get_a_verdict(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = check(&bytes);
        let _ = check(&[ELF_MAGIC, &bytes].concat());
    }

    /// Damage anywhere: a verdict, never a panic; and what passes lies within the file.
    #[test]
    fn damaged_libraries_get_a_verdict(
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..12),
        cut in any::<prop::sample::Index>()
    ) {
        let mut bytes = library(&Header::of_this_build());
        for (at, value) in damage {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        let _ = check(&bytes);
        bytes.truncate(cut.index(bytes.len()));
        let _ = check(&bytes);
    }
}

#[test]
fn a_real_file_that_is_cut_or_damaged_gets_a_verdict() {
    let whole = real();
    assert!(check(&whole).is_err(), "a program is no plugin");
    let mut bytes = whole.clone();
    for at in (0..4096).step_by(3) {
        bytes[at] ^= 0x5a;
        let _ = check(&bytes);
        bytes[at] = whole[at];
    }
}
