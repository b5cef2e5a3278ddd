//! `#[derive(FromRow)]`: a struct of the columns that its fields are named after.

use proc_macro::{Delimiter, Group, TokenStream, TokenTree};

/// A field, and how its column is read.
struct Field {
    name: String,
    column: String,
    is_json: bool,
}

/// The implementation for the struct in `input`.
pub(crate) fn derive(input: TokenStream) -> Result<TokenStream, String> {
    let mut tokens = input.into_iter().peekable();
    let mut name = None;
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Ident(word) if word.to_string() == "struct" => {
                name = tokens.next().map(|name| name.to_string());
                break;
            }
            TokenTree::Ident(word) if matches!(word.to_string().as_str(), "enum" | "union") => break,
            _ => {}
        }
    }
    let name = name.ok_or("FromRow is derived for structs with named fields")?;
    match tokens.next() {
        Some(TokenTree::Group(body)) if body.delimiter() == Delimiter::Brace => implement(&name, &fields(&body)?),
        Some(TokenTree::Punct(sign)) if sign.as_char() == '<' => {
            Err(format!("FromRow is derived for structs without parameters, which `{name}` has"))
        }
        _ => Err(format!("FromRow is derived for structs with named fields; for `{name}`, ask for a tuple")),
    }
}

fn implement(name: &str, fields: &[Field]) -> Result<TokenStream, String> {
    let mut body = String::new();
    for Field { name, column, is_json } in fields {
        let read = match is_json {
            true => format!("::cardinal_plugin::__private::json_column(row, {column:?})?"),
            false => format!("::cardinal_plugin::Row::try_get(row, {column:?})?"),
        };
        body.push_str(&format!("{name}: {read},"));
    }
    let code = format!(
        "impl ::cardinal_plugin::FromRow for {name} {{
            fn from_row(row: &::cardinal_plugin::Row) -> ::cardinal_plugin::Result<Self> {{
                ::core::result::Result::Ok(Self {{ {body} }})
            }}
        }}"
    );
    code.parse().map_err(|error| format!("FromRow wrote code that does not parse: {error}"))
}

/// The fields between a struct's braces: attributes, visibility, name, `:`, a type up to the next comma outside `<>`.
fn fields(body: &Group) -> Result<Vec<Field>, String> {
    let mut fields = Vec::new();
    let mut tokens = body.stream().into_iter().peekable();
    let (mut column, mut is_json) = (None, false);
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Punct(sign) if sign.as_char() == '#' => {
                if let Some(TokenTree::Group(attribute)) = tokens.next() {
                    attributes(&attribute, &mut column, &mut is_json)?;
                }
            }
            TokenTree::Ident(word) => {
                let is_name = matches!(tokens.peek(), Some(TokenTree::Punct(sign)) if sign.as_char() == ':');
                if !is_name {
                    continue; // `pub`, whose `(crate)` comes as a group
                }
                let name = word.to_string();
                let plain = name.strip_prefix("r#").unwrap_or(&name).to_owned();
                fields.push(Field { column: column.take().unwrap_or(plain), name, is_json });
                is_json = false;
                skip_type(&mut tokens);
            }
            _ => {}
        }
    }
    Ok(fields)
}

/// Goes past a type, to behind its comma.
fn skip_type(tokens: &mut impl Iterator<Item = TokenTree>) {
    let (mut depth, mut before) = (0_i32, ' ');
    for token in tokens {
        let TokenTree::Punct(sign) = token else {
            before = ' ';
            continue;
        };
        match sign.as_char() {
            '<' => depth += 1,
            '>' if before != '-' => depth -= 1,
            ',' if depth == 0 => return,
            _ => {}
        }
        before = sign.as_char();
    }
}

/// What `#[row(...)]` says; other attributes are not ours.
fn attributes(attribute: &Group, column: &mut Option<String>, is_json: &mut bool) -> Result<(), String> {
    let mut tokens = attribute.stream().into_iter();
    let is_ours = matches!(tokens.next(), Some(TokenTree::Ident(word)) if word.to_string() == "row");
    let Some(TokenTree::Group(inside)) = tokens.next().filter(|_| is_ours) else { return Ok(()) };
    let unknown = |found: &str| format!("`#[row(...)]` takes `name = \"column\"` and `json`, not `{found}`");
    let mut tokens = inside.stream().into_iter();
    while let Some(token) = tokens.next() {
        match token.to_string().as_str() {
            "json" => *is_json = true,
            "," => {}
            "name" => {
                let literal = tokens.nth(1).map(|literal| literal.to_string()).unwrap_or_default();
                let text = literal.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
                *column = Some(text.ok_or_else(|| unknown(&literal))?.to_owned());
            }
            other => return Err(unknown(other)),
        }
    }
    Ok(())
}
