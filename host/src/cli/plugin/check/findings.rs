//! What is wrong with a package, each with its rule, its place and what to do.

use semver::Version;
use serde_json::Value;

use super::pointer;
use cardinal_package::{
    compat,
    manifest::{Manifest, Problem, Problems},
    package::{FRONTEND, MANIFEST, SCHEMA},
    refusal::{Code, Refusal},
};
use cardinal_plugin_host::inspect::Inspection;
use cardinal_serve::check::finding::Finding;

/// Everything that was found. `text` is that of manifest.json, `core` another version of the core to judge by, too.
pub(super) fn list(seen: &Inspection, text: &str, core: Option<&Version>) -> Vec<Finding> {
    let read = Manifest::read(text.as_bytes());
    let mut found = Vec::new();
    match (&seen.refusal, &read) {
        (None, _) => found.push(Finding::ok("plugin-good", &seen.package, "A host would accept it.")),
        (Some(refusal), Err(Problems(problems))) if !text.is_empty() => {
            found.extend(problems.iter().map(|problem| manifest_problem(problem, text, refusal)));
        }
        (Some(refusal), Err(_)) => found.push(error(refusal, &seen.package)),
        (Some(refusal), Ok((manifest, _))) => found.push(refused(seen, refusal, manifest, text)),
    }
    if let Ok((manifest, warnings)) = &read {
        let warning = |it: &cardinal_package::manifest::Warning| {
            Finding::warning("manifest-warning", place(text, &it.pointer), &it.message)
        };
        found.extend(warnings.iter().map(warning));
        found.extend(core.map(|core| under(core, manifest, text)));
    }
    // Those of the manifest were printed above, with their places.
    let others = seen.warnings.iter().filter(|warning| !warning.starts_with(MANIFEST));
    found.extend(others.map(|warning| Finding::warning("package-warning", &seen.package, warning)));
    found
}

/// What is wrong with the text of manifest.json by itself.
pub(super) fn from_manifest(text: &str) -> Vec<Finding> {
    let Err(problems) = Manifest::read(text.as_bytes()) else { return Vec::new() };
    let places: Vec<Problem> = problems.0.clone();
    let refusal = Refusal::from(problems);
    places.iter().map(|problem| manifest_problem(problem, text, &refusal)).collect()
}

fn manifest_problem(problem: &Problem, text: &str, refusal: &Refusal) -> Finding {
    let place = syntax_error(text).unwrap_or_else(|| place(text, &problem.pointer));
    Finding::error(problem.code.as_str(), place, "The manifest breaks a rule.")
        .expected(&problem.expected)
        .found(&problem.found)
        .fix(&refusal.fix)
}

fn refused(seen: &Inspection, refusal: &Refusal, manifest: &Manifest, text: &str) -> Finding {
    let at = |pointer: &str| place(text, pointer);
    let place = match refusal.code {
        Code::ToolHandlerMissing => at(&tool(refusal, manifest).unwrap_or_else(|| "/mcp/tools".to_owned())),
        Code::JobHandlerMissing => at(&job(refusal, manifest).unwrap_or_else(|| "/backend/jobs".to_owned())),
        Code::RouteMissing => at(&route(refusal, manifest).unwrap_or_else(|| "/backend/routes".to_owned())),
        Code::RouteNotDeclared if manifest.backend.is_none() => at("/backend"),
        Code::RouteNotDeclared => at("/backend/routes"),
        Code::CoreOutOfRange => at("/engine/core_version"),
        Code::UnsupportedApiVersion => at("/engine/plugin_api_version"),
        Code::ManifestMismatch => MANIFEST.to_owned(),
        Code::SchemaUnsafe | Code::SchemaFailed => schema_place(refusal),
        Code::FrontendInvalid => format!("{FRONTEND}/"),
        _ => seen.package.clone(),
    };
    error(refusal, &place)
}

fn error(refusal: &Refusal, place: &str) -> Finding {
    let mut finding = Finding::error(refusal.code.as_str(), place, &refusal.reason).fix(&refusal.fix);
    (finding.found, finding.expected) = (refusal.found.clone(), refusal.expected.clone());
    finding
}

/// Whether another core would take it.
fn under(core: &Version, manifest: &Manifest, text: &str) -> Finding {
    let place = |refusal: &Refusal| match refusal.code {
        Code::UnsupportedApiVersion => place(text, "/engine/plugin_api_version"),
        _ => place(text, "/engine/core_version"),
    };
    match compat::check_engine(&manifest.engine, core, &compat::api_version()) {
        Ok(()) => Finding::ok("core-version-fits", &manifest.name, format!("Core {core} would accept it, too.")),
        Err(refusal) => {
            let mut finding =
                Finding::error("core-version-breaks", place(&refusal), format!("Core {core} would refuse it."));
            (finding.found, finding.expected) = (refusal.found, refusal.expected);
            finding.cause(refusal.code.as_str()).fix(
                "Try the plugin with that core, then widen engine.core_version; build it again where the API differs.",
            )
        }
    }
}

/// `manifest.json:12:5`, where the text is no JSON.
fn syntax_error(text: &str) -> Option<String> {
    let error = serde_json::from_str::<Value>(text.trim_start_matches('\u{feff}')).err()?;
    Some(format!("{MANIFEST}:{}:{}", error.line(), error.column()))
}

/// `manifest.json:12 (/mcp/tools/0)`.
fn place(text: &str, pointer: &str) -> String {
    match pointer::line(text, pointer) {
        Some(line) if !pointer.is_empty() => format!("{MANIFEST}:{line} ({pointer})"),
        _ => MANIFEST.to_owned(),
    }
}

/// The tool that names the handler which is expected.
fn tool(refusal: &Refusal, manifest: &Manifest) -> Option<String> {
    let handler = refusal.expected.as_deref()?.trim_matches('`');
    let index = manifest.tools.iter().position(|tool| tool.handler == handler)?;
    Some(format!("/mcp/tools/{index}/handler"))
}

/// The job that the router lacks.
fn job(refusal: &Refusal, manifest: &Manifest) -> Option<String> {
    let name = refusal.expected.as_deref()?.trim_matches('`');
    let index = manifest.jobs().iter().position(|job| job.name == name)?;
    Some(format!("/backend/jobs/{index}/name"))
}

/// The route that is expected, perhaps of another handler.
fn route(refusal: &Refusal, manifest: &Manifest) -> Option<String> {
    let expected = refusal.expected.as_deref()?;
    let expected = expected.split_once(" by ").map_or(expected, |(route, _)| route);
    let routes = manifest.backend.as_ref()?.routes.as_ref()?;
    let index = routes.iter().position(|route| format!("{} {}", route.method, route.path) == expected)?;
    Some(format!("/backend/routes/{index}"))
}

/// `schema.sql:2:1`, where the refusal says line and column.
fn schema_place(refusal: &Refusal) -> String {
    let numbers = || {
        let (_, after) = refusal.found.as_deref()?.split_once("line ")?;
        let (line, after) = after.split_once(", column ")?;
        let column: String = after.chars().take_while(char::is_ascii_digit).collect();
        Some((line.parse::<u32>().ok()?, column.parse::<u32>().ok()?))
    };
    numbers().map_or_else(|| SCHEMA.to_owned(), |(line, column)| format!("{SCHEMA}:{line}:{column}"))
}

/// As programs read it: what the package is, and what was found.
pub(super) fn report(seen: &Inspection, findings: &[Finding]) -> anyhow::Result<Value> {
    let mut report = serde_json::to_value(seen)?;
    report["findings"] = serde_json::to_value(findings)?;
    Ok(report)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn manifest() -> String {
        let document = json!({"name": "notes", "version": "1.0.0",
            "engine": {"core_version": ">=1.0.0, <2.0.0", "plugin_api_version": "1"},
            "backend": {"routes": [{"method": "GET", "path": "/a"}, {"method": "POST", "path": "/a", "handler": "add"}]},
            "mcp": {"tools": [{"name": "plugin_notes_add", "description": "Adds.", "handler": "ad"}]}, "unknown": 1});
        serde_json::to_string_pretty(&document).unwrap()
    }

    fn found(text: &str, refusal: Option<Refusal>, core: Option<&str>) -> Vec<Finding> {
        let seen = Inspection { package: "libnotes.so".to_owned(), refusal, ..Inspection::default() };
        list(&seen, text, core.map(|core| core.parse().unwrap()).as_ref())
    }

    #[test]
    fn what_the_router_lacks_is_found_in_the_manifest() {
        let places = [
            (Code::ToolHandlerMissing, "`ad`", "(/mcp/tools/0/handler)"),
            (Code::RouteMissing, "POST /a by `add`", "(/backend/routes/1)"),
            (Code::RouteMissing, "GET /a", "(/backend/routes/0)"),
            (Code::NotLoadable, "x", "libnotes.so"),
        ];
        for (code, expected, place) in places {
            let findings = found(&manifest(), Some(Refusal::new(code, "No.").expected(expected)), None);
            assert_eq!(findings[0].code, code.as_str());
            assert!(findings[0].subject.ends_with(place) && findings[0].fix.is_some(), "{findings:?}");
        }
        let sql = Refusal::new(Code::SchemaUnsafe, "No.").found("CREATE FUNCTION at line 12, column 3: `x`");
        assert_eq!(found(&manifest(), Some(sql), None)[0].subject, "schema.sql:12:3");
    }

    #[test]
    fn every_problem_of_the_manifest_is_a_finding_with_its_line() {
        let text = "{\n\"name\": \"Notes\",\n\"version\": 1\n}";
        let refusal = Manifest::read(text.as_bytes()).unwrap_err().into();
        let findings = found(text, Some(refusal), None);
        let places: Vec<&str> = findings.iter().map(|finding| finding.subject.as_str()).collect();
        assert!(
            places.contains(&"manifest.json:2 (/name)") && places.contains(&"manifest.json:3 (/version)"),
            "{places:?}"
        );
    }

    #[test]
    fn what_is_no_json_has_line_and_column() {
        let findings = from_manifest("{\n  \"name\": \"notes\",,\n}");
        assert_eq!((findings.len(), findings[0].subject.as_str()), (1, "manifest.json:2:19"));
        assert!(findings[0].fix.is_some() && from_manifest(&manifest()).is_empty(), "{findings:?}");
    }

    #[test]
    fn another_core_is_judged_and_warnings_have_places() {
        let codes = |core| found(&manifest(), None, core).iter().map(|it| it.code).collect::<Vec<_>>();
        assert_eq!(codes(None), ["plugin-good", "manifest-warning"]);
        assert_eq!(codes(Some("1.9.0")), ["plugin-good", "manifest-warning", "core-version-fits"]);
        assert_eq!(codes(Some("2.0.0")), ["plugin-good", "manifest-warning", "core-version-breaks"]);
        let findings = found(&manifest(), None, Some("2.0.0"));
        assert!(findings[1].subject.ends_with("(/unknown)") && findings[2].subject.ends_with("(/engine/core_version)"));
    }
}
