//! The Admin UI's files, embedded in the binary, and how they are answered under `/admin/`.
//!
//! `serve` is a pure function of what a request says; plugins' own files below
//! `/admin/assets/plugins/` are not here but in the plugin registry.

use std::{borrow::Cow, collections::BTreeMap};

use bytes::Bytes;
use http::header::{
    ACCEPT, ACCEPT_ENCODING, ACCESS_CONTROL_ALLOW_ORIGIN, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY,
    CONTENT_TYPE, ETAG, HeaderName, IF_NONE_MATCH, LOCATION, REFERRER_POLICY, VARY, X_CONTENT_TYPE_OPTIONS,
    X_FRAME_OPTIONS,
};
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use parking_lot::Mutex;
use rust_embed::RustEmbed;

use super::entity_tag::names_tag;
use cardinal_base::{
    coding::{self, Coding},
    hex::hex,
};

/// Nothing inline, nothing from elsewhere; strings become HTML only through the page's own sanitizer. Pictures of
/// others come through the host (`/v1/admin/pictures`) and stand in the page as blobs.
pub(crate) const CONTENT_SECURITY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
    img-src 'self' blob: data:; font-src 'self'; connect-src 'self'; frame-src 'self'; base-uri 'none'; \
    form-action 'self'; frame-ancestors 'none'; object-src 'none'; require-trusted-types-for 'script'; \
    trusted-types svelte-trusted-html plugin-html default";

/// The frame in which a plugin's tab runs apart from the page: an origin of its own, no requests but for scripts of
/// ours. What it wants else it asks the page for.
pub(crate) const FRAME_SECURITY: &str = "sandbox allow-scripts; default-src 'none'; script-src 'self'; img-src blob: data:; \
    font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'self'; object-src 'none'; \
    require-trusted-types-for 'script'; trusted-types svelte-trusted-html plugin-html default";

const PERMISSIONS: &str = "camera=(), geolocation=(), microphone=(), payment=(), usb=()";
const HASHED: &str = "assets/";
const PAGE: &str = "index.html";
const FRAME: &str = "frame.html";
const ZSTD_SUFFIX: &str = ".zst";
const FOREVER: &str = "public, max-age=31536000, immutable";
const ALWAYS_ASK: &str = "no-cache";
const NOT_BUILT: &str = "The Admin UI is not part of this build of Cardinal. `scripts/run` builds it in; \
    by hand: npm ci && npm run build in frontend/, then build the host again.\n";

// The folder holds nothing but a `.gitkeep` until the UI is built, and the host compiles without it too.
#[derive(RustEmbed)]
#[folder = "../../../frontend/dist"]
#[allow_missing = true]
struct Dist;

/// A file as it will be sent.
struct File {
    bytes: Bytes,
    sha256: [u8; 32],
}

/// What of a request decides the answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AssetRequest<'a> {
    /// The whole path, beginning with `/admin`.
    pub path: &'a str,
    pub accept_encoding: Option<&'a str>,
    pub if_none_match: Option<&'a str>,
    /// A person opens a page, as against a script that fetches a file.
    pub navigation: bool,
}

impl<'a> AssetRequest<'a> {
    pub(crate) fn new(path: &'a str, headers: &'a HeaderMap) -> Self {
        let text = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
        Self {
            path,
            accept_encoding: text(ACCEPT_ENCODING),
            if_none_match: text(IF_NONE_MATCH),
            navigation: is_navigation(headers),
        }
    }
}

/// Whether the browser says that it opens a page; older ones only say that they would like HTML.
pub(crate) fn is_navigation(headers: &HeaderMap) -> bool {
    match headers.get("sec-fetch-mode") {
        Some(mode) => mode == "navigate",
        None => headers
            .get(ACCEPT)
            .and_then(|accept| accept.to_str().ok())
            .is_some_and(|accept| accept.to_ascii_lowercase().contains("text/html")),
    }
}

/// The answer to a GET of `path` (`/admin` or below it). A 404 has no body: the walk makes the problem.
/// HEAD is the same without the body, which the server leaves out.
pub(crate) fn serve(
    path: &str,
    accept_encoding: Option<&str>,
    if_none_match: Option<&str>,
    navigation: bool,
) -> Response<Bytes> {
    answer(&AssetRequest { path, accept_encoding, if_none_match, navigation }, &embedded)
}

fn embedded(name: &str) -> Option<File> {
    match name.strip_suffix(ZSTD_SUFFIX) {
        Some(plain) => zstd_form(plain),
        None => built(name),
    }
}

/// A file as the build wrote it.
fn built(name: &str) -> Option<File> {
    // Not part of the UI: it keeps the folder in the repository.
    if name.starts_with('.') {
        return None;
    }
    let file = Dist::get(name)?;
    let bytes = match file.data {
        Cow::Borrowed(data) => Bytes::from_static(data),
        Cow::Owned(data) => Bytes::from(data),
    };
    Some(File { bytes, sha256: file.metadata.sha256_hash() })
}

/// The form that the build does not write, made when somebody asks for it, once a file.
fn zstd_form(plain: &str) -> Option<File> {
    static FORMS: Mutex<BTreeMap<String, Option<Bytes>>> = Mutex::new(BTreeMap::new());
    let File { bytes, sha256 } = built(plain)?;
    let mut forms = FORMS.lock();
    let form = forms.entry(plain.to_owned()).or_insert_with(|| coding::file(Coding::Zstd, &bytes));
    form.clone().map(|bytes| File { bytes, sha256 })
}

fn answer(request: &AssetRequest<'_>, files: &dyn Fn(&str) -> Option<File>) -> Response<Bytes> {
    if request.path == "/admin" {
        return redirect("/admin/");
    }
    let name = request.path.strip_prefix("/admin/").unwrap_or_default();
    if name.starts_with(HASHED) {
        return match best_form(name, request.accept_encoding, files) {
            Some(form) => shared(reply(request, &form, name, FOREVER)),
            None => plain(StatusCode::NOT_FOUND, ""),
        };
    }
    if name == FRAME {
        return match best_form(FRAME, request.accept_encoding, files) {
            Some(form) => framed(reply(request, &form, FRAME, ALWAYS_ASK)),
            None => plain(StatusCode::NOT_FOUND, ""),
        };
    }
    if !name.is_empty() && name != PAGE && !request.navigation {
        return plain(StatusCode::NOT_FOUND, "");
    }
    match best_form(PAGE, request.accept_encoding, files) {
        Some(form) => reply(request, &form, PAGE, ALWAYS_ASK),
        None => plain(StatusCode::NOT_FOUND, NOT_BUILT),
    }
}

/// A file in one content coding.
struct Form {
    file: File,
    coding: Option<&'static str>,
}

/// The smallest form of a file that the client takes. The build wrote `.br` and `.gz` where they pay.
fn best_form(name: &str, accept_encoding: Option<&str>, files: &dyn Fn(&str) -> Option<File>) -> Option<Form> {
    let plain = files(name)?;
    let pays = plain.bytes.len() as u64 >= coding::MIN_COMPRESSED_BYTES;
    let coding = accept_encoding.filter(|_| pays).and_then(|accepted| Coding::preferred(accepted, &Coding::PREPARED));
    let suffix = match coding {
        Some(Coding::Brotli) => ".br",
        Some(Coding::Gzip) => ".gz",
        Some(Coding::Zstd) => ZSTD_SUFFIX,
        None => return Some(Form { file: plain, coding: None }),
    };
    Some(match files(&format!("{name}{suffix}")) {
        Some(file) => Form { file, coding: coding.map(Coding::name) },
        None => Form { file: plain, coding: None },
    })
}

fn reply(request: &AssetRequest<'_>, form: &Form, name: &str, cache: &'static str) -> Response<Bytes> {
    let tag = entity_tag(&form.file.sha256, form.coding);
    let unchanged = request.if_none_match.is_some_and(|sent| names_tag(sent, &tag));
    let (status, body) =
        if unchanged { (StatusCode::NOT_MODIFIED, Bytes::new()) } else { (StatusCode::OK, form.file.bytes.clone()) };
    let mut response = guarded(status, body);
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static(cache));
    headers.insert(VARY, HeaderValue::from_static("Accept-Encoding"));
    if let Ok(tag) = HeaderValue::try_from(tag) {
        headers.insert(ETAG, tag);
    }
    if !unchanged {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type(name)));
        if let Some(coding) = form.coding {
            headers.insert(CONTENT_ENCODING, HeaderValue::from_static(coding));
        }
    }
    response
}

/// The frame's origin is none, so its scripts come from another one. They hold nothing that is not public.
fn shared(mut response: Response<Bytes>) -> Response<Bytes> {
    response.headers_mut().insert(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    response
}

/// The only answer that may stand in a frame, and only in one of ours.
fn framed(mut response: Response<Bytes>) -> Response<Bytes> {
    let headers = response.headers_mut();
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(FRAME_SECURITY));
    headers.insert(X_FRAME_OPTIONS, HeaderValue::from_static("SAMEORIGIN"));
    response
}

/// Each coding is a representation of its own, so it has a tag of its own.
fn entity_tag(sha256: &[u8; 32], coding: Option<&str>) -> String {
    let hash = hex(&sha256[..16]);
    coding.map_or_else(|| format!("\"{hash}\""), |coding| format!("\"{hash}-{coding}\""))
}

fn redirect(to: &'static str) -> Response<Bytes> {
    let mut response = guarded(StatusCode::TEMPORARY_REDIRECT, Bytes::new());
    response.headers_mut().insert(LOCATION, HeaderValue::from_static(to));
    response
}

fn plain(status: StatusCode, text: &'static str) -> Response<Bytes> {
    let mut response = guarded(status, Bytes::from_static(text.as_bytes()));
    if !text.is_empty() {
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    }
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Every answer here carries the browser's guards, whichever file a later page may turn out to be.
fn guarded(status: StatusCode, body: Bytes) -> Response<Bytes> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    for (name, value) in [
        (CONTENT_SECURITY_POLICY, CONTENT_SECURITY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (X_FRAME_OPTIONS, "DENY"),
        (REFERRER_POLICY, "no-referrer"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (HeaderName::from_static("permissions-policy"), PERMISSIONS),
    ] {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

fn media_type(name: &str) -> &'static str {
    match name.rsplit_once('.').map_or("", |(_, extension)| extension) {
        "html" => "text/html; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "svg" => "image/svg+xml",
        "json" => "application/json",
        "woff2" => "font/woff2",
        "png" => "image/png",
        "webp" => "image/webp",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const SCRIPT: &str = "/admin/assets/index-abc.js";

    /// A small build: a page and a script with all codings, a short page with one that does not pay, an icon that was
    /// not worth compressing. What a file has in it begins with its name.
    fn build(name: &str) -> Option<File> {
        let text = match name {
            "index.html"
            | "index.html.br"
            | "index.html.gz"
            | "assets/index-abc.js"
            | "assets/index-abc.js.br"
            | "assets/index-abc.js.gz"
            | "assets/index-abc.js.zst"
            | "assets/icon-abc.svg" => format!("{name:1024}"),
            "frame.html" | "frame.html.br" => name.to_owned(),
            _ => return None,
        };
        let mut sha256 = [0; 32];
        sha256[0] = u8::try_from(name.len()).unwrap();
        Some(File { bytes: Bytes::from(text), sha256 })
    }

    fn get(
        path: &str,
        accept_encoding: Option<&str>,
        if_none_match: Option<&str>,
        navigation: bool,
    ) -> Response<Bytes> {
        answer(&AssetRequest { path, accept_encoding, if_none_match, navigation }, &build)
    }

    fn text(response: &Response<Bytes>) -> &str {
        std::str::from_utf8(response.body()).unwrap().trim_end()
    }

    fn header(response: &Response<Bytes>, name: &str) -> String {
        response.headers().get(name).map(|value| value.to_str().unwrap().to_owned()).unwrap_or_default()
    }

    #[test]
    fn a_hashed_file_is_immutable_and_comes_in_the_best_coding() {
        for (accept, coding, body) in [
            (Some("gzip, deflate, br, zstd"), "br", "assets/index-abc.js.br"),
            (Some("gzip;q=1.0, br;q=0"), "gzip", "assets/index-abc.js.gz"),
            (Some("gzip, br;q=0.5"), "gzip", "assets/index-abc.js.gz"),
            (Some("zstd"), "zstd", "assets/index-abc.js.zst"),
            (Some("zstd, gzip;q=0.5"), "zstd", "assets/index-abc.js.zst"),
            (Some("*"), "br", "assets/index-abc.js.br"),
            (Some("identity"), "", "assets/index-abc.js"),
            (None, "", "assets/index-abc.js"),
        ] {
            let response = get(SCRIPT, accept, None, false);
            assert_eq!(response.status(), StatusCode::OK);
            assert_eq!(header(&response, "content-encoding"), coding, "{accept:?}");
            assert_eq!(text(&response), body);
            assert_eq!(header(&response, "cache-control"), FOREVER);
            assert_eq!(header(&response, "content-type"), "text/javascript; charset=utf-8");
            assert_eq!(header(&response, "vary"), "Accept-Encoding");
        }
    }

    #[test]
    fn a_file_that_has_no_compressed_form_comes_as_it_is() {
        let response = get("/admin/assets/icon-abc.svg", Some("br, gzip"), None, false);
        assert_eq!(text(&response), "assets/icon-abc.svg");
        assert_eq!(header(&response, "content-encoding"), "");
    }

    #[test]
    fn the_page_is_asked_for_again_each_time_and_unchanged_costs_no_body() {
        let first = get("/admin/", Some("br"), None, true);
        assert_eq!(header(&first, "cache-control"), "no-cache");
        let tag = header(&first, "etag");
        let again = get("/admin/cards", Some("br"), Some(&format!("\"other\", W/{tag}")), true);
        assert_eq!(again.status(), StatusCode::NOT_MODIFIED);
        assert!(again.body().is_empty());
        assert_eq!(header(&again, "etag"), tag);
        // Another coding is another representation.
        assert_eq!(get("/admin/", Some("gzip"), Some(&tag), true).status(), StatusCode::OK);
    }

    #[test]
    fn unknown_pages_give_the_app_to_navigations_only() {
        assert_eq!(text(&get("/admin/cards/42", None, None, true)), "index.html");
        let fetched = get("/admin/cards/42", None, None, false);
        assert_eq!(fetched.status(), StatusCode::NOT_FOUND);
        assert!(fetched.body().is_empty());
        // A missing file is missing for everybody: a page in its place would be run as a script.
        assert_eq!(get("/admin/assets/old-chunk.js", None, None, true).status(), StatusCode::NOT_FOUND);
        assert_eq!(get("/admin/assets/../index.html", None, None, false).status(), StatusCode::NOT_FOUND);
        assert_eq!(get("/admin/", None, None, false).status(), StatusCode::OK);
    }

    #[test]
    fn the_root_without_its_slash_redirects() {
        let response = get("/admin", None, None, true);
        assert_eq!(response.status(), StatusCode::TEMPORARY_REDIRECT);
        assert_eq!(header(&response, "location"), "/admin/");
    }

    #[test]
    fn every_answer_is_guarded() {
        for path in ["/admin", "/admin/", SCRIPT, "/admin/assets/none.js"] {
            let response = get(path, None, None, true);
            let policy = header(&response, "content-security-policy");
            assert!(policy.starts_with("default-src 'none'") && policy.contains("require-trusted-types-for 'script'"));
            assert!(!policy.contains("unsafe") && !policy.contains("  "), "{policy}");
            assert_eq!(header(&response, "x-content-type-options"), "nosniff");
            assert_eq!(header(&response, "x-frame-options"), "DENY");
        }
    }

    #[test]
    fn only_the_frame_may_be_framed_and_its_scripts_may_be_read_by_an_origin_that_is_none() {
        let frame = get("/admin/frame.html", Some("br"), None, true);
        assert_eq!((text(&frame), header(&frame, "content-encoding").as_str()), ("frame.html", ""), "it is short");
        let policy = header(&frame, "content-security-policy");
        assert!(policy.starts_with("sandbox allow-scripts;") && policy.contains("frame-ancestors 'self'"), "{policy}");
        assert!(!policy.contains("allow-same-origin") && !policy.contains("unsafe") && !policy.contains("connect-src"));
        assert_eq!(header(&frame, "x-frame-options"), "SAMEORIGIN");
        assert_eq!(header(&frame, "access-control-allow-origin"), "");
        assert_eq!(header(&get(SCRIPT, None, None, false), "access-control-allow-origin"), "*");
        assert_eq!(header(&get("/admin/", None, None, true), "access-control-allow-origin"), "");
    }

    #[test]
    fn a_host_without_the_ui_says_so() {
        let request = AssetRequest { path: "/admin/", accept_encoding: None, if_none_match: None, navigation: true };
        let response = answer(&request, &|_| None);
        assert_eq!(response.status(), StatusCode::NOT_FOUND);
        assert_eq!(response.body(), NOT_BUILT);
    }

    #[test]
    fn what_was_built_is_embedded_and_its_placeholder_is_not_served() {
        let built = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../frontend/dist/index.html");
        assert_eq!(embedded(PAGE).is_some(), std::path::Path::new(built).exists());
        assert!(embedded(".gitkeep").is_none());
    }

    #[test]
    fn a_navigation_is_what_the_browser_calls_one() {
        let headers = |pairs: &[(&'static str, &'static str)]| {
            let mut map = HeaderMap::new();
            for (name, value) in pairs {
                map.insert(*name, HeaderValue::from_static(value));
            }
            map
        };
        assert!(is_navigation(&headers(&[("sec-fetch-mode", "navigate")])));
        assert!(!is_navigation(&headers(&[("sec-fetch-mode", "cors"), ("accept", "text/html")])));
        assert!(is_navigation(&headers(&[("accept", "text/html,application/xhtml+xml")])));
        assert!(!is_navigation(&headers(&[("accept", "*/*")])));
        assert!(!is_navigation(&HeaderMap::new()));
    }
}
