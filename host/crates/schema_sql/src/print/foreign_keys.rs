//! Foreign keys, and those to the cards, which the host makes.

use squawk_syntax::SyntaxKind::*;
use squawk_syntax::SyntaxNode;

use super::{PrintResult, Printer};
use crate::{CardKey, keys, syntax};

impl Printer<'_> {
    /// A foreign key. One to the cards is not printed: the host makes it when everything else is done.
    pub(super) fn key(&mut self, node: &SyntaxNode) -> PrintResult {
        let start = self.out.len();
        let mut options_at = None;
        for child in node.children_with_tokens() {
            match (child.as_node(), child.as_token()) {
                (Some(child), _) if child.kind() == TABLE_NAME_REF => {
                    match keys::points_to_cards(node, &self.path(child)?, self.text)? {
                        true => options_at = Some(self.out.len()),
                        false => self.object(child)?,
                    }
                }
                (Some(child), _) if options_at.is_some() && child.kind() == NOT_VALID => {}
                (Some(child), _) => {
                    self.node(child)?;
                    let is_the_id = matches!(child.kind(), COLUMN_NAME_REF | FOREIGN_KEY_COLUMN_LIST);
                    if is_the_id && options_at.is_some() {
                        options_at = Some(self.out.len());
                    }
                }
                (_, Some(token)) => {
                    self.token(token, syntax::tokens(node.kind()).unwrap_or_default())?;
                    if token.kind() == R_PAREN && options_at.is_some() {
                        options_at = Some(self.out.len());
                    }
                }
                _ => {}
            }
        }
        match options_at {
            Some(options_at) => self.take_out(node, start, options_at),
            None => Ok(()),
        }
    }

    fn take_out(&mut self, node: &SyntaxNode, start: usize, options_at: usize) -> PrintResult {
        if let Some(list) = node
            .descendants()
            .find(|it| matches!(it.kind(), SET_NULL_COLUMNS | SET_DEFAULT_COLUMNS) && it.first_child().is_some())
        {
            return Err(self.refuse(&list, "a list of columns", "Leave it out: a key to the cards has one column."));
        }
        let options = self.out.split_off(options_at).trim_start().to_owned();
        self.out.truncate(start);
        self.card_keys.push(CardKey { at: start, options, ..CardKey::read(node, self.text)? });
        Ok(())
    }
}
