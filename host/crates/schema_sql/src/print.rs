//! Writes a statement anew from its tree. What cannot be written here is refused: there is no way for a node, word or
//! name past the lists.

use std::collections::HashSet;
use std::ops::Range;

use squawk_syntax::SyntaxKind::{self, *};
use squawk_syntax::{SyntaxNode, SyntaxToken};

use super::error::{Position, SchemaError};
use super::names::Words;
use super::used_types::UsedType;
use super::work::{self, Part};
use super::{CardKey, LateCheck, Statement, keys, lexis, names, new_keys, new_types, overwrites, quadratic, syntax};

mod calls;
mod foreign_keys;
mod late_checks;
mod options;
mod types;

pub(super) struct Printer<'a> {
    /// The plugin's own.
    schema: &'a str,
    /// The whole file, for positions.
    text: &'a str,
    statement: &'a SyntaxNode,
    part: Part,
    /// Names that WITH gives to queries of this statement.
    queries: HashSet<String>,
    out: String,
    /// Keys to the cards, which are not in `out`.
    card_keys: Vec<CardKey>,
    late_checks: Vec<LateCheck>,
    /// Where in `out` the names of new types stand.
    type_names: Vec<Range<usize>>,
    used_types: Vec<UsedType>,
    made_names: Vec<String>,
}

type PrintResult = Result<(), SchemaError>;

impl<'a> Printer<'a> {
    pub(super) fn new(schema: &'a str, text: &'a str, statement: &'a SyntaxNode, part: Part) -> Self {
        let (queries, out) = (HashSet::new(), String::new());
        Self {
            schema,
            text,
            statement,
            part,
            queries,
            out,
            card_keys: Vec::new(),
            late_checks: Vec::new(),
            type_names: Vec::new(),
            used_types: Vec::new(),
            made_names: Vec::new(),
        }
    }

    pub(super) fn print(mut self, position: Position) -> Result<Statement, SchemaError> {
        self.collect_queries()?;
        match self.part {
            Part::WHOLE => self.node(&self.statement.clone())?,
            part => self.alteration(&self.statement.clone(), part)?,
        }
        let work = work::classify(self.statement, self.part, self.text)?;
        let locked_by = work::locked_by(self.statement, self.text)?;
        let overwrites = overwrites::find(self.statement, self.text)?;
        let changes_types = overwrites::changes_types(self.statement);
        let new_type = new_types::find(self.statement, self.text)?;
        let altered_type = new_types::find_altered(self.statement, self.text)?;
        let constraint_names = new_keys::names(self.statement, self.text)?.into_iter().map(|(_, name)| name).collect();
        let late_checks = self.take_late_checks()?;
        let Self { out: sql, card_keys, type_names, used_types, made_names, .. } = self;
        Ok(Statement {
            sql,
            card_keys,
            late_checks,
            work,
            locked_by,
            constraint_names,
            overwrites,
            changes_types,
            new_type,
            altered_type,
            type_names,
            used_types,
            made_names,
            unrepeatable: None,
            position,
        })
    }

    /// Of an ALTER TABLE, the actions of one part.
    fn alteration(&mut self, node: &SyntaxNode, part: Part) -> PrintResult {
        let mut is_first = true;
        for child in node.children_with_tokens() {
            match (child.as_node(), child.as_token()) {
                (Some(child), _) if work::is_action(child.kind()) => {
                    if !part.has(child) {
                        continue;
                    }
                    if !std::mem::take(&mut is_first) {
                        self.word(",");
                    }
                    match part.is_late() {
                        true => self.late_check(child)?,
                        false => self.node(child)?,
                    }
                }
                (Some(child), _) => self.node(child)?,
                (_, Some(token)) if token.kind() == COMMA => {}
                (_, Some(token)) => self.token(token, syntax::tokens(node.kind()).unwrap_or_default())?,
                _ => {}
            }
        }
        Ok(())
    }

    /// A name of the server's own is no name for a query: outside of its WITH it would mean the server's.
    fn collect_queries(&mut self) -> PrintResult {
        for node in self.statement.descendants().filter(|node| node.kind() == CTE_NAME) {
            let name = self.only_name(&node)?;
            if names::is_reserved(&name) {
                return Err(self.refuse(&node, "a query with a name of PostgreSQL's own", "Call it something else."));
            }
            self.queries.insert(name);
        }
        Ok(())
    }

    fn node(&mut self, node: &SyntaxNode) -> PrintResult {
        match node.kind() {
            TABLE_NAME | TABLE_NAME_REF | RELATION_NAME_REF | INDEX | INDEX_REF | SEQUENCE | SEQUENCE_REF | VIEW
            | VIEW_REF | TYPE_NAME_REF | DOMAIN_REF => self.object(node),
            TYPE_NAME | DOMAIN => {
                let begin = self.out.len();
                self.object(node)?;
                self.type_names.push(begin..self.out.len());
                Ok(())
            }
            COLUMN_NAME | COLUMN_NAME_REF | CONSTRAINT_NAME | TABLE_ALIAS | CTE_NAME | COMPOSITE_FIELD
            | COMPOSITE_FIELD_REF | WINDOW | WINDOW_REF | EXTRACT_FIELD_NAME => self.name(node),
            CONSTRAINT_NAME_REF => self.constraint(node),
            QUALIFIED_COLUMN_NAME_REF => self.qualified_column(node),
            NAME_REF => self.name_ref(node),
            CALL_EXPR => self.call(node),
            FIELD_EXPR => self.field(node),
            LITERAL => self.literal(node),
            PATH_TYPE => self.named_type(node),
            CUSTOM_OP | COLON_COLON => self.operator(node),
            OP_CLASS_REF | COLLATION_REF => self.catalog_object(node),
            REFERENCES_CONSTRAINT | FOREIGN_KEY_CONSTRAINT => self.key(node),
            CREATE_VIEW => self.view(node),
            RANGE_TYPE => self.range_type(node),
            WITH_PARAMS => self.parameters(node),
            ATTRIBUTE_LIST => self.options(node, names::OPTIONS),
            ACCESS_METHOD_REF => self.access_method(node),
            STORAGE_MODE => self.print_word(node, names::STORAGE_MODES, "a storage mode"),
            COMPRESSION_METHOD_NAME => self.print_word(node, names::COMPRESSIONS, "a compression"),
            PARTITION_STRATEGY => self.print_word(node, names::PARTITIONINGS, "a way to partition"),
            HASH_PARTITION_BOUND => self.hash_bound(node),
            kind => match syntax::tokens(kind) {
                Some(tokens) => self.children(node, tokens),
                None => Err(syntax::refuse_node(node, self.text)),
            },
        }
    }

    /// Everything of a node in order, of which only these tokens are its own.
    fn children(&mut self, node: &SyntaxNode, tokens: &[SyntaxKind]) -> PrintResult {
        for child in node.children_with_tokens() {
            match (child.as_node(), child.as_token()) {
                (Some(child), _) => self.node(child)?,
                (_, Some(token)) => self.token(token, tokens)?,
                _ => {}
            }
        }
        Ok(())
    }

    fn token(&mut self, token: &SyntaxToken, tokens: &[SyntaxKind]) -> PrintResult {
        let kind = token.kind();
        match kind {
            kind if lexis::is_trivia(kind) || kind == SEMICOLON => Ok(()),
            COMMA | L_PAREN | R_PAREN => self.put(token.text()),
            _ if tokens.contains(&kind) => self.put(&token.text().to_ascii_lowercase()),
            _ => {
                let at = token.text_range().start().into();
                let what = if lexis::is_keyword(kind) { syntax::in_words(kind) } else { "a sign".to_owned() };
                Err(SchemaError::forbidden(self.text, at, &what, "Take it out."))
            }
        }
    }

    fn word(&mut self, word: &str) {
        if !self.out.is_empty() {
            self.out.push(' ');
        }
        self.out.push_str(word);
    }

    fn put(&mut self, word: &str) -> PrintResult {
        self.word(word);
        Ok(())
    }

    /// A name that stands alone.
    fn name(&mut self, node: &SyntaxNode) -> PrintResult {
        let name = self.only_name(node)?;
        self.word(&lexis::quoted(&name));
        Ok(())
    }

    fn only_name(&self, node: &SyntaxNode) -> Result<String, SchemaError> {
        let mut tokens = child_tokens(node);
        match (tokens.next(), tokens.next()) {
            (Some(token), None) if lexis::is_word(token.kind()) => lexis::name(self.text, &token),
            _ => Err(self.refuse(node, "something that is no name", "Write a plain name.")),
        }
    }

    /// The names of a path such as `schema.table`, at most three.
    fn path(&self, node: &SyntaxNode) -> Result<Vec<String>, SchemaError> {
        let mut path = Vec::new();
        let mut is_name_next = true;
        for token in child_tokens(node) {
            match (is_name_next, token.kind()) {
                (true, kind) if lexis::is_word(kind) => path.push(lexis::name(self.text, &token)?),
                (false, DOT) => {}
                _ => return Err(self.refuse(node, "something that is no name", "Write a plain name.")),
            }
            is_name_next = !is_name_next;
        }
        match path.len() {
            1..=3 if !is_name_next => Ok(path),
            _ => Err(self.refuse(node, "something that is no name", "Write a plain name.")),
        }
    }

    /// A table, index, sequence, view or type of the plugin's own, printed with its schema where the grammar takes one.
    fn object(&mut self, node: &SyntaxNode) -> PrintResult {
        let path = self.path(node)?;
        if matches!(node.kind(), TABLE_NAME | VIEW | TYPE_NAME | DOMAIN) {
            self.made_names.extend(path.last().cloned());
        }
        let parent = node.parent().map(|parent| parent.kind());
        let is_bare = matches!(
            parent,
            Some(TABLE_RENAME_TO | INDEX_RENAME_TO | SEQUENCE_RENAME_TO | VIEW_RENAME_TO | TYPE_RENAME_TO)
                | Some(DOMAIN_RENAME_TO | USING_INDEX_NAME | CREATE_INDEX)
        );
        let is_query = node.kind() == RELATION_NAME_REF && parent == Some(RELATION_FROM_ITEM);
        match path.as_slice() {
            [name] if names::is_reserved(name) => {
                let fix = "Leave PostgreSQL's catalogs to PostgreSQL, and begin the plugin's own names with something \
                           else than pg_.";
                return Err(self.refuse(node, "a name of PostgreSQL's own", fix));
            }
            [name] if is_bare || (is_query && self.queries.contains(name)) => self.word(&lexis::quoted(name)),
            [name] => self.own(name),
            [schema, name] if schema == self.schema && !is_bare => self.own(name),
            path if path == keys::CARDS => {
                let fix = "Read cards in the plugin when it runs; schema.sql may point a key at them, no more.";
                return Err(self.refuse(node, "a use of the cards", fix));
            }
            _ => {
                let fix = format!("Keep to the plugin's own schema: leave the schema out, or write {}.", self.schema);
                return Err(self.refuse(node, "a name in another schema", fix));
            }
        }
        Ok(())
    }

    fn own(&mut self, name: &str) {
        self.word(&format!("{}.{}", lexis::quoted(self.schema), lexis::quoted(name)));
    }

    fn constraint(&mut self, node: &SyntaxNode) -> PrintResult {
        match self.path(node)?.as_slice() {
            [name] => self.put(&lexis::quoted(name)),
            _ => Err(self.refuse(node, "a constraint with a schema", "Leave the schema out.")),
        }
    }

    /// `table.column`, or with the plugin's schema.
    fn qualified_column(&mut self, node: &SyntaxNode) -> PrintResult {
        let path = self.path(node)?;
        let (table, column) = match path.as_slice() {
            [table, column] => (table, column),
            [schema, table, column] if schema == self.schema => (table, column),
            _ => return Err(self.refuse(node, "a column of something else", "Write table.column.")),
        };
        self.own(table);
        self.out.push_str(&format!(".{}", lexis::quoted(column)));
        Ok(())
    }

    /// A column, an alias, or one of the values that the grammar has words for.
    fn name_ref(&mut self, node: &SyntaxNode) -> PrintResult {
        let name = self.only_name(node)?;
        let is_keyword = child_tokens(node).next().is_some_and(|token| lexis::is_keyword(token.kind()));
        if is_keyword && names::SESSION_WORDS.contains(&name) {
            let fix = "Take it out: the plugin knows the user of each call (`ctx.user()`).";
            return Err(self.refuse(node, "a question who is asking", fix));
        }
        let is_word = is_keyword && (names::VALUE_WORDS.contains(&name) || is_truth_value(node, &name));
        self.word(&if is_word { name } else { lexis::quoted(&name) });
        Ok(())
    }

    /// `table.column`, or a field of a value. PostgreSQL takes `value.name` for a call where there is no such column.
    fn field(&mut self, node: &SyntaxNode) -> PrintResult {
        if let Some(field) = node.children().filter(|child| child.kind() == NAME_REF).last()
            && is_function_behind_a_dot(&self.only_name(&field)?)
        {
            let fix = "Give the column another name: PostgreSQL has a function of this one, and would call it.";
            return Err(self.refuse(&field, "a function behind a dot", fix));
        }
        self.children(node, syntax::tokens(FIELD_EXPR).unwrap_or_default())
    }

    fn literal(&mut self, node: &SyntaxNode) -> PrintResult {
        let mut tokens = child_tokens(node);
        let Some(first) = tokens.next() else { return Err(syntax::refuse_node(node, self.text)) };
        match first.kind() {
            TRUE_KW | FALSE_KW | NULL_KW | DEFAULT_KW => self.put(&first.text().to_ascii_lowercase()),
            _ => self.put(&lexis::literal(self.text, &first, tokens)?),
        }
    }

    /// Signs that belong together stay together.
    fn operator(&mut self, node: &SyntaxNode) -> PrintResult {
        let signs: String = child_tokens(node).map(|token| token.text().to_owned()).collect();
        let are_signs = signs.chars().all(|c| "+-*/<>=~!@#%^&|`?:".contains(c));
        match are_signs && !signs.contains("--") && !signs.contains("/*") {
            true => self.put(&signs),
            false => Err(syntax::refuse_node(node, self.text)),
        }
    }

    /// A table has the one method that PostgreSQL brings, which needs no word.
    fn access_method(&mut self, node: &SyntaxNode) -> PrintResult {
        let place = node.parent().and_then(|parent| parent.parent());
        if place.is_some_and(|place| place.kind() == CREATE_TABLE) {
            return Err(self.refuse(
                node,
                "the storage method of a table",
                "Take USING out: tables are stored as heap.",
            ));
        }
        self.print_word(node, names::INDEX_METHODS, "an index method")
    }

    /// An operator class or a collation: the server's own.
    fn catalog_object(&mut self, node: &SyntaxNode) -> PrintResult {
        let path = self.path(node)?;
        if node.kind() == OP_CLASS_REF && !path.last().is_some_and(|name| names::OP_CLASSES.contains(name)) {
            let what = format!("the operator class {}", path.join("."));
            return Err(self.refuse(node, &what, "Use one of PostgreSQL's own; a plugin has no extensions."));
        }
        match path.as_slice() {
            [name] => self.put(&names::in_catalog(name)),
            [schema, name] if schema == "pg_catalog" => self.put(&names::in_catalog(name)),
            path => {
                let fix = "Use one of PostgreSQL's own.";
                Err(self.refuse(node, &format!("the name {}", path.join(".")), fix))
            }
        }
    }

    fn print_word(&mut self, node: &SyntaxNode, allowed: Words, what: &str) -> PrintResult {
        let name = self.only_name(node)?;
        match allowed.contains(&name) {
            true => self.put(&name),
            false => {
                Err(self.refuse(node, &format!("{what} called {name}"), format!("Use one of {}.", allowed.list())))
            }
        }
    }

    fn hash_bound(&mut self, node: &SyntaxNode) -> PrintResult {
        for child in node.children_with_tokens() {
            match (child.as_node(), child.as_token()) {
                (Some(child), _) => self.node(child)?,
                (_, Some(token)) if token.kind() == IDENT => match lexis::name(self.text, token)?.as_str() {
                    word @ ("modulus" | "remainder") => self.word(word),
                    _ => return Err(self.refuse(node, "a bound", "Write MODULUS and REMAINDER.")),
                },
                (_, Some(token)) => self.token(token, &[])?,
                _ => {}
            }
        }
        Ok(())
    }

    fn refuse(&self, node: &SyntaxNode, what: &str, fix: impl Into<String>) -> SchemaError {
        SchemaError::node(self.text, node, what, fix)
    }
}

/// UNKNOWN is a value behind IS alone, and a name elsewhere.
fn is_truth_value(node: &SyntaxNode, name: &str) -> bool {
    let Some(parent) = node.parent() else { return false };
    let is_behind_is = parent.children_with_tokens().any(|it| matches!(it.kind(), IS_KW | IS_NOT));
    name == "unknown" && parent.kind() == BIN_EXPR && is_behind_is && parent.last_child().as_ref() == Some(node)
}

fn child_tokens(node: &SyntaxNode) -> impl Iterator<Item = SyntaxToken> {
    node.descendants_with_tokens().filter_map(|it| it.into_token()).filter(|token| !lexis::is_trivia(token.kind()))
}

fn is_function_behind_a_dot(name: &str) -> bool {
    names::is_other_function(name) || quadratic::takes_long_alone(name)
}
