//! A plugin's frontend: files hashed once into memory, served under an address that changes with
//! them.

use std::collections::BTreeMap;

use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;
use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};
use schemars::JsonSchema;
use serde::Serialize;
use sha2::{Digest, Sha256, Sha384};

use cardinal_base::coding::{self, Coding};
use cardinal_package::{
    package::hex,
    refusal::{Code, Refusal},
};

/// Where plugins' files are served.
pub const ROOT: &str = "/admin/assets/plugins";
/// Bytes of the hash; enough to distinguish contents in an address.
const HASH_BYTES: usize = 16;
/// Pages would share the Admin UI's origin.
const PAGES: [&str; 6] = ["html", "htm", "xhtml", "xht", "shtml", "mhtml"];
const UNSAFE_IN_PATH: &AsciiSet =
    &CONTROLS.add(b' ').add(b'"').add(b'#').add(b'%').add(b'<').add(b'>').add(b'?').add(b'`').add(b'{').add(b'}');

/// All frontend files of one package.
#[derive(Debug)]
pub(crate) struct Bundle {
    hash: String,
    files: BTreeMap<String, File>,
    main: MainModule,
}

/// A file in all the codings that it is sent in, made once.
#[derive(Debug)]
struct File {
    plain: Bytes,
    compressed: Vec<(Coding, Bytes)>,
}

/// What the Admin UI loads a plugin by.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "PluginFrontend")]
pub struct MainModule {
    pub main_url: String,
    /// For `integrity`: `sha384-…` of the entry point.
    pub integrity: String,
}

/// A file as it is served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asset {
    pub bytes: Bytes,
    pub content_type: &'static str,
    pub coding: Option<Coding>,
    /// Others may get it in another coding.
    pub varies: bool,
}

impl Bundle {
    /// The files of plugin `name`, whose entry point is `main`.
    pub(crate) fn build(name: &str, main: &str, files: BTreeMap<String, Bytes>) -> Result<Self, Refusal> {
        if let Some(page) = files.keys().find(|path| PAGES.contains(&extension(path).as_str())) {
            return Err(Refusal::new(Code::FrontendInvalid, "A plugin's frontend has no HTML pages.")
                .expected("scripts, styles, images, fonts and data")
                .found(format!("frontend/{page}")));
        }
        let script = files.get(main).ok_or_else(|| {
            let names: Vec<_> = files.keys().take(20).map(String::as_str).collect();
            Refusal::new(Code::FrontendInvalid, "The file that frontend.main names is not there.")
                .expected(format!("frontend/{main}"))
                .found(if names.is_empty() { "no frontend files".to_owned() } else { names.join(", ") })
        })?;
        let integrity = format!("sha384-{}", STANDARD.encode(Sha384::digest(script)));
        let hash = hash(&files);
        let main_url = format!("{ROOT}/{name}/{hash}/{}", utf8_percent_encode(main, UNSAFE_IN_PATH));
        let files = files.into_iter().map(|(path, plain)| {
            let file = File::new(&path, plain);
            (path, file)
        });
        let files = files.collect();
        Ok(Self { hash, files, main: MainModule { main_url, integrity } })
    }

    pub(crate) fn main(&self) -> &MainModule {
        &self.main
    }

    /// The file at `path`, percent-encoded as it came; only under the bundle's own hash. In the coding that the client
    /// likes best.
    pub(crate) fn asset(&self, hash: &str, path: &str, accept_encoding: &str) -> Option<Asset> {
        let path = percent_decode_str(path).decode_utf8().ok()?;
        let file = self.files.get(path.as_ref()).filter(|_| hash == self.hash)?;
        let preferred = Coding::preferred(accept_encoding, &Coding::PREPARED);
        let compressed = file.compressed.iter().find(|(coding, _)| preferred == Some(*coding));
        let (coding, bytes) = compressed.map_or((None, &file.plain), |(coding, bytes)| (Some(*coding), bytes));
        let (bytes, varies) = (bytes.clone(), !file.compressed.is_empty());
        Some(Asset { bytes, content_type: content_type(&path), coding, varies })
    }
}

impl File {
    fn new(path: &str, plain: Bytes) -> Self {
        let codings = if coding::shrinks(content_type(path)) { &Coding::PREPARED[..] } else { &[] };
        let forms = codings.iter().filter_map(|coding| Some((*coding, coding::file(*coding, &plain)?)));
        Self { compressed: forms.collect(), plain }
    }
}

fn hash(files: &BTreeMap<String, Bytes>) -> String {
    let mut hash = Sha256::new();
    for (path, data) in files {
        hash.update(path.as_bytes());
        hash.update([0]);
        hash.update((data.len() as u64).to_le_bytes());
        hash.update(data);
    }
    hex(&hash.finalize()[..HASH_BYTES])
}

fn extension(path: &str) -> String {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.rsplit_once('.').map(|(_, extension)| extension.to_ascii_lowercase()).unwrap_or_default()
}

fn content_type(path: &str) -> &'static str {
    match extension(path).as_str() {
        "js" | "mjs" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "json" | "map" => "application/json",
        "txt" | "md" => "text/plain; charset=utf-8",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "gif" => "image/gif",
        "webp" => "image/webp",
        "avif" => "image/avif",
        "ico" => "image/x-icon",
        "woff" => "font/woff",
        "woff2" => "font/woff2",
        "ttf" => "font/ttf",
        "wasm" => "application/wasm",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(names: &[&str]) -> BTreeMap<String, Bytes> {
        names.iter().map(|name| ((*name).to_owned(), Bytes::from_static(b"export {}"))).collect()
    }

    #[test]
    fn files_are_served_under_their_hash_alone() {
        let bundle = Bundle::build("demo", "plugin.js", files(&["plugin.js", "img/a b.svg"])).unwrap();
        let address = bundle.main().main_url.clone();
        let (hash, path) = address.strip_prefix("/admin/assets/plugins/demo/").unwrap().split_once('/').unwrap();
        assert_eq!(bundle.asset(hash, path, "").unwrap().content_type, "text/javascript; charset=utf-8");
        assert_eq!(bundle.asset(hash, "img/a%20b.svg", "").unwrap().content_type, "image/svg+xml");
        for (hash, path) in [("0", path), (hash, "../plugin.js"), (hash, "%2e%2e/plugin.js"), (hash, "none.js")] {
            assert_eq!(bundle.asset(hash, path, ""), None, "{path}");
        }
        assert!(bundle.main().integrity.starts_with("sha384-"));
    }

    #[test]
    fn a_script_comes_compressed_to_whoever_takes_that() {
        let script = Bytes::from("export const answer = 42;\n".repeat(100));
        let files = [("plugin.js", script.clone()), ("photo.png", script.clone()), ("short.js", "1".into())];
        let files = files.map(|(name, bytes)| (name.to_owned(), bytes)).into_iter().collect();
        let bundle = Bundle::build("demo", "plugin.js", files).unwrap();
        let get = |path, accept| bundle.asset(&bundle.hash, path, accept).unwrap();
        for (accept, coding) in [
            ("zstd, br, gzip", Some(Coding::Brotli)),
            ("gzip", Some(Coding::Gzip)),
            ("zstd", Some(Coding::Zstd)),
            ("identity", None),
        ] {
            let asset = get("plugin.js", accept);
            assert_eq!((asset.coding, asset.varies), (coding, true), "{accept}");
            assert_eq!(asset.bytes.len() < 200, coding.is_some(), "{} bytes", asset.bytes.len());
        }
        for path in ["photo.png", "short.js"] {
            let asset = get(path, "br, gzip");
            assert_eq!((asset.coding, asset.varies), (None, false), "{path}");
        }
        assert_eq!(get("photo.png", "br").bytes, script);
    }

    #[test]
    fn another_file_means_another_address() {
        let address = |names: &[&str]| Bundle::build("demo", "plugin.js", files(names)).unwrap().main.main_url;
        assert_eq!(address(&["plugin.js"]), address(&["plugin.js"]));
        assert_ne!(address(&["plugin.js"]), address(&["plugin.js", "a.js"]));
    }

    #[test]
    fn pages_and_a_missing_entry_point_are_refused() {
        for names in [&["plugin.js", "about.HTML"][..], &["other.js"], &[]] {
            let refusal = Bundle::build("demo", "plugin.js", files(names)).unwrap_err();
            assert_eq!(refusal.code, Code::FrontendInvalid, "{names:?}");
        }
    }
}
