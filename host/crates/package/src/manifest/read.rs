//! The rules of contract 5.2, part by part, in the order of the document.

use std::collections::HashSet;

use semver::{Version, VersionReq};
use serde_json::Value;

use super::{
    BODY_LIMIT, Backend, CONCURRENCY_LIMIT, CONNECTIONS_LIMIT, DeclaredRoute, Engine, Limits, Manifest, PATH_LIMIT,
    Problem, Problems, REQUIRES_LIMIT, ROUTES_LIMIT, Warning,
    contributes::{self, Contributes, ContributionContext},
    defaults,
    field::{Field, Findings, LINE_LIMIT, Object, line, scope, shorten, timeout},
    is_kebab, is_plain_relative, is_prefix, is_reserved, jobs, mcp,
};
use crate::refusal::Code;

/// Faults of default settings that are reported together.
const REPORTED_DEFAULTS: usize = 8;

const FIELDS: [&str; 16] = [
    "$schema",
    "name",
    "version",
    "title",
    "description",
    "author",
    "engine",
    "requires",
    "contributes",
    "provides_kinds",
    "reads_kinds",
    "frontend",
    "backend",
    "mcp",
    "settings_schema",
    "limits",
];
const METHODS: &str = "GET, HEAD, POST, PUT, PATCH or DELETE";

pub(super) fn manifest(bytes: &[u8]) -> Result<(Manifest, Vec<Warning>), Problems> {
    let document: Value = json(bytes).map_err(|error| {
        Problems(vec![Problem {
            code: Code::BadManifest,
            pointer: String::new(),
            expected: "a JSON document".to_owned(),
            found: error.to_string(),
        }])
    })?;
    let findings = Findings::default();
    let manifest = whole(&Field::root(&document, &findings));
    let (problems, warnings) = findings.into_parts();
    match manifest {
        Some(manifest) if problems.is_empty() => Ok((manifest, warnings)),
        _ => Err(Problems(problems)),
    }
}

/// Some editors write a byte order mark.
pub(crate) fn json(bytes: &[u8]) -> serde_json::Result<Value> {
    serde_json::from_slice(bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes))
}

/// `None` only with a problem noted; every part is read even when an earlier one is wrong.
fn whole(field: &Field) -> Option<Manifest> {
    let object = field.object()?;
    object.done(&FIELDS);
    if let Some(schema) = object.optional("$schema") {
        schema.string();
    }
    let name = name(&object);
    let known_name = name.as_deref().unwrap_or_default();
    let version = version(&object);
    let engine = engine(&object);
    let provides_kinds = kinds(&object, "provides_kinds");
    let backend = backend(&object, known_name);
    let around = ContributionContext { kinds: &provides_kinds, backend: backend.as_ref() };
    let contributes = contributes::read(&object, &around);
    let frontend_main = frontend_main(&object);
    contributions_and_frontend(&object, &contributes, frontend_main.is_some());
    let (tools, prompts) = mcp::read(&object, known_name);
    let manifest = Manifest {
        title: line(&object, "title"),
        description: text(&object, "description"),
        author: line(&object, "author"),
        requires: requires(&object),
        contributes,
        provides_kinds,
        reads_kinds: kinds(&object, "reads_kinds"),
        frontend_main,
        backend,
        tools,
        prompts,
        settings_schema: settings_schema(&object),
        limits: limits(&object),
        name: String::new(),
        version: Version::new(0, 0, 0),
        engine: Engine { core_version: VersionReq::STAR, plugin_api_version: String::new() },
    };
    Some(Manifest { name: name?, version: version?, engine: engine?, ..manifest })
}

/// Defaults that do not fit are no error: an operator may have to set what has no good default.
fn settings_schema(object: &Object) -> Option<Value> {
    let field = object.optional("settings_schema")?;
    let schema = Value::Object(field.object_schema()?);
    let validator = jsonschema::validator_for(&schema).ok()?;
    for error in validator.iter_errors(&Value::Object(defaults(&schema))).take(REPORTED_DEFAULTS) {
        let place = error.instance_path().to_string();
        let place = if place.is_empty() { "the settings" } else { &place };
        let fault = shorten(&error.to_string());
        field.warn(format!(
            "The default settings do not fit; a host refuses the plugin until an operator sets them: {place}: {fault}."
        ));
    }
    Some(schema)
}

fn name(object: &Object) -> Option<String> {
    let field = object.required("name", "a kebab-case name")?;
    let name = field.string()?;
    if !is_kebab(name) {
        field.wrong(Code::BadName, "kebab-case: a letter, then a-z, 0-9 and single hyphens, at most 40 characters");
        return None;
    }
    if is_reserved(name) {
        field.wrong(Code::ReservedName, "a name that the core does not reserve");
        return None;
    }
    Some(name.to_owned())
}

/// Whether the host has them is for `compat`: the plugin is well-formed either way.
fn requires(object: &Object) -> Vec<String> {
    let fields = object.optional("requires").and_then(|field| field.bounded_array(REQUIRES_LIMIT)).unwrap_or_default();
    fields.iter().filter_map(|field| field.line(LINE_LIMIT)).map(str::to_owned).collect()
}

fn version(object: &Object) -> Option<Version> {
    let field = object.required("version", "a semantic version such as \"1.0.0\"")?;
    let version = Version::parse(field.string()?).ok();
    if version.is_none() {
        field.wrong(Code::BadManifest, "a semantic version such as \"1.0.0\"");
    }
    version
}

fn engine(object: &Object) -> Option<Engine> {
    let engine = object.required("engine", "an object with core_version and plugin_api_version")?.object()?;
    engine.done(&["core_version", "plugin_api_version"]);
    let core = engine.required("core_version", "a version range such as \">=1.0.0\"");
    let api = engine.required("plugin_api_version", "the string \"1\"");
    let core = core.and_then(|field| {
        let range = VersionReq::parse(field.string()?).ok();
        if range.is_none() {
            field.wrong(Code::BadManifest, "a version range such as \">=1.0.0\" or \">=1.0.0, <2\", with commas");
        }
        range
    });
    let api = api.and_then(|field| field.string());
    Some(Engine { core_version: core?, plugin_api_version: api?.to_owned() })
}

fn kinds(object: &Object, name: &str) -> Vec<String> {
    let fields = object.optional(name).and_then(|field| field.array()).unwrap_or_default();
    let mut kinds: Vec<String> = Vec::new();
    for field in fields {
        let Some(kind) = field.line(LINE_LIMIT) else { continue };
        if kinds.iter().any(|known| known == kind) {
            field.warn("This kind is listed twice.");
        } else {
            kinds.push(kind.to_owned());
        }
    }
    kinds
}

fn frontend_main(object: &Object) -> Option<String> {
    let frontend = object.optional("frontend")?.object()?;
    frontend.done(&["main"]);
    let field = frontend.optional("main")?;
    let main = field.string()?;
    // Authors write it relative to the package as often as to its frontend folder.
    let main = main.strip_prefix("./").unwrap_or(main);
    let main = main.strip_prefix("frontend/").unwrap_or(main);
    let script = main.ends_with(".js") || main.ends_with(".mjs");
    if !script || !is_plain_relative(main) {
        field.wrong(Code::BadManifest, "a JavaScript file below frontend/, such as \"plugin.js\"");
        return None;
    }
    Some(main.to_owned())
}

fn contributions_and_frontend(object: &Object, contributes: &Contributes, has_main: bool) {
    if contributes.needs_frontend() && !has_main && frontend_is_absent(object) {
        object.wrong("frontend", Code::BadManifest, "frontend.main, since contributes has something to draw");
    }
    // What is there but wrong has its own problem already.
    let asks_for_it = |list: &str, item: &Value| list != "cardActions" || item.get("route").is_none();
    let has_drawn = ["cardTabs", "pages", "cardActions"].iter().any(|list| {
        let items = object.map.get("contributes").and_then(|contributes| contributes.get(list));
        let all = |items: &Value| items.as_array().is_none_or(|items| items.iter().any(|item| asks_for_it(list, item)));
        items.is_some_and(all)
    });
    if has_main && !contributes.needs_frontend() && !has_drawn {
        let expected = "contributes with a tab, a page or an action to draw, since there is frontend.main";
        object.wrong("contributes", Code::BadManifest, expected);
    }
}

/// A `main` that is there but wrong has its own problem already.
fn frontend_is_absent(object: &Object) -> bool {
    object.optional("frontend").is_none_or(|field| field.value.get("main").is_none())
}

fn backend(object: &Object, plugin: &str) -> Option<Backend> {
    let backend = object.optional("backend")?.object()?;
    backend.done(&["apiPrefix", "routes", "jobs", "schedule"]);
    let api_prefix = match backend.optional("apiPrefix") {
        Some(field) => api_prefix(&field)?,
        None => plugin.to_owned(),
    };
    let jobs = jobs::jobs(&backend);
    let schedule = jobs::schedule(&backend, &jobs);
    Some(Backend { api_prefix, routes: backend.optional("routes").map(|field| routes(&field)), jobs, schedule })
}

fn api_prefix(field: &Field) -> Option<String> {
    let prefix = field.string()?;
    let fits = is_prefix(prefix);
    if !fits {
        field.wrong(Code::BadManifest, "1 to 40 of the characters a-z, 0-9 and -, without slashes");
    }
    fits.then(|| prefix.to_owned())
}

fn routes(field: &Field) -> Vec<DeclaredRoute> {
    let mut seen = HashSet::new();
    let mut routes = Vec::new();
    for field in field.bounded_array(ROUTES_LIMIT).unwrap_or_default() {
        let Some(route) = route(&field) else { continue };
        if !seen.insert((route.method.clone(), without_names(&route.path))) {
            let expected = format!("{} {} only once", route.method, route.path);
            field.wrong(Code::BadManifest, expected);
        }
        routes.push(route);
    }
    routes
}

/// Two paths that differ in the names of their parameters alone lead to the same requests.
fn without_names(path: &str) -> String {
    let segments = path.split('/').map(|segment| match segment.as_bytes() {
        [b'{', b'*', ..] => "{*}",
        [b'{', .., b'}'] => "{}",
        _ => segment,
    });
    segments.collect::<Vec<_>>().join("/")
}

fn route(field: &Field) -> Option<DeclaredRoute> {
    let object = field.object()?;
    object.done(&[
        "method",
        "path",
        "handler",
        "summary",
        "scope",
        "timeout_ms",
        "max_body_bytes",
        "request_schema",
        "response_schema",
    ]);
    let method = object.required("method", METHODS).and_then(|field| method(&field));
    let path = object.required("path", "a path such as \"/items\"").and_then(|field| path(&field));
    let route = DeclaredRoute {
        method: http::Method::GET,
        path: String::new(),
        handler: line(&object, "handler"),
        summary: line(&object, "summary"),
        scope: scope(&object),
        timeout: timeout(&object),
        max_body_bytes: object.optional("max_body_bytes").and_then(|field| field.integer(0..=BODY_LIMIT)),
        request_schema: object.optional("request_schema").and_then(|field| field.schema()),
        response_schema: object.optional("response_schema").and_then(|field| field.schema()),
    };
    Some(DeclaredRoute { method: method?, path: path?, ..route })
}

fn method(field: &Field) -> Option<http::Method> {
    let text = field.string()?;
    let known = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"].contains(&text);
    if !known {
        field.wrong(Code::BadManifest, METHODS);
        return None;
    }
    http::Method::from_bytes(text.as_bytes()).ok()
}

fn path(field: &Field) -> Option<String> {
    let path = field.string()?;
    if let Err(expected) = check_template(path) {
        field.wrong(Code::BadManifest, expected);
        return None;
    }
    Some(path.to_owned())
}

/// Whether `path` is a route template below a plugin's prefix.
pub fn check_template(path: &str) -> Result<(), String> {
    let Some(rest) = path.strip_prefix('/') else { return Err("a path that begins with /".to_owned()) };
    let plain = |b: u8| b.is_ascii_graphic() && !matches!(b, b'?' | b'#' | b'\\' | b'%');
    if path.len() > PATH_LIMIT || !path.bytes().all(plain) {
        return Err(format!("at most {PATH_LIMIT} printable ASCII characters without ? # % and \\"));
    }
    let mut names = HashSet::new();
    let mut segments = rest.split('/').peekable();
    while let Some(segment) = segments.next() {
        let last = segments.peek().is_none(); // only there an empty one is a trailing slash
        if segment == "." || segment == ".." || (segment.is_empty() && !last) {
            return Err("a path without empty, . or .. segments".to_owned());
        }
        if segment.starts_with('{') && !names.insert(segment.trim_start_matches("{*").trim_start_matches('{')) {
            return Err("a path with a name of its own for each parameter".to_owned());
        }
    }
    matchit::Router::new().insert(path, ()).map_err(|error| format!("a path template ({error})"))
}

fn limits(object: &Object) -> Limits {
    let usual = Limits::default();
    let Some(limits) = object.optional("limits").and_then(|field| field.object()) else { return usual };
    limits.done(&["max_concurrency", "timeout_ms", "db_connections"]);
    let count = |name: &str, max: u32| {
        let value = limits.optional(name).and_then(|field| field.integer(1..=u64::from(max)));
        value.and_then(|value| u32::try_from(value).ok())
    };
    Limits {
        max_concurrency: count("max_concurrency", CONCURRENCY_LIMIT).unwrap_or(usual.max_concurrency),
        timeout: timeout(&limits).unwrap_or(usual.timeout),
        db_connections: count("db_connections", CONNECTIONS_LIMIT).unwrap_or(usual.db_connections),
    }
}

fn text(object: &Object, name: &str) -> Option<String> {
    object.optional(name)?.string().map(str::to_owned)
}
