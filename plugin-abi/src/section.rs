//! What a library carries in two sections of its file, so that a host can judge it without running it.
//!
//! Both are found by section name and read by file offset alone; they survive LTO and strip. A host reads them before
//! it trusts the file, so every reader here takes any bytes and never panics. Integers are little-endian.
//!
//! ```
//! use cardinal_plugin_abi::section::{package_size, read_package, write_package};
//!
//! const FILES: &[(&str, &[u8])] = &[("manifest.json", b"{}"), ("frontend/plugin.js", b"export {}")];
//! static SECTION: [u8; package_size(FILES)] = write_package(FILES);
//! assert_eq!(read_package(&SECTION).unwrap(), FILES);
//! ```

use std::collections::HashSet;

/// The name of the section with the [`Header`].
pub const HEADER_SECTION: &str = ".crd_hdr";
/// The name of the section with the embedded package: manifest.json, schema.sql, frontend files.
pub const PACKAGE_SECTION: &str = ".crd_pkg";
/// The first bytes of [`HEADER_SECTION`].
pub const HEADER_MAGIC: [u8; 8] = *b"CRDPLUG\n";
/// The first bytes of [`PACKAGE_SECTION`].
pub const PACKAGE_MAGIC: [u8; 8] = *b"CRDPKG1\n";
/// The layout of [`Header`] itself.
pub const HEADER_FORMAT: u32 = 1;
/// The largest [`PACKAGE_SECTION`] that a host reads: 64 MiB.
pub const PACKAGE_LIMIT: usize = 64 << 20;
/// The most files of a package.
pub const PACKAGE_FILES: usize = 4096;
/// [`Header::panic`]: panics unwind, so that they can be contained.
pub const PANIC_UNWIND: u32 = 1;
/// [`Header::panic`]: panics abort; such a library is refused.
pub const PANIC_ABORT: u32 = 2;

/// The half of [`Header::flags`] that a host must know to load the library.
pub const FLAGS_REQUIRED: u32 = 0x0000_ffff;

/// The fixed 64 bytes of [`HEADER_SECTION`]. They are as frozen as `layout.txt`.
///
/// ```
/// use cardinal_plugin_abi::{API_VERSION, section::{Header, PANIC_UNWIND}};
///
/// let header = Header::of_this_build();
/// assert_eq!(u32::from_le_bytes(header.api), API_VERSION);
/// assert_eq!(u32::from_le_bytes(header.panic), PANIC_UNWIND);
/// assert!(Header::read(b"\x7fELF").is_none());
/// ```
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// [`HEADER_MAGIC`].
    pub magic: [u8; 8],
    /// [`HEADER_FORMAT`], little-endian.
    pub format: [u8; 4],
    /// [`crate::API_VERSION`], little-endian.
    pub api: [u8; 4],
    /// [`crate::API_MINOR`], little-endian.
    pub minor: [u8; 4],
    /// [`PANIC_UNWIND`] or [`PANIC_ABORT`], little-endian.
    pub panic: [u8; 4],
    /// Little-endian. None is known yet. A host refuses a library with one of [`FLAGS_REQUIRED`] that it does not
    /// know, and ignores the others.
    pub flags: [u8; 4],
    /// Zeros.
    pub reserved: [u8; 4],
    /// [`crate::LAYOUT_HASH`], little-endian.
    pub layout_hash: [u8; 8],
    /// `arch-os-env`, ASCII, padded with zeros.
    pub target: [u8; TARGET],
}

/// The room of [`Header::target`].
pub const TARGET: usize = 24;

impl Header {
    /// Makes the header of the library that is being compiled. It is right in the plugin's own crate only: target and
    /// panic strategy are those of the compilation that evaluates it.
    ///
    /// ```
    /// use cardinal_plugin_abi::section::{HEADER_MAGIC, Header};
    ///
    /// static HEADER: Header = Header::of_this_build(); // in a library with `#[unsafe(link_section = ".crd_hdr")]`
    /// assert_eq!(HEADER.magic, HEADER_MAGIC);
    /// ```
    pub const fn of_this_build() -> Self {
        let panic = if cfg!(panic = "unwind") { PANIC_UNWIND } else { PANIC_ABORT };
        Self {
            magic: HEADER_MAGIC,
            format: HEADER_FORMAT.to_le_bytes(),
            api: crate::API_VERSION.to_le_bytes(),
            minor: crate::API_MINOR.to_le_bytes(),
            panic: panic.to_le_bytes(),
            flags: [0; 4],
            reserved: [0; 4],
            layout_hash: crate::LAYOUT_HASH.to_le_bytes(),
            target: target(),
        }
    }

    /// Reads a section; `None` when it is not such a header: shorter than 64 bytes, or without the magic. The caller
    /// judges format and API.
    ///
    /// ```
    /// use cardinal_plugin_abi::section::{HEADER_MAGIC, Header};
    ///
    /// let mut section = [0; 64];
    /// section[..8].copy_from_slice(&HEADER_MAGIC);
    /// assert!(Header::read(&section).is_some_and(|header| header.api == [0; 4]));
    /// assert!(Header::read(&section[..63]).is_none());
    /// ```
    pub fn read(section: &[u8]) -> Option<Self> {
        let bytes: &[u8; 64] = section.get(..64)?.try_into().ok()?;
        let (magic, rest) = bytes.split_first_chunk()?;
        let (format, rest) = rest.split_first_chunk()?;
        let (api, rest) = rest.split_first_chunk()?;
        let (minor, rest) = rest.split_first_chunk()?;
        let (panic, rest) = rest.split_first_chunk()?;
        let (flags, rest) = rest.split_first_chunk()?;
        let (reserved, rest) = rest.split_first_chunk()?;
        let (layout_hash, rest) = rest.split_first_chunk()?;
        let header = Self {
            magic: *magic,
            format: *format,
            api: *api,
            minor: *minor,
            panic: *panic,
            flags: *flags,
            reserved: *reserved,
            layout_hash: *layout_hash,
            target: rest.try_into().ok()?,
        };
        (header.magic == HEADER_MAGIC).then_some(header)
    }

    /// Returns the target as text, up to its first zero. What is not UTF-8 is replaced.
    ///
    /// ```
    /// use cardinal_plugin_abi::section::Header;
    ///
    /// let target = Header::of_this_build().target_text(); // `x86_64-linux-gnu`
    /// assert!(target.starts_with(std::env::consts::ARCH));
    /// ```
    pub fn target_text(&self) -> String {
        let end = self.target.iter().position(|byte| *byte == 0).unwrap_or(self.target.len());
        String::from_utf8_lossy(&self.target[..end]).into_owned()
    }
}

/// FNV-1a of 64 bits.
pub(crate) const fn hash(bytes: &[u8]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut i = 0;
    while i < bytes.len() {
        hash = (hash ^ bytes[i] as u64).wrapping_mul(0x0000_0100_0000_01b3);
        i += 1;
    }
    hash
}

/// A number in decimal digits.
pub(crate) const fn decimal(text: &str) -> u32 {
    let (digits, mut number, mut i) = (text.as_bytes(), 0, 0);
    while i < digits.len() {
        assert!(digits[i].is_ascii_digit(), "a decimal number");
        number = number * 10 + (digits[i] - b'0') as u32;
        i += 1;
    }
    number
}

const fn target() -> [u8; TARGET] {
    let parts = [std::env::consts::ARCH, "-", std::env::consts::OS, "-", ENV];
    let mut out = [0; TARGET];
    let (mut at, mut part) = (0, 0);
    while part < parts.len() {
        let bytes = parts[part].as_bytes();
        let mut i = 0;
        assert!(at + bytes.len() <= out.len(), "the target's name fits into the header");
        while i < bytes.len() {
            out[at] = bytes[i];
            at += 1;
            i += 1;
        }
        part += 1;
    }
    out
}

const ENV: &str = if cfg!(target_env = "gnu") {
    "gnu"
} else if cfg!(target_env = "musl") {
    "musl"
} else if cfg!(target_env = "msvc") {
    "msvc"
} else {
    "unknown"
};

/// Returns the number of bytes that [`write_package`] needs: its `N`.
///
/// ```
/// use cardinal_plugin_abi::section::package_size;
///
/// assert_eq!(package_size(&[("manifest.json", b"{}")]), 12 + 8 + 13 + 2);
/// ```
pub const fn package_size(files: &[(&str, &[u8])]) -> usize {
    let mut size = 12;
    let mut i = 0;
    while i < files.len() {
        size += 8 + files[i].0.len() + files[i].1.len();
        i += 1;
    }
    size
}

/// Lays out [`PACKAGE_SECTION`] at compile time: magic, `count: u32`, and for each file
/// `{name_length: u32, data_length: u32, name, data}`. Nothing is compressed or aligned.
///
/// ```
/// use cardinal_plugin_abi::section::{PACKAGE_MAGIC, package_size, write_package};
///
/// const FILES: &[(&str, &[u8])] = &[("manifest.json", b"{}")];
/// static SECTION: [u8; package_size(FILES)] = write_package(FILES);
/// assert!(SECTION.starts_with(&PACKAGE_MAGIC));
/// ```
///
/// # Panics
/// When `N` is less than [`package_size`] says, which stops the compilation. Names are the author's to keep plain: a
/// host refuses others ([`read_package`]).
pub const fn write_package<const N: usize>(files: &[(&str, &[u8])]) -> [u8; N] {
    let mut out = [0; N];
    let mut at = copy(&mut out, 0, &PACKAGE_MAGIC);
    at = copy(&mut out, at, &(files.len() as u32).to_le_bytes());
    let mut i = 0;
    while i < files.len() {
        let (name, data) = files[i];
        at = copy(&mut out, at, &(name.len() as u32).to_le_bytes());
        at = copy(&mut out, at, &(data.len() as u32).to_le_bytes());
        at = copy(&mut out, at, name.as_bytes());
        at = copy(&mut out, at, data);
        i += 1;
    }
    out
}

const fn copy<const N: usize>(out: &mut [u8; N], at: usize, from: &[u8]) -> usize {
    let (_, rest) = out.split_at_mut(at);
    let (room, _) = rest.split_at_mut(from.len());
    room.copy_from_slice(from);
    at + from.len()
}

/// Whether a name stays below the folder that it is put in, on any system.
fn is_plain(name: &str) -> bool {
    let legal = |part: &str| !matches!(part, "" | "." | "..") && !part.contains(['\\', ':', '\0']);
    name.split('/').all(legal)
}

/// Why a section is not a package. Its `Display` says what was found in its place.
///
/// ```
/// use cardinal_plugin_abi::section::{SectionError, read_package};
///
/// let found = read_package(b"\x7fELF").unwrap_err();
/// assert_eq!(found, SectionError::Magic);
/// assert_eq!(found.to_string(), "something that does not begin as a package does");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SectionError {
    /// It does not begin with [`PACKAGE_MAGIC`].
    Magic,
    /// It ends before what it announces does.
    Cut,
    /// It announces more than [`PACKAGE_FILES`] files.
    TooMany(u32),
    /// A name is not UTF-8, or not plain and relative; shown with replacements, and not whole if long.
    Name(String),
    /// Two files have this name.
    Twice(String),
    /// Something else than zeros follows the last file: more than one package was linked in.
    Trailing,
}

impl std::fmt::Display for SectionError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Magic => f.write_str("something that does not begin as a package does"),
            Self::Cut => f.write_str("a package that ends too early"),
            Self::TooMany(count) => write!(f, "{count} files, of which at most {PACKAGE_FILES} are read"),
            Self::Name(name) => write!(f, "the name {name:?}, which is not plain and relative"),
            Self::Twice(name) => write!(f, "two files with the name {name:?}"),
            Self::Trailing => f.write_str("something behind the last file"),
        }
    }
}

impl std::error::Error for SectionError {}

/// How much of a bad name is shown.
const SHOWN: usize = 100;

/// Returns the files of a package section, in its order. Each name is plain, relative and there once.
///
/// Nothing is copied: what is returned lies within `section`, whatever lengths that announces. The sizes of single
/// files are the caller's to check.
///
/// ```
/// use cardinal_plugin_abi::section::{SectionError, package_size, read_package, write_package};
///
/// const FILES: &[(&str, &[u8])] = &[("manifest.json", b"{}")];
/// const SECTION: [u8; package_size(FILES)] = write_package(FILES);
/// assert_eq!(read_package(&SECTION).unwrap(), FILES);
/// assert_eq!(read_package(&SECTION[..20]), Err(SectionError::Cut));
/// ```
///
/// # Errors
/// The section is not such a package: see [`SectionError`].
pub fn read_package(section: &[u8]) -> Result<Vec<(&str, &[u8])>, SectionError> {
    let rest = section.strip_prefix(&PACKAGE_MAGIC).ok_or(SectionError::Magic)?;
    let (count, mut rest) = number(rest)?;
    if count as usize > PACKAGE_FILES {
        return Err(SectionError::TooMany(count));
    }
    let mut files = Vec::new();
    let mut seen = HashSet::new();
    for _ in 0..count {
        let (name, after) = number(rest)?;
        let (data, after) = number(after)?;
        let (name, after) = after.split_at_checked(name as usize).ok_or(SectionError::Cut)?;
        let (data, after) = after.split_at_checked(data as usize).ok_or(SectionError::Cut)?;
        let name = plain(name)?;
        if !seen.insert(name) {
            return Err(SectionError::Twice(shown(name.as_bytes())));
        }
        files.push((name, data));
        rest = after;
    }
    // A tool that rounds a section up fills it with zeros.
    if rest.iter().any(|byte| *byte != 0) {
        return Err(SectionError::Trailing);
    }
    Ok(files)
}

fn number(bytes: &[u8]) -> Result<(u32, &[u8]), SectionError> {
    let (number, rest) = bytes.split_first_chunk::<4>().ok_or(SectionError::Cut)?;
    Ok((u32::from_le_bytes(*number), rest))
}

fn plain(name: &[u8]) -> Result<&str, SectionError> {
    std::str::from_utf8(name).ok().filter(|name| is_plain(name)).ok_or_else(|| SectionError::Name(shown(name)))
}

fn shown(name: &[u8]) -> String {
    String::from_utf8_lossy(&name[..name.len().min(SHOWN)]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_reads_as_written() {
        const FILES: &[(&str, &[u8])] = &[("manifest.json", b"{}"), ("frontend/plugin.js", b"export {}")];
        const SIZE: usize = package_size(FILES);
        static SECTION: [u8; SIZE] = write_package(FILES);
        assert_eq!(read_package(&SECTION).unwrap(), FILES);
        for end in 0..SIZE {
            let expected = if end < 8 { SectionError::Magic } else { SectionError::Cut };
            assert_eq!(read_package(&SECTION[..end]), Err(expected), "cut at {end}");
        }
    }

    /// A section that announces `count` files and lists these.
    fn section(count: u32, files: &[(&[u8], &[u8])]) -> Vec<u8> {
        let mut section = [&PACKAGE_MAGIC[..], &count.to_le_bytes()].concat();
        for (name, data) in files {
            section.extend([(name.len() as u32).to_le_bytes(), (data.len() as u32).to_le_bytes()].concat());
            section.extend([*name, *data].concat());
        }
        section
    }

    #[test]
    fn a_name_that_leads_elsewhere_is_refused() {
        for name in ["", "/etc/passwd", "../x", "a/../b", "a//b", "./a", "a/", "c:x", "a\\b", "a\0"] {
            let section = section(1, &[(name.as_bytes(), b"")]);
            assert_eq!(read_package(&section), Err(SectionError::Name(name.to_owned())), "{name:?}");
        }
        assert!(matches!(read_package(&section(1, &[(b"a\xff", b"")])), Err(SectionError::Name(_))));
        let long = [b"/".as_slice(), &[b'a'; 1 << 20]].concat();
        let Err(SectionError::Name(shown)) = read_package(&section(1, &[(&long, b"")])) else { panic!("it was read") };
        assert_eq!(shown.len(), SHOWN);
    }

    #[test]
    fn a_name_stands_once_and_nothing_stands_behind_the_last_file() {
        let twice = section(2, &[(b"manifest.json", b"{}"), (b"manifest.json", b"[]")]);
        assert_eq!(read_package(&twice), Err(SectionError::Twice("manifest.json".to_owned())));
        let one = section(1, &[(b"manifest.json", b"{}")]);
        assert_eq!(read_package(&[&one[..], &[0; 15]].concat()).unwrap().len(), 1);
        assert_eq!(read_package(&[&one[..], &one[..]].concat()), Err(SectionError::Trailing));
    }

    #[test]
    fn what_a_section_announces_is_not_believed() {
        assert_eq!(read_package(&section(u32::MAX, &[])), Err(SectionError::TooMany(u32::MAX)));
        assert_eq!(read_package(&section(2, &[(b"a", b"")])), Err(SectionError::Cut));
        for lengths in [[u32::MAX, 0], [0, u32::MAX], [u32::MAX, u32::MAX], [1, 64 << 20]] {
            let section = [section(1, &[]), lengths.map(u32::to_le_bytes).concat(), b"a".to_vec()].concat();
            assert_eq!(read_package(&section), Err(SectionError::Cut), "{lengths:?}");
        }
    }

    #[test]
    fn the_header_names_this_build() {
        let header = Header::of_this_build();
        assert_eq!(size_of::<Header>(), 64);
        assert!(header.target_text().starts_with(std::env::consts::ARCH));
        assert_eq!(u64::from_le_bytes(header.layout_hash), crate::LAYOUT_HASH);
        assert_eq!(header.minor, crate::API_MINOR.to_le_bytes());
        assert!(Header::read(&[0; 64]).is_none());
    }

    #[test]
    fn the_hash_is_fnv_1a() {
        assert_eq!(hash(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(hash(b"foobar"), 0x8594_4171_f739_67e8);
        assert_eq!(decimal("120"), 120);
    }
}
