//! Types: the server's plain ones and the plugin's own.

use squawk_syntax::SyntaxKind::*;
use squawk_syntax::SyntaxNode;

use super::super::{Position, UsedType, names, syntax};
use super::{PrintResult, Printer, child_tokens};

const OBJECT_NUMBER_FIX: &str = "Its values are numbers of objects of this one database, which no backup can bring into another. Store \
    the name as text, and cast it where it is used: `v::regclass`.";

impl Printer<'_> {
    fn own_type(&mut self, node: &SyntaxNode, name: &str) {
        let position = Position::in_text(self.text, super::super::start(node));
        self.used_types.push(UsedType { name: name.to_owned(), position });
        self.own(name);
    }

    /// A built-in type, or one of the plugin's own.
    pub(super) fn named_type(&mut self, node: &SyntaxNode) -> PrintResult {
        let Some(path_node) = node.children().find(|child| child.kind() == PATH_REF) else {
            return Err(syntax::refuse_node(node, self.text));
        };
        let path = self.path(&path_node)?;
        let is_quoted = child_tokens(&path_node).any(|token| token.text().starts_with('"'));
        if let [.., name] = path.as_slice()
            && (path.len() == 1 || path[0] == "pg_catalog")
            && names::is_object_number(name)
            && !node.ancestors().any(|it| it.kind() == CAST_EXPR)
        {
            let what = format!("a column of type {name}");
            return Err(self.refuse(node, &what, OBJECT_NUMBER_FIX));
        }
        let built_in = match path.as_slice() {
            [name] => names::built_in_type(name, is_quoted),
            [schema, name] if schema == "pg_catalog" => names::built_in_type(name, true),
            _ => None,
        };
        match (built_in, path.as_slice()) {
            (Some(printed), _) => self.word(&printed),
            (None, [name]) if !names::is_other_type(name) => self.own_type(&path_node, name),
            (None, [schema, name]) if schema == self.schema => self.own_type(&path_node, name),
            _ => {
                let fix = "Use a plain built-in type, or one that this schema.sql makes.";
                return Err(self.refuse(node, &format!("the type {}", path.join(".")), fix));
            }
        }
        for child in node.children_with_tokens() {
            match (child.as_node(), child.as_token()) {
                (Some(child), _) if child.kind() == PATH_REF => {}
                (Some(child), _) => self.node(child)?,
                (_, Some(token)) => self.token(token, &[])?,
                _ => {}
            }
        }
        Ok(())
    }
}
