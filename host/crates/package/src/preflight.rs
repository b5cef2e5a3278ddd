//! Judging a library by its bytes, before any of its code can run. Pure.
//!
//! `dlopen` believes what a file says about itself: one that is cut short kills the process with
//! SIGBUS. So everything that the loader will rely on is looked at here first. What only running it
//! can tell (constructors that abort or hang) is for `probe`.

use cardinal_plugin_abi::{
    API_VERSION, LAYOUT_HASH,
    entry::ENTRY_SYMBOL,
    section::{
        FLAGS_REQUIRED, HEADER_FORMAT, HEADER_SECTION, Header, PACKAGE_LIMIT, PACKAGE_SECTION, PANIC_ABORT,
        PANIC_UNWIND,
    },
};
use object::{
    Endianness, elf,
    read::elf::{FileHeader as _, ProgramHeader as _, SectionHeader as _, Sym as _},
};

use super::refusal::{Code, Refusal};
use cardinal_base::hex::hex;

type File = elf::FileHeader64<Endianness>;

const ELF_MAGIC: &[u8] = b"\x7fELF";
const ELF_HEADER: usize = 64;
/// Mach-O, in both byte orders and widths, and its universal form.
const MACH_MAGICS: [[u8; 4]; 5] = [
    [0xfe, 0xed, 0xfa, 0xce],
    [0xfe, 0xed, 0xfa, 0xcf],
    [0xce, 0xfa, 0xed, 0xfe],
    [0xcf, 0xfa, 0xed, 0xfe],
    [0xca, 0xfe, 0xba, 0xbe],
];
/// How many bytes of something else are shown.
const MAX_SHOWN_BYTES: usize = 16;

/// What a library that may be tried says about itself.
#[derive(Clone, Copy, Debug)]
pub struct LibraryContents<'a> {
    pub header: Header,
    /// The embedded package, not yet read.
    pub package: Option<&'a [u8]>,
}

/// Looks at everything that can be looked at without running it.
pub fn check(bytes: &[u8]) -> Result<LibraryContents<'_>, Refusal> {
    check_format(bytes)?;
    check_machine(bytes)?;
    let file = File::parse(bytes).map_err(|_| truncated("its file header is damaged"))?;
    let endian = file.endian().map_err(|_| truncated("its file header is damaged"))?;
    if file.e_type(endian) != elf::ET_DYN {
        return Err(not_a_plugin("The file is a program or an object file, not a shared library.")
            .expected("an ELF file of the type ET_DYN")
            .found(format!("ELF type {:?}", file.e_type(endian))));
    }
    check_segments(file, endian, bytes)?;
    let sections = file.sections(endian, bytes).map_err(|_| truncated("its section table lies behind its end"))?;
    if sections.is_empty() {
        return Err(not_a_plugin(
            "The library has no section table, so nothing in it can be found without running it.",
        )
        .expected("a section table")
        .found("none")
        .fix("Strip the library with `strip`, `strip = true` or `cardinal plugin pack`; all of them keep the table."));
    }
    let symbols =
        sections.symbols(endian, bytes, elf::SHT_DYNSYM).map_err(|_| truncated("its symbols cannot be read"))?;
    let exported = |symbol: &elf::Sym64<Endianness>| {
        let name = symbol.name(endian, symbols.strings());
        symbol.st_shndx(endian) != elf::SHN_UNDEF && name.is_ok_and(|name| name == ENTRY_SYMBOL.as_bytes())
    };
    if !symbols.iter().any(exported) {
        return Err(not_a_plugin("The library does not export the plugin entry.")
            .expected(format!("the symbol {ENTRY_SYMBOL}"))
            .found("a library without it"));
    }
    let section = |name: &str| {
        let found = sections.section_by_name(endian, name.as_bytes());
        found.map(|(_, section)| {
            section.data(endian, bytes).map_err(|_| truncated("one of its sections lies behind its end"))
        })
    };
    let header = section(HEADER_SECTION).transpose()?.and_then(Header::read).ok_or_else(|| {
        not_a_plugin("The library does not say which plugin API it was built for.")
            .expected(format!("a section {HEADER_SECTION}"))
            .found("a library without it")
    })?;
    check_header(&header)?;
    let package = section(PACKAGE_SECTION).transpose()?;
    if let Some(length) = package.map(<[u8]>::len).filter(|length| *length > PACKAGE_LIMIT) {
        return Err(Refusal::new(Code::TooLarge, "The package inside the library is too large.")
            .expected(format!("at most {PACKAGE_LIMIT} bytes"))
            .found(format!("{length} bytes")));
    }
    Ok(LibraryContents { header, package })
}

/// The embedded package of a library that may be unfit to be loaded.
pub fn embedded_package(bytes: &[u8]) -> Option<&[u8]> {
    let file = File::parse(bytes).ok()?;
    let endian = file.endian().ok()?;
    let (_, section) = file.sections(endian, bytes).ok()?.section_by_name(endian, PACKAGE_SECTION.as_bytes())?;
    section.data(endian, bytes).ok().filter(|package| package.len() <= PACKAGE_LIMIT)
}

/// Whether it is an ELF file at all; if not, what else it is.
fn check_format(bytes: &[u8]) -> Result<(), Refusal> {
    if bytes.starts_with(ELF_MAGIC) {
        return if bytes.len() < ELF_HEADER { Err(truncated("it has no whole file header")) } else { Ok(()) };
    }
    let foreign = if bytes.starts_with(b"MZ") {
        Some("Windows")
    } else if MACH_MAGICS.iter().any(|magic| bytes.starts_with(magic)) {
        Some("macOS")
    } else {
        None
    };
    match foreign {
        Some(system) => Err(Refusal::new(Code::WrongPlatform, format!("The file is a library for {system}."))
            .expected("a Linux shared library (ELF)")
            .found(format!("a file in the format of {system}"))),
        None => Err(not_a_plugin("The file is not a shared library.").expected("an ELF file").found(looks_like(bytes))),
    }
}

fn looks_like(bytes: &[u8]) -> String {
    match bytes.get(..MAX_SHOWN_BYTES.min(bytes.len())).unwrap_or_default() {
        [] => "an empty file".to_owned(),
        start if start.iter().all(|b| b.is_ascii_graphic() || b.is_ascii_whitespace()) => {
            format!("text that begins with {:?}", String::from_utf8_lossy(start))
        }
        start => format!("a file that begins with the bytes {}", hex(start)),
    }
}

/// Whether it is for this kind of machine. Reads the raw header: foreign files need not parse.
fn check_machine(bytes: &[u8]) -> Result<(), Refusal> {
    let wide = bytes.get(4) == Some(&elf::ELFCLASS64.0);
    let little = bytes.get(5) == Some(&elf::ELFDATA2LSB.0);
    let machine = match bytes.get(18..20) {
        Some(&[a, b]) if little => u16::from_le_bytes([a, b]),
        Some(&[a, b]) => u16::from_be_bytes([a, b]),
        _ => return Err(truncated("it has no whole file header")),
    };
    let here = find_machine(std::env::consts::ARCH);
    if wide && little == cfg!(target_endian = "little") && here == Some(machine) {
        return Ok(());
    }
    let bits = if wide { 64 } else { 32 };
    Err(Refusal::new(Code::WrongArchitecture, "The library was built for another kind of machine.")
        .expected(std::env::consts::ARCH)
        .found(format!("{} ({bits} bit)", machine_name(machine))))
}

/// The ELF numbers of the machines that Rust calls so.
const MACHINES: [(u16, &str); 9] = [
    (62, "x86_64"),
    (183, "aarch64"),
    (243, "riscv64"),
    (22, "s390x"),
    (21, "powerpc64"),
    (258, "loongarch64"),
    (3, "x86"),
    (40, "arm"),
    (8, "mips"),
];

fn find_machine(arch: &str) -> Option<u16> {
    MACHINES.iter().find(|(_, name)| *name == arch).map(|(number, _)| *number)
}

fn machine_name(machine: u16) -> String {
    let known = MACHINES.iter().find(|(number, _)| *number == machine);
    known.map_or_else(|| format!("machine {machine}"), |(_, name)| (*name).to_owned())
}

/// Everything that will be mapped must be there.
fn check_segments(file: &File, endian: Endianness, bytes: &[u8]) -> Result<(), Refusal> {
    let segments =
        file.program_headers(endian, bytes).map_err(|_| truncated("its program headers lie behind its end"))?;
    let (mut loads, mut dynamic) = (false, false);
    for segment in segments {
        let kind = segment.p_type(endian);
        if kind != elf::PT_LOAD && kind != elf::PT_DYNAMIC {
            continue;
        }
        let (offset, length) = (segment.p_offset(endian), segment.p_filesz(endian));
        let end = offset.checked_add(length).ok_or_else(|| truncated("one of its segments has no end"))?;
        if end > bytes.len() as u64 {
            return Err(truncated("one of its segments lies behind its end")
                .expected(format!("at least {end} bytes"))
                .found(format!("{} bytes", bytes.len())));
        }
        if length > segment.p_memsz(endian) {
            return Err(truncated("one of its segments is larger in the file than in memory"));
        }
        loads |= kind == elf::PT_LOAD;
        dynamic |= kind == elf::PT_DYNAMIC;
    }
    if loads && dynamic {
        return Ok(());
    }
    Err(not_a_plugin("The file has nothing that could be loaded.").expected("an ELF segment to load").found("none"))
}

fn check_header(header: &Header) -> Result<(), Refusal> {
    let format = u32::from_le_bytes(header.format);
    if format != HEADER_FORMAT {
        return Err(Refusal::new(Code::LayoutMismatch, "The library's plugin header has another format.")
            .expected(format!("format {HEADER_FORMAT}"))
            .found(format!("format {format}")));
    }
    let api = u32::from_le_bytes(header.api);
    if api != API_VERSION {
        return Err(Refusal::new(Code::UnsupportedApiVersion, "The library was built for another plugin API.")
            .expected(format!("plugin API {API_VERSION}"))
            .found(format!("plugin API {api}")));
    }
    let hash = u64::from_le_bytes(header.layout_hash);
    if hash != LAYOUT_HASH {
        return Err(Refusal::new(
            Code::LayoutMismatch,
            "The library was built against another layout of the plugin API.",
        )
        .expected(format!("the layouts {LAYOUT_HASH:016x}"))
        .found(format!("{hash:016x}")));
    }
    let unknown = u32::from_le_bytes(header.flags) & FLAGS_REQUIRED;
    if unknown != 0 {
        return Err(Refusal::new(Code::FeatureMissing, "The library needs a feature that this host does not have.")
            .expected("no unknown flags that must be understood")
            .found(format!("the flags {unknown:#06x}")));
    }
    match u32::from_le_bytes(header.panic) {
        PANIC_UNWIND => {}
        PANIC_ABORT => {
            return Err(Refusal::new(Code::PanicAbort, "A panic in this library would end the whole host.")
                .expected("panic = \"unwind\"")
                .found("panic = \"abort\""));
        }
        other => {
            return Err(Refusal::new(Code::PanicAbort, "The library does not say what a panic does in it.")
                .expected("panic = \"unwind\"")
                .found(format!("panic strategy {other}")));
        }
    }
    let (ours, theirs) = (Header::of_this_build().target_text(), header.target_text());
    if ours != theirs {
        return Err(Refusal::new(Code::WrongPlatform, "The library was built for another system.")
            .expected(ours)
            .found(theirs));
    }
    Ok(())
}

fn truncated(what: &str) -> Refusal {
    Refusal::new(Code::Truncated, format!("The library is damaged or incomplete: {what}."))
        .expected("a whole library")
        .found("a part of one")
}

fn not_a_plugin(reason: &str) -> Refusal {
    Refusal::new(Code::NotAPlugin, reason)
}

#[cfg(test)]
mod tests;
