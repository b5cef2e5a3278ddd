//! Calls of functions.

use squawk_syntax::SyntaxKind::*;
use squawk_syntax::SyntaxNode;

use super::{PrintResult, Printer, child_tokens};
use crate::error::SchemaError;
use crate::{lexis, names, syntax};

impl Printer<'_> {
    pub(super) fn call(&mut self, node: &SyntaxNode) -> PrintResult {
        let mut children = node.children();
        let Some(callee) = children.next() else { return Err(syntax::refuse_node(node, self.text)) };
        match callee.kind() {
            NAME_REF | FIELD_EXPR => self.callee(&callee)?,
            // EXTRACT, TRIM and the like, which are in the table.
            _ => self.node(&callee)?,
        }
        for child in children {
            self.node(&child)?;
        }
        // The brackets are in the nodes; a token here is something new.
        match node.children_with_tokens().filter_map(|it| it.into_token()).find(|it| !lexis::is_trivia(it.kind())) {
            Some(token) => self.token(&token, &[]),
            None => Ok(()),
        }
    }

    fn callee(&mut self, callee: &SyntaxNode) -> PrintResult {
        let path = self.path(callee)?;
        let is_quoted = child_tokens(callee).any(|token| token.text().starts_with('"'));
        let known = match path.as_slice() {
            [name] => names::function(name),
            [schema, name] if schema == "pg_catalog" => names::function(name),
            _ => None,
        };
        match known {
            Some(printed) if printed.starts_with("pg_catalog") || !is_quoted => self.put(&printed),
            _ => Err(self.refuse_function(callee, &path, known.is_some())),
        }
    }

    fn refuse_function(&self, callee: &SyntaxNode, path: &[String], is_word: bool) -> SchemaError {
        let name = path.last().map(String::as_str).unwrap_or_default();
        let what = format!("the function {}", path.join("."));
        if is_word {
            return self.refuse(callee, &what, format!("Write {name} without quotes: it is a word of the grammar."));
        }
        if names::built_in_type(name, false).is_some() {
            let fix = format!("Write a cast instead: `CAST(... AS {name})`.");
            return self.refuse(callee, &format!("the type {name}, called as a function,"), fix);
        }
        let fix = "Use another one of PostgreSQL's plain functions, or do it in the plugin when it runs.";
        self.refuse(callee, &what, fix)
    }
}
