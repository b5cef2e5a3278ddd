//! Checks that may be made without a look at the rows: printed with the places of what is added then.

use std::ops::Range;

use squawk_syntax::SyntaxNode;

use super::super::{LateCheck, LateChecks, SchemaError, keys, late_checks, syntax, work};
use super::{PrintResult, Printer};

impl Printer<'_> {
    pub(super) fn take_late_checks(&mut self) -> Result<Option<LateChecks>, SchemaError> {
        let checks = std::mem::take(&mut self.late_checks);
        if checks.is_empty() {
            return Ok(None);
        }
        let table = keys::table_name(self.statement, self.text)?;
        Ok(Some(LateChecks { table, checks, are_small: late_checks::are_small(self.statement) }))
    }

    /// ADD, CONSTRAINT and a name if there is one, CHECK and the expression, NO INHERIT.
    pub(super) fn late_check(&mut self, action: &SyntaxNode) -> PrintResult {
        let Some(constraint) = work::find_check(action) else { return self.node(action) };
        let mut expression = 0..0;
        for child in action.children_with_tokens() {
            match (child.as_node(), child.as_token()) {
                (Some(child), _) if *child == constraint => expression = self.check(&constraint)?,
                (Some(child), _) => self.node(child)?,
                (_, Some(token)) => self.token(token, syntax::tokens(action.kind()).unwrap_or_default())?,
                _ => {}
            }
        }
        self.late_checks.push(LateCheck { expression, end: self.out.len(), is_own: late_checks::is_own(action) });
        Ok(())
    }

    /// Gives where the expression stands.
    fn check(&mut self, constraint: &SyntaxNode) -> Result<Range<usize>, SchemaError> {
        let mut expression = 0..0;
        for child in constraint.children_with_tokens() {
            match (child.as_node(), child.as_token()) {
                (Some(child), _) => {
                    let start = self.out.len();
                    self.node(child)?;
                    if work::is_expression(child) {
                        expression = start..self.out.len();
                    }
                }
                (_, Some(token)) => self.token(token, syntax::tokens(constraint.kind()).unwrap_or_default())?,
                _ => {}
            }
        }
        Ok(expression)
    }
}
