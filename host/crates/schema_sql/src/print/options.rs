//! Options in brackets: of tables, indexes, views and range types.

use squawk_syntax::SyntaxKind::*;
use squawk_syntax::SyntaxNode;

use super::super::names::Words;
use super::super::{lexis, names, syntax};
use super::{PrintResult, Printer, child_tokens};

/// A view reads with the rights of who asks it, never with those of its owner.
const SECURITY_INVOKER: &str = "security_invoker = true";

impl Printer<'_> {
    /// `WITH (...)`.
    pub(super) fn parameters(&mut self, node: &SyntaxNode) -> PrintResult {
        self.children(node, &[WITH_KW])
    }

    /// `(fillfactor = 70, ...)`.
    pub(super) fn options(&mut self, list: &SyntaxNode, allowed: Words) -> PrintResult {
        for child in list.children_with_tokens() {
            match (child.as_node(), child.as_token()) {
                (Some(option), _) if option.kind() == ATTRIBUTE_OPTION => self.option(option, allowed)?,
                (Some(other), _) => return Err(syntax::refuse_node(other, self.text)),
                (_, Some(token)) => self.token(token, &[])?,
                _ => {}
            }
        }
        Ok(())
    }

    fn option(&mut self, option: &SyntaxNode, allowed: Words) -> PrintResult {
        for child in option.children_with_tokens() {
            match (child.as_node(), child.as_token()) {
                (Some(name), _) if name.kind() == ATTRIBUTE_NAME => self.print_word(name, allowed, "an option")?,
                (Some(value), _) if value.kind() == ATTRIBUTE_VALUE => self.option_value(value)?,
                (Some(other), _) => return Err(syntax::refuse_node(other, self.text)),
                (_, Some(token)) => self.token(token, &[EQ])?,
                _ => {}
            }
        }
        Ok(())
    }

    /// A number, a truth value, or a word such as `on`.
    fn option_value(&mut self, value: &SyntaxNode) -> PrintResult {
        let refusal = || self.refuse(value, "the value of an option", "Write a number, true or false.");
        let mut tokens = child_tokens(value);
        match (tokens.next(), tokens.next()) {
            (Some(token), None) if lexis::is_word(token.kind()) => {
                let word = lexis::name(self.text, &token)?;
                if !names::SETTING_WORDS.contains(&word) {
                    return Err(refusal());
                }
                self.put(&word)
            }
            _ => match value.first_child().filter(|child| child.kind() == LITERAL) {
                Some(literal) if value.children().count() == 1 => self.literal(&literal),
                _ => Err(refusal()),
            },
        }
    }

    /// `CREATE VIEW`, which always gets the option that it reads with the rights of who asks.
    pub(super) fn view(&mut self, node: &SyntaxNode) -> PrintResult {
        let mut with_options = false;
        for child in node.children_with_tokens() {
            match (child.as_node(), child.as_token()) {
                (Some(child), _) if child.kind() == WITH_PARAMS => {
                    self.parameters(child)?;
                    if !self.out.ends_with(')') {
                        return Err(syntax::refuse_node(child, self.text));
                    }
                    self.out.truncate(self.out.len() - 1);
                    self.out.push_str(&format!(", {SECURITY_INVOKER})"));
                    with_options = true;
                }
                (Some(child), _) => self.node(child)?,
                (_, Some(token)) => {
                    if token.kind() == AS_KW && !with_options {
                        self.word(&format!("with ({SECURITY_INVOKER})"));
                    }
                    self.token(token, syntax::tokens(CREATE_VIEW).unwrap_or_default())?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// `AS RANGE (subtype = ..., ...)`: nothing in it may be a function of the plugin's.
    pub(super) fn range_type(&mut self, node: &SyntaxNode) -> PrintResult {
        self.word("as range (");
        for (index, option) in node.descendants().filter(|it| it.kind() == ATTRIBUTE_OPTION).enumerate() {
            if index > 0 {
                self.word(",");
            }
            self.range_option(&option)?;
        }
        self.word(")");
        Ok(())
    }

    fn range_option(&mut self, option: &SyntaxNode) -> PrintResult {
        let (mut name, mut value) = (None, None);
        for child in option.children() {
            match child.kind() {
                ATTRIBUTE_NAME => name = Some(self.only_name(&child)?),
                ATTRIBUTE_VALUE => value = child.first_child(),
                _ => return Err(syntax::refuse_node(&child, self.text)),
            }
        }
        let (Some(name), Some(value)) = (name, value) else { return Err(syntax::refuse_node(option, self.text)) };
        let value_path = || value.children().find(|it| it.kind() == PATH_REF).map(|it| self.path(&it)).transpose();
        match (name.as_str(), value_path()?.as_deref()) {
            ("subtype", Some(_)) if value.kind() == PATH_TYPE => {
                self.word("subtype =");
                self.named_type(&value)
            }
            ("subtype_diff", Some([.., diff])) if names::SUBTYPE_DIFFS.contains(diff) => {
                self.put(&format!("subtype_diff = {}", names::in_catalog(diff)))
            }
            ("collation", Some([.., collation])) => self.put(&format!("collation = {}", names::in_catalog(collation))),
            ("multirange_type_name", Some(path)) if path.len() == 1 || path[..path.len() - 1] == [self.schema] => {
                let own = path.last().cloned().unwrap_or_default();
                self.word("multirange_type_name =");
                let begin = self.out.len();
                self.own(&own);
                self.type_names.push(begin..self.out.len());
                Ok(())
            }
            _ => {
                let fix = "Leave it out, or use one of PostgreSQL's own differences for subtype_diff.";
                Err(self.refuse(option, &format!("the option {name} of a range type"), fix))
            }
        }
    }
}
