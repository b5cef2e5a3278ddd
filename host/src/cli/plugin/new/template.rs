//! Templates in the way of Mustache: `{{name}}` is a value; `{{#part}}`, `{{^part}}` and `{{/part}}` on lines of their
//! own keep what is between them when the part is there, or is not.

use anyhow::{Context as _, bail, ensure};

pub(super) struct Template<'a> {
    pub values: Vec<(&'a str, String)>,
    /// Those that are there.
    pub sections: Vec<&'a str>,
}

impl Template<'_> {
    pub(super) fn fill(&self, text: &str) -> anyhow::Result<String> {
        let mut filled = String::with_capacity(text.len());
        let mut open: Vec<(&str, bool)> = Vec::new();
        for line in text.lines() {
            match tag(line) {
                Some(('/', name)) => {
                    let (opened, _) = open.pop().context("a section ends that did not begin")?;
                    ensure!(opened == name, "the section {opened} ends as {name}");
                }
                Some((kind, name)) => open.push((name, self.sections.contains(&name) == (kind == '#'))),
                None if open.iter().all(|(_, kept)| *kept) => {
                    filled.push_str(line);
                    filled.push('\n');
                }
                None => {}
            }
        }
        if let Some((name, _)) = open.last() {
            bail!("the section {name} does not end");
        }
        let fill = |text: String, (name, value): &(&str, String)| text.replace(&format!("{{{{{name}}}}}"), value);
        Ok(self.values.iter().fold(filled, fill))
    }
}

/// What a line is that says where a section begins or ends.
fn tag(line: &str) -> Option<(char, &str)> {
    let tag = line.trim().strip_prefix("{{")?.strip_suffix("}}")?;
    let kind = tag.chars().next().filter(|kind| "#^/".contains(*kind))?;
    Some((kind, &tag[1..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_are_kept_or_left_out_with_all_that_is_in_them() {
        let template = Template { values: vec![("name", "x".to_owned())], sections: vec!["a"] };
        let text = "1 {{name}}\n{{#a}}\n2\n{{^b}}\n3\n{{/b}}\n{{/a}}\n{{^a}}\n4\n{{#a}}\n5\n{{/a}}\n{{/a}}\n6";
        assert_eq!(template.fill(text).unwrap(), "1 x\n2\n3\n6\n");
        for broken in ["{{#a}}\n", "{{/a}}\n", "{{#a}}\n{{/b}}\n"] {
            assert!(template.fill(broken).is_err(), "{broken}");
        }
    }
}
