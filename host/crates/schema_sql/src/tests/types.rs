//! The types and domains of a file.

use super::*;

#[test]
fn types_and_domains_that_a_statement_makes_are_named() {
    let text = r#"create type mood as enum ('good', 'b''ad', E'a\u00e9'); create type plugin_x."Size" as (a int);
        create type spans as range (subtype = int8); create domain short as text check (value <> ''); create table t (m mood)"#;
    let made: Vec<_> = read("plugin_x", text).unwrap().into_iter().map(|statement| statement.new_type).collect();
    let new = |name: &str, letter, values: &[&str]| {
        Some(NewType {
            name: name.to_owned(),
            letter,
            values: values.iter().map(|value| (*value).to_owned()).collect(),
        })
    };
    let mood = new("mood", "e", &["'good'", "'b''ad'", r"E'a\U000000e9'"]);
    assert_eq!(made, [mood, new("Size", "c", &[]), new("spans", "r", &[]), new("short", "d", &[]), None]);
}

#[test]
fn types_and_domains_that_a_statement_alters_are_named() {
    let text = r#"alter type mood add value if not exists 'odd'; alter type plugin_x."Size" add attribute b int;
        alter domain short set default ''; alter type mood rename to spirit; alter domain plugin_x.short drop not null;
        create domain short as text; alter table t add column m mood"#;
    let altered: Vec<_> = read("plugin_x", text).unwrap().into_iter().map(|statement| statement.altered_type).collect();
    let expected = [Some("mood"), Some("Size"), Some("short"), Some("mood"), Some("short"), None, None];
    assert_eq!(altered, expected.map(|name| name.map(str::to_owned)));
}

#[test]
fn a_type_can_be_made_under_another_name() {
    let text = r#"create type plugin_x."Si""ze" as (a int); create domain short as text check (value <> '');
        create type Spans as range (multirange_type_name = many, subtype = int8)"#;
    let other = |statement: Statement| statement.with_type_names(|number| format!("x.o{number}"));
    let written: Vec<_> = read("plugin_x", text).unwrap().into_iter().map(other).collect();
    assert!(written[0].starts_with("create type x.o0 as ("), "{written:?}");
    assert!(written[1].starts_with("create domain x.o0 as ") && !written[1].contains("short"), "{written:?}");
    assert!(written[2].starts_with("create type x.o0 as range ( multirange_type_name = x.o1 , subtype"), "{written:?}");
}
