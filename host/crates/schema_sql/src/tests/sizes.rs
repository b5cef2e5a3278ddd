//! How long and how deep a text may be.

use super::*;

/// Bombs: each has to be answered, and soon.
#[test]
fn nests_and_masses_are_refused_before_they_are_parsed() {
    let many = 100_000;
    let bombs = [
        format!("select {}1{}", "(".repeat(many), ")".repeat(many)),
        format!("select {}1", "(".repeat(many)),
        format!("select {}1", "- ".repeat(many)),
        format!("select {}true", "not ".repeat(many)),
        format!("select {}1{}", "case when ".repeat(many), " end".repeat(many)),
        format!("select * from a {}", "join b ".repeat(many)),
        format!("select 1{}", " + 1".repeat(many)),
        format!("select 1{}", " union select 1".repeat(many)),
        format!("select {}1{}", "array[".repeat(many), "]".repeat(many)),
        format!("select a{}", ".b".repeat(many)),
        format!("select a{}", "::int".repeat(many)),
        "select 1;".repeat(many),
        "x".repeat(MAX_BYTES + 1),
        "/*".repeat(many),
        "$$".repeat(many),
        "'".repeat(many + 1),
        format!("select '{}", "\\".repeat(many)),
        "select 1\0".to_owned(),
        "\u{feff}select 1".to_owned(),
        "select 1\u{85}".to_owned(),
    ];
    for bomb in &bombs {
        let started = std::time::Instant::now();
        let refused = refused(bomb);
        assert!(refused.found.chars().count() < 400, "{}", refused.found);
        // Far less than this; what must not happen is that one of them runs into its time-out.
        assert!(started.elapsed() < READ_TIMEOUT && !refused.found.contains("takes too long"), "{}", refused.found);
    }
}

#[test]
fn chains_within_the_bounds_are_read() {
    let half = MAX_STATEMENT_TOKENS / 2 - 10;
    printed(&format!("select 1{}", " + 1".repeat(half)));
    printed(&format!("select {}1{}", "(".repeat(MAX_DEPTH), ")".repeat(MAX_DEPTH)));
    printed(&format!("insert into t values {}(1)", "(1),".repeat(MAX_STATEMENT_TOKENS / 4 - 10)));
    printed(&format!("select 1{}", " union all select 1".repeat(MAX_STATEMENT_TOKENS / 4 - 10)));
    printed(&format!("select * from a {}", "join b on true ".repeat(MAX_STATEMENT_TOKENS / 4 - 10)));
    printed(&format!("select a{}", "::text".repeat(MAX_STATEMENT_TOKENS / 3 - 10)));
}
