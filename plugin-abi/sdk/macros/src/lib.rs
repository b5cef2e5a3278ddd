//! The macros behind `cardinal_plugin::plugin!` and `#[derive(FromRow)]`. The crate depends on nothing, so that it
//! costs a plugin's build nothing.

#![deny(missing_docs)]

mod from_row;
mod json;
mod manifest;
mod package;
mod sources;

use proc_macro::{Delimiter, Group, Ident, Literal, Punct, Spacing, Span, TokenStream, TokenTree};

/// Makes the crate that it stands in a Cardinal plugin. It takes the path of the plugin's `routes` function:
///
/// ```ignore
/// cardinal_plugin::plugin!(routes::routes);
/// ```
///
/// `routes` is `fn(&PluginContext) -> Router`, or returns a `Result<Router>`. The macro stands once, in the crate root.
/// The crate is a `cdylib`, is built with `panic = "unwind"`, and may `#![forbid(unsafe_code)]`.
///
/// The library carries, in sections of its own that a host can read without running it, a header (API version, panic
/// strategy, target) and the package: `manifest.json` (which must be there), `schema.sql` and all files below
/// `frontend/`, read when the crate is compiled from beside `Cargo.toml`. Names that begin with a dot are left out, and
/// links are refused. A change of one of these files rebuilds the plugin; a file that is *added* is seen at the next
/// rebuild.
///
/// The manifest is checked as far as that is possible without running anything. What the host would refuse for its
/// names, and handlers that are nowhere in the sources, are compile errors with the manifest's line.
/// `cardinal plugin check` looks at the rest.
#[proc_macro]
pub fn plugin(input: TokenStream) -> TokenStream {
    expand(input).unwrap_or_else(|message| compile_error(&message))
}

/// Implements `cardinal_plugin::FromRow` for a struct with named fields: each field reads the column of its name.
///
/// * `#[row(name = "column")]` reads another column.
/// * `#[row(json)]` reads a `json` or `jsonb` column by serde, as any type that implements `Deserialize`.
///
/// A column that is NULL needs an `Option`. Columns without a field are ignored.
///
/// ```
/// use cardinal_plugin::{Connection, FromRow, Result};
///
/// #[derive(FromRow)]
/// struct Price {
///     sku: String,
///     #[row(name = "price_cents")]
///     cents: Option<i64>,
///     #[row(json)]
///     tags: Vec<String>, // of a jsonb column
/// }
///
/// async fn prices(conn: &Connection) -> Result<Vec<Price>> {
///     conn.query_as("SELECT sku, price_cents, tags FROM prices", &[]).await
/// }
/// ```
#[proc_macro_derive(FromRow, attributes(row))]
pub fn derive_from_row(input: TokenStream) -> TokenStream {
    from_row::derive(input).unwrap_or_else(|message| compile_error(&message))
}

fn expand(routes: TokenStream) -> Result<TokenStream, String> {
    if routes.is_empty() {
        return Err("plugin! takes the path of a function: `cardinal_plugin::plugin!(routes::routes);`".to_owned());
    }
    let root = std::env::var("CARGO_MANIFEST_DIR").map_err(|_| "plugin! works in a build by cargo only".to_owned())?;
    let root = std::path::Path::new(&root);
    let files = package::find(root)?;
    let text = std::fs::read_to_string(&files[0].path).map_err(|error| format!("{}: {error}", files[0].path))?;
    let names: Vec<_> = files.iter().map(|file| file.name.as_str()).collect();
    manifest::check(&files[0].path, &text, &names, &sources::Sources::read(&root.join("src")))?;
    let mut entries = String::new();
    for file in &files {
        entries.push_str(&format!("({:?}, include_bytes!({:?})),", file.name, file.path));
    }
    let code = TEMPLATE.replace("$FILES", &entries).replace("$MANIFEST", &format!("{:?}", files[0].path));
    let code: TokenStream = code.parse().map_err(|error| format!("plugin! wrote code that does not parse: {error}"))?;
    Ok(put(code, &routes))
}

/// What `plugin!` writes. `ROUTES` stands for the author's path. All that needs no symbol or section
/// of its own is in the SDK: the unsafe attributes here pass a plugin's `#![forbid(unsafe_code)]`,
/// because that lint, as most, does not look into the macros of other crates.
const TEMPLATE: &str = r#"
const _: () = {
    #[cfg(panic = "abort")]
    compile_error!("a panic would end the whole host: take `panic = \"abort\"` out of the profile in Cargo.toml");

    struct ThisPlugin;

    impl ::cardinal_plugin::__private::Plugin for ThisPlugin {
        const MANIFEST: &'static [u8] = include_bytes!($MANIFEST);
        fn routes(ctx: &::cardinal_plugin::PluginContext) -> ::cardinal_plugin::Result<::cardinal_plugin::Router> {
            ::cardinal_plugin::IntoRouter::into_router(ROUTES(ctx))
        }
    }

    #[unsafe(export_name = "cardinal_plugin_1")]
    pub static ENTRY: ::cardinal_plugin::__private::Entry = ::cardinal_plugin::__private::entry::<ThisPlugin>();

    #[used]
    #[cfg_attr(target_vendor = "apple", unsafe(link_section = "__DATA,.crd_hdr"))]
    #[cfg_attr(not(target_vendor = "apple"), unsafe(link_section = ".crd_hdr"))]
    static HEADER: ::cardinal_plugin::__private::Header = ::cardinal_plugin::__private::Header::of_this_build();

    const FILES: &[(&str, &[u8])] = &[$FILES];
    const SIZE: usize = ::cardinal_plugin::__private::package_size(FILES);

    #[used]
    #[cfg_attr(target_vendor = "apple", unsafe(link_section = "__DATA,.crd_pkg"))]
    #[cfg_attr(not(target_vendor = "apple"), unsafe(link_section = ".crd_pkg"))]
    static PACKAGE: [u8; SIZE] = ::cardinal_plugin::__private::write_package(FILES);
};
"#;

/// Puts the author's path, with its own spans, in place of `ROUTES`.
fn put(code: TokenStream, routes: &TokenStream) -> TokenStream {
    let mut out = TokenStream::new();
    for token in code {
        match token {
            TokenTree::Ident(ident) if ident.to_string() == "ROUTES" => out.extend(routes.clone()),
            TokenTree::Group(group) => {
                let mut inner = Group::new(group.delimiter(), put(group.stream(), routes));
                inner.set_span(group.span());
                out.extend([TokenTree::Group(inner)]);
            }
            other => out.extend([other]),
        }
    }
    out
}

fn compile_error(message: &str) -> TokenStream {
    let literal = TokenTree::Literal(Literal::string(message));
    let arguments = Group::new(Delimiter::Parenthesis, literal.into());
    TokenStream::from_iter([
        TokenTree::Ident(Ident::new("compile_error", Span::call_site())),
        TokenTree::Punct(Punct::new('!', Spacing::Alone)),
        TokenTree::Group(arguments),
        TokenTree::Punct(Punct::new(';', Spacing::Alone)),
    ])
}
