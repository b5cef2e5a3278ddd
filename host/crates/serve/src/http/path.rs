//! Which spellings of a path are taken at all.
//!
//! Two spellings of one path are how a request walks past a check: the proxy would forward what
//! the admin API refuses, a plugin would see what its prefix does not cover. So a path that names
//! one of our own in any other than its plain spelling is an error, not a guess.

use std::borrow::Cow;

use http::uri::PathAndQuery;

use crate::http::error::{ApiError, ApiResult};
use cardinal_base::{codes, config::own_paths::is_own};

/// Below this, plugins serve: `{prefix}` is a plugin's.
pub(crate) const PLUGIN_ROOT: &str = "/v1/admin/plugins/";
/// The paths below it, as the log calls them while the plugin's own route is not known.
pub const PLUGIN_PATHS: [&str; 3] =
    ["/v1/admin/plugins/{prefix}", "/v1/admin/plugins/{prefix}/", "/v1/admin/plugins/{prefix}/{*rest}"];

/// The longest path and query together.
pub(crate) const URI_LIMIT: usize = 8 * 1024;

/// Refuses what is too long, has control bytes, or spells one of our own paths unusually.
pub fn check(uri: &http::Uri) -> ApiResult<()> {
    let path = uri.path();
    if uri.path_and_query().map_or(0, |both: &PathAndQuery| both.as_str().len()) > URI_LIMIT {
        return Err(ApiError::new(&codes::URI_TOO_LONG));
    }
    if !path.starts_with('/') {
        return Err(refused("The path does not begin with a slash."));
    }
    let plain = path.bytes().all(|byte| !matches!(byte, b'%' | b'\\' | b';'))
        && !path.contains("//")
        && !path.split('/').any(|segment| segment == "." || segment == "..");
    if plain {
        return Ok(());
    }
    let decoded = percent_encoding::percent_decode_str(path).collect::<Vec<u8>>();
    if decoded.iter().any(|byte| *byte < 0x20 || *byte == 0x7f) {
        return Err(refused("The path contains control characters."));
    }
    let Ok(decoded) = String::from_utf8(decoded) else {
        return Err(refused("The path is not UTF-8."));
    };
    // One that leads out of ours again is no better: who reads it by its beginning takes it for ours.
    if !is_own(&resolve(&decoded)) && !is_own_decoded_again(&decoded) && !is_own(&decoded) {
        return Ok(()); // the proxy forwards it as it came
    }
    // Below our own paths a parameter may be percent-encoded; the structure may not be.
    let structure = path.contains("//")
        || path.contains('\\')
        || path.split('/').any(|segment| matches!(decode(segment).as_str(), "." | ".."))
        || path_without_name(path).split('/').any(|segment| decode(segment).contains(['/', '\\']))
        || !is_own_plainly(path);
    if structure { Err(refused("The path is not in its plain spelling.")) } else { Ok(()) }
}

/// The path without the name at its end that may hold anything a plugin puts into it: the key of a card's source. It is
/// read as one segment and leads nowhere.
fn path_without_name(path: &str) -> &str {
    let segments: [&str; 7] = match path.splitn(7, '/').collect::<Vec<_>>().try_into() {
        Ok(segments) => segments,
        Err(_) => return path,
    };
    let ["", "v1", "admin", "master-cards", _, "sources", name] = segments else { return path };
    let climbs = || decode(name).split(['/', '\\']).any(|segment| matches!(segment, "." | ".."));
    if name.contains('/') || climbs() { path } else { &path[..path.len() - name.len()] }
}

/// A server that decodes its path twice must not find one of ours in it either.
fn is_own_decoded_again(decoded: &str) -> bool {
    decoded.contains('%') && is_own(&resolve(&decode(decoded)))
}

/// Whether some segment climbs, in whatever spelling: what is proxied below a prefix stays below it.
pub(crate) fn climbs(path: &str) -> bool {
    let climbing = |path: &str| path.split(['/', '\\']).any(|segment| without_parameters(segment) == "..");
    if !path.contains('%') {
        return path.contains("..") && climbing(path);
    }
    let once = decode(path);
    climbing(&once) || (once.contains('%') && climbing(&decode(&once)))
}

/// Some servers take what follows a semicolon for a parameter of the segment, not for its name.
fn without_parameters(segment: &str) -> &str {
    segment.split(';').next().unwrap_or(segment)
}

/// Whether a path is ours and not for the public: everything but health and the error pages.
pub(crate) fn is_private(path: &str) -> bool {
    is_own(path) && !["/healthz", "/readyz"].contains(&path) && !path.starts_with("/problems")
}

/// The fixed parts of our paths must come unencoded; only what follows the resource may not.
fn is_own_plainly(path: &str) -> bool {
    is_own(path)
        && path.split('/').take(if path.starts_with("/v1/") { 4 } else { 2 }).all(|segment| !segment.contains('%'))
}

/// The path as a log may show it: a segment that holds a credential is masked. None belongs there, and people put them
/// there all the same.
pub(crate) fn for_log(path: &str) -> Cow<'_, str> {
    if !path.split('/').any(holds_credential) {
        return Cow::Borrowed(path);
    }
    let shown = path.split('/').map(|segment| if holds_credential(segment) { "***" } else { segment });
    Cow::Owned(shown.collect::<Vec<_>>().join("/"))
}

/// A key, a login token, or a JWT, whose header is a JSON object.
fn holds_credential(segment: &str) -> bool {
    let telling = |text: &str| ["mpk_", "mps_", "eyJ"].iter().any(|prefix| text.contains(prefix));
    telling(segment) || segment.contains('%') && telling(&decode(segment))
}

fn decode(segment: &str) -> String {
    percent_encoding::percent_decode_str(segment).decode_utf8_lossy().into_owned()
}

/// The path with empty, `.` and `..` segments worked off.
fn resolve(path: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    for segment in path.split(['/', '\\']) {
        match without_parameters(segment) {
            "" | "." => {}
            ".." => {
                kept.pop();
            }
            segment => kept.push(segment),
        }
    }
    format!("/{}", kept.join("/"))
}

fn refused(detail: &str) -> ApiError {
    ApiError::new(&codes::INVALID_REQUEST).detail(detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(path: &str) -> bool {
        check(&path.parse().unwrap()).is_ok()
    }

    #[test]
    fn our_own_paths_come_in_one_spelling() {
        for path in [
            "/v1/admin/master-cards",
            "/admin/",
            "/api",
            "/v1/admin/master-cards/1/sources/supplier%3Ashop.example",
            "/v1/admin/master-cards/1/sources/echo:a%2Fb%5Cc",
        ] {
            assert!(taken(path), "{path}");
        }
        for path in [
            "/%761/admin/users",
            "/v1//admin/users",
            "//v1/admin/users",
            "/x/../v1/admin/users",
            "/v1/admin/plugins/echo/%2e%2e/%2e%2e/users",
            "/v1/admin/plugins/echo/..%2f..%2fusers",
            "/v1/%61dmin/users",
            "/v1/admin/master-cards/1/sources/echo:%2F..%2F..%2Fusers",
            "/v1/admin/master-cards/1/sources/%5C..%5C..",
            "/v1/admin/master-cards/1%2F2/sources/echo:a",
            "/v1/admin/master-cards/1/sources/echo:a%2Fb/more",
            "/./admin/",
            "/shop/%2e%2e/admin/",
            "/v1/admin/x%00y",
            "/admin;x/",
            "/x/..;/admin/",
            "/%2561dmin/",
            "/shop/..\\admin",
            "/admin/../x",
            "/api/%2e%2e/x",
            "/v1/../shop",
            "/healthz/../shop",
            "/problems/%2E./shop",
        ] {
            assert!(!taken(path), "{path}");
        }
    }

    #[test]
    fn health_and_error_pages_are_for_everybody() {
        assert!(["/v1/admin/users", "/api", "/admin/", "/metrics"].into_iter().all(is_private));
        assert!(!["/healthz", "/readyz", "/problems/not-found", "/shop"].into_iter().any(is_private));
    }

    #[test]
    fn the_proxys_paths_are_left_as_they_are() {
        for path in ["/shop/a%20b", "/shop//double", "/shop/./here", "/apiary/x%2Fy", "/shop/a;b=c", "/shop/100%25"] {
            assert!(taken(path), "{path}");
            assert!(!climbs(path), "{path}");
        }
    }

    #[test]
    fn nothing_climbs_out_of_its_prefix() {
        for path in
            ["/a/../b", "/a/..", "/a/%2e%2e/b", "/a/.%2E", "/a/..%2fb", "/a/%252e%252e/b", "/a/..;x/b", "/a/..%5cb"]
        {
            assert!(climbs(path), "{path}");
        }
        for path in ["/a/...", "/a/..b", "/a/b..", "/a/.", "/a/%2e"] {
            assert!(!climbs(path), "{path}");
        }
    }

    /// What upstreams make of a path before they look at it: decoded, backslashes turned, parameters cut off, dot
    /// segments and empty ones worked off, letters folded.
    fn as_an_upstream_reads_it(path: &str) -> String {
        let turned = decode(path).replace('\\', "/");
        let mut kept: Vec<&str> = Vec::new();
        for segment in turned.split('/').map(|segment| segment.split(';').next().unwrap()) {
            match segment {
                "" | "." => {}
                ".." => drop(kept.pop()),
                segment => kept.push(segment),
            }
        }
        format!("/{}", kept.join("/")).to_ascii_lowercase()
    }

    /// Paths put together from what aliases are made of.
    fn crooked_paths() -> impl proptest::strategy::Strategy<Value = String> {
        let piece = proptest::sample::select(vec![
            "/",
            "//",
            "/./",
            "/../",
            "\\",
            ";",
            ";x=1",
            "%2f",
            "%5C",
            "%2e",
            "%2E%2e",
            "..",
            ".",
            "%252e",
            "%2561",
            "%61",
            "a",
            "dmin",
            "Admin",
            "admin",
            "v1",
            "V1",
            "%761",
            "api",
            "apiary",
            "shop",
            "x",
            "healthz",
            "problems",
            "metrics",
            ".well-known",
            "oauth-protected-resource",
            "%3b",
        ]);
        proptest::strategy::Strategy::prop_map(proptest::collection::vec(piece, 0..8), |pieces| {
            format!("/{}", pieces.concat())
        })
    }

    proptest::proptest! {
        #![proptest_config(proptest::prelude::ProptestConfig::with_cases(20_000))]
        #[test]
        fn what_is_left_to_the_proxy_is_no_alias_of_ours(path in crooked_paths()) {
            let uri: http::Uri = path.parse().unwrap();
            if check(&uri).is_ok() && !is_own(&path) {
                let read = as_an_upstream_reads_it(&path);
                proptest::prop_assert!(!is_own(&read), "{path} is read as {read}");
                let again = as_an_upstream_reads_it(&read);
                proptest::prop_assert!(!is_own(&again), "{path} is read twice as {again}");
            }
        }
    }

    #[test]
    fn a_log_shows_no_credential_of_a_path() {
        assert_eq!(for_log("/v1/admin/api-keys/mpk_abc/rotate"), "/v1/admin/api-keys/***/rotate");
        assert_eq!(for_log("/x/mp%73_abc/eyJhbGciOiJFUzM4NCJ9.a.b"), "/x/***/***");
        assert!(matches!(for_log("/v1/admin/master-cards"), Cow::Borrowed(_)));
    }
}
