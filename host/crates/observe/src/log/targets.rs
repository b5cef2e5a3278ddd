//! Under which name a line says where it comes from. Operators choose levels by these names (`LOG_LEVEL`), so they stay
//! when code moves from one crate to another.

use std::borrow::Cow;

use cardinal_base::log_targets::{CRATES, LogCrate};

pub(super) const ACCESS_TARGET: &str = "cardinal::access";
/// Plugins' lines have this target, and the plugin's name in a field; by name they are `plugin::<name>`.
pub(super) const PLUGIN_TARGET: &str = "plugin";

/// The name of a target, in two parts that belong together.
pub(super) fn parts(target: &str) -> [&str; 2] {
    // A process of its own, whose lines another process passes on.
    if let Some(rest) = target.strip_prefix("cardinal_supervisor::provision").filter(|rest| is_path(rest)) {
        return ["cardinal::provision", rest];
    }
    let Some(inside) = target.strip_prefix("cardinal_") else { return [target, ""] };
    for LogCrate { name, shown, .. } in CRATES {
        if let Some(rest) = inside.strip_prefix(name).filter(|rest| is_path(rest)) {
            return [shown, rest];
        }
    }
    [target, ""]
}

fn is_path(rest: &str) -> bool {
    rest.is_empty() || rest.starts_with("::")
}

/// The name by the crate of today, `cardinal::store::jobs`: levels may be chosen by it as well.
pub(super) fn name_by_crate(target: &str) -> Cow<'_, str> {
    match target.strip_prefix("cardinal_") {
        Some(inside) => format!("cardinal::{inside}").into(),
        None => target.into(),
    }
}

/// The same as one text.
pub(super) fn name(target: &str) -> Cow<'_, str> {
    match parts(target) {
        [name, ""] => name.into(),
        [name, rest] => format!("{name}{rest}").into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_keep_their_names_in_whichever_crate_their_code_stands() {
        for (target, shown) in [
            ("cardinal_store::outage", "cardinal::db::outage"),
            ("cardinal_schema::migrate", "cardinal::db::migrate"),
            ("cardinal_plugin_host::registry", "cardinal::plugin::registry"),
            ("cardinal_supervisor::local", "cardinal::keeper::local"),
            ("cardinal_supervisor::provision", "cardinal::provision"),
            ("cardinal_supervisor::provisioner", "cardinal::keeper::provisioner"),
            ("cardinal_serve", "cardinal"),
            ("cardinal::access", "cardinal::access"),
            ("cardinal_server::x", "cardinal_server::x"),
            ("plugin", "plugin"),
            ("", ""),
        ] {
            assert_eq!(name(target), shown);
            assert_eq!(parts(target).concat(), shown);
        }
    }
}
