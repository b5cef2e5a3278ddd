//! The layouts of the contract, word for word: whoever changes one notices here, and changes the
//! crate's version as README.md says.

#![cfg(target_pointer_width = "64")]
#![allow(clippy::unwrap_used)]

use std::{collections::BTreeSet, fmt::Write};

use cardinal_plugin_abi::{
    HostApiRef, PluginModuleRef,
    abi_stable::{
        StableAbi,
        std_types::utypeid::UTypeId,
        type_layout::{TLField, TLFunction, TypeLayout},
    },
    extension::Memory,
};

/// What was released, or is about to be.
const RECORDED: &str = include_str!("layout.txt");

#[test]
fn the_layouts_are_those_of_the_version() {
    let mut types = Types::default();
    types.collect(<PluginModuleRef as StableAbi>::LAYOUT);
    types.collect(<HostApiRef as StableAbi>::LAYOUT);
    types.collect(<Memory as StableAbi>::LAYOUT);
    let found: String = types.described.into_iter().collect();
    let mine = concat!("version ", env!("CARGO_PKG_VERSION_MAJOR"), ".", env!("CARGO_PKG_VERSION_MINOR"), "\n\n");
    let found = format!("{mine}{found}");
    if found != RECORDED {
        let beside = std::env::temp_dir().join("cardinal-plugin-abi-layout.txt");
        std::fs::write(&beside, &found).unwrap();
        let lines = found.lines().filter(|line| !RECORDED.lines().any(|known| known == *line)).collect::<Vec<_>>();
        panic!(
            "the layouts are not those of tests/layout.txt. If that is meant, and README.md (\"Compatibility\") \
             allows it, raise the version and put {} in its place. New lines:\n{}",
            beside.display(),
            lines.join("\n")
        );
    }
}

#[derive(Default)]
struct Types {
    seen: Vec<UTypeId>,
    described: BTreeSet<String>,
}

impl Types {
    /// Describes a type and all that it is made of, functions included.
    fn collect(&mut self, layout: &'static TypeLayout) {
        if self.seen.contains(&layout.get_utypeid()) {
            return;
        }
        self.seen.push(layout.get_utypeid());
        let mut text = format!("{}: {} bytes, align {}\n", name(layout), layout.size(), layout.alignment());
        let fields = layout.get_fields().into_iter().flat_map(|fields| fields.iter());
        for field in fields.chain(layout.phantom_fields().iter()) {
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
