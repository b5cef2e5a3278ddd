//! Under which name a line says where it comes from. Operators choose levels by these names (`LOG_LEVEL`), so they stay
//! when code moves from one crate to another.

use std::borrow::Cow;

pub(super) const ACCESS_TARGET: &str = "cardinal::access";
/// Plugins' lines have this target, and the plugin's name in a field; by name they are `plugin::<name>`.
pub(super) const PLUGIN_TARGET: &str = "plugin";

/// A crate of the host, and the name that its lines have in its place.
const CRATES: [(&str, &str); 14] = [
    ("cardinal_base", "cardinal"),
    ("cardinal_cards", "cardinal::cards"),
    ("cardinal_control", "cardinal"),
    ("cardinal_database", "cardinal::db"),
    ("cardinal_identity", "cardinal"),
    ("cardinal_observe", "cardinal::observe"),
    ("cardinal_package", "cardinal::plugin"),
    ("cardinal_plugin_host", "cardinal::plugin"),
    ("cardinal_schema", "cardinal::db"),
    ("cardinal_schema_sql", "cardinal::schema_sql"),
    ("cardinal_serve", "cardinal"),
    ("cardinal_store", "cardinal::db"),
    // A process of its own, whose lines another process passes on.
    ("cardinal_supervisor::provision", "cardinal::provision"),
    ("cardinal_supervisor", "cardinal::keeper"),
];

/// The name of a target, in two parts that belong together.
pub(super) fn parts(target: &str) -> [&str; 2] {
    for (own, shown) in CRATES {
        match target.strip_prefix(own) {
            Some(rest) if rest.is_empty() || rest.starts_with("::") => return [shown, rest],
            _ => {}
        }
    }
    [target, ""]
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
