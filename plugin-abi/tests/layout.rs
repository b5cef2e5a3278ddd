//! The layouts of the contract, word for word: whoever changes one notices here, and changes the
//! crate's version as README.md says.

#![cfg(target_pointer_width = "64")]
#![allow(clippy::unwrap_used)]

use std::{collections::BTreeSet, fmt::Write};

use cardinal_plugin_abi::{
    Answer, Bytes, Entry, Error, Fut, HostApiRef, PluginModule, PluginModuleRef, Reply, Request, Slice,
    abi_stable::{
        StableAbi,
        prefix_type::PrefixTypeTrait,
        std_types::utypeid::UTypeId,
        type_layout::{TLData, TLField, TLFunction, TypeLayout},
    },
    extension::{Channels, HttpClient, Jobs, Memory, MemoryUse},
};

/// What is frozen: all types that are passed whole, and the tables up to their last prefix field.
const FROZEN: &str = include_str!("../src/layout.txt");
/// What later minor versions put at the end of the tables, the extensions that came after the freeze, and the types
/// that came with either.
const GROWN: &str = include_str!("grown.txt");

#[test]
fn the_layouts_are_those_that_are_recorded() {
    let mut types = Types::default();
    for table in TABLES {
        types.collect(table());
    }
    let frozen = std::mem::take(&mut types.described);
    let mut grown = String::new();
    for (name, fields) in std::mem::take(&mut types.suffixes) {
        let _ = writeln!(grown, "{name}");
        for field in fields {
            types.describe(&field, &mut grown);
        }
        grown.push('\n');
    }
    EXTENSIONS.into_iter().for_each(|table| types.collect(table()));
    grown.extend(types.described);
    compare("src/layout.txt", FROZEN, &frozen.into_iter().collect::<String>());
    compare("tests/grown.txt", GROWN, &grown);
}

/// A table that another language reads or writes: see README.md, "Tables".
#[test]
fn a_table_is_a_word_of_bits_a_pointer_and_the_fields() {
    extern "C" fn allocated() -> MemoryUse {
        MemoryUse { allocated: 7, freed: 0 }
    }
    extern "C" fn describe() -> Bytes {
        Bytes::from_static(b"{}")
    }
    extern "C" fn extension(_: u32) -> *const () {
        static MEMORY: Memory = Memory { read: allocated };
        (&raw const MEMORY).cast()
    }
    unsafe extern "C" fn create(_: HostApiRef, _: u64, _: Slice<'_>, _: *mut *const (), _: *mut Error) -> u8 {
        0
    }
    unsafe extern "C" fn exports(_: *const ()) -> Bytes {
        Bytes::EMPTY
    }
    unsafe extern "C" fn call(_: *const (), _: u32, _: u64, _: Request) -> Fut<Reply> {
        Fut::ready(Ok(Reply::default()))
    }
    unsafe extern "C" fn shutdown(_: *const ()) -> Fut<Answer> {
        Fut::ready(Ok(Answer::default()))
    }
    unsafe extern "C" fn destroy(_: *const ()) -> u8 {
        0
    }
    let table = PluginModule { describe, create, exports, call, shutdown, destroy, get_extension: extension };
    let raw = table.leak_into_prefix().into_raw();
    // SAFETY: the frame is two words, and seven functions follow.
    let words = unsafe { std::slice::from_raw_parts(raw.cast::<usize>(), 9) };
    assert_eq!(words[0], 0b111_1111, "a bit for each field that is there");
    assert_eq!((words[2], words[8]), (describe as *const () as usize, extension as *const () as usize));

    // The same, as a library in another language has it: no pointer behind the bits.
    let by_hand: &'static mut [usize] = Box::leak(words.into());
    by_hand[1] = 0;
    // SAFETY: as above.
    let read = unsafe { PluginModuleRef::from_raw(by_hand.as_ptr().cast()) }.unwrap();
    assert_eq!((read.describe())().as_text(), Some("{}"));
    // SAFETY: null is allowed.
    assert!(unsafe { PluginModuleRef::from_raw(std::ptr::null()) }.is_none());
}

#[test]
fn the_entry_is_what_the_readme_says() {
    assert_eq!((size_of::<Entry>(), align_of::<Entry>()), (72, 8));
    assert_eq!(std::mem::offset_of!(Entry, layout_hash), 16);
    assert_eq!(std::mem::offset_of!(Entry, open), 32);
}

/// The tables of the contract.
const TABLES: [fn() -> &'static TypeLayout; 3] =
    [|| <PluginModuleRef as StableAbi>::LAYOUT, || <HostApiRef as StableAbi>::LAYOUT, || <Memory as StableAbi>::LAYOUT];

/// The tables behind `get_extension` that `layout.txt` does not have.
const EXTENSIONS: [fn() -> &'static TypeLayout; 3] =
    [|| <HttpClient as StableAbi>::LAYOUT, || <Jobs as StableAbi>::LAYOUT, || <Channels as StableAbi>::LAYOUT];

fn compare(file: &str, recorded: &str, found: &str) {
    if found == recorded {
        return;
    }
    let name = file.rsplit('/').next().unwrap_or_default();
    let beside = std::env::temp_dir().join(format!("cardinal-plugin-abi-{name}"));
    std::fs::write(&beside, found).unwrap();
    let lines = found.lines().filter(|line| !recorded.lines().any(|known| known == *line)).collect::<Vec<_>>();
    panic!(
        "the layouts are not those of {file}. If that is meant, and README.md (\"Compatibility\") allows it, raise the \
         version and put {} in its place. New lines:\n{}",
        beside.display(),
        lines.join("\n")
    );
}

#[derive(Default)]
struct Types {
    seen: Vec<UTypeId>,
    described: BTreeSet<String>,
    /// The fields of tables behind their last prefix field.
    suffixes: Vec<(String, Vec<TLField>)>,
}

impl Types {
    /// Describes a type and all that it is made of, functions included.
    fn collect(&mut self, layout: &'static TypeLayout) {
        if self.seen.contains(&layout.get_utypeid()) {
            return;
        }
        self.seen.push(layout.get_utypeid());
        let mut fields: Vec<_> = layout.get_fields().into_iter().flat_map(|fields| fields.iter()).collect();
        let mut text = match layout.data() {
            TLData::PrefixType(table) => {
                let suffix = fields.split_off(usize::from(table.first_suffix_field));
                if !suffix.is_empty() {
                    self.suffixes.push((name(layout), suffix));
                }
                format!("{}: a table\n", name(layout))
            }
            _ => format!("{}: {} bytes, align {}\n", name(layout), layout.size(), layout.alignment()),
        };
        for field in fields.into_iter().chain(layout.phantom_fields().iter()) {
            self.describe(&field, &mut text);
        }
        let is_plain = text.lines().count() == 1 || text.starts_with(['*', '&', '[']);
        if !is_plain {
            self.described.insert(format!("{text}\n"));
        }
    }

    fn describe(&mut self, field: &TLField, text: &mut String) {
        let functions: Vec<TLFunction> = field.function_range().iter().collect();
        if functions.is_empty() {
            let _ = writeln!(text, "    {}: {}", field.name(), name(field.layout()));
            return self.collect(field.layout());
        }
        for function in functions {
            let _ = writeln!(text, "    {}: {}", field.name(), signature(&function));
            function.param_type_layouts.iter().for_each(|of| self.collect(of()));
            if let Some(of) = function.return_type_layout() {
                self.collect(of());
            }
        }
    }
}

/// `unsafe fn(*mut (), u64) -> u8`: types and qualifiers, without names and lifetimes.
fn signature(function: &TLFunction) -> String {
    let params: Vec<_> = function.param_type_layouts.iter().map(|of| name(of())).collect();
    let returns = function.return_type_layout().map_or_else(|| "()".to_owned(), |of| name(of()));
    let unsafety = if function.fn_qualifs.is_unsafe() { "unsafe " } else { "" };
    format!("{unsafety}fn({}) -> {returns}", params.join(", "))
}

/// A type's name; abi_stable leaves the parameter of `Fut` out, which stands in its `poll`.
fn name(layout: &'static TypeLayout) -> String {
    let full = layout.full_type().to_string();
    let name = full.split_whitespace().collect::<Vec<_>>().join(" ").replace(" >", ">");
    if name != "Fut" {
        return name;
    }
    let poll = layout.get_fields().and_then(|fields| fields.get(1)).unwrap().function_range().index(0);
    let out = self::name(poll.param_type_layouts.iter().nth(2).unwrap()());
    format!("Fut<{}>", out.trim_start_matches("*mut "))
}
