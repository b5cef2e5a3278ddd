//! What a host that runs says of itself, beside what these settings and files would make of it.

use serde_json::Value;

use cardinal_base::config::Config;
use cardinal_serve::check::finding::Finding;

/// What the host has answered, at the socket in `DATA_DIR`.
pub struct Answers {
    /// `GET /v1/admin/system`.
    pub system: Value,
    /// The items of `GET /v1/admin/plugin-registry`.
    pub registry: Vec<Value>,
}

/// A host that has its `DATA_DIR` and says nothing.
pub fn silent(why: &str) -> Finding {
    Finding::error(
        "host-unresponsive",
        "host",
        "A host is using this DATA_DIR but does not answer on its local \
        socket.",
    )
    .found(why)
    .fix("See the host's log, and run the check as the user that runs the host.")
}

pub fn check(config: &Config, answers: &Answers) -> Vec<Finding> {
    let mut found = vec![health(&answers.system)];
    found.extend(program(&answers.system));
    found.extend(restarts(&answers.system));
    found.extend(undeclared_proxies(&answers.system));
    found.extend(settings(config, &answers.system["settings"]));
    found.extend(answers.registry.iter().map(plugin));
    found
}

fn health(system: &Value) -> Finding {
    match system["health"]["state"].as_str() {
        Some("ready") => Finding::ok("host-ready", "host", "The host is ready to serve."),
        state => Finding::error("host-not-ready", "host", "The host cannot serve now.")
            .found(state.unwrap_or("no state"))
            .expected("ready")
            .fix("See the host's log for what it is waiting for."),
    }
}

fn program(system: &Value) -> Option<Finding> {
    let (this, serving) = (env!("CARGO_PKG_VERSION"), system["version"].as_str().unwrap_or("unknown"));
    (this != serving).then(|| {
        Finding::warning("host-version-differs", "host", "The host runs a different version from this program.")
            .found(serving)
            .expected(this)
            .fix("Restart the host to use this version.")
    })
}

fn restarts(system: &Value) -> Option<Finding> {
    let restarts = system["worker_restarts"].as_u64().filter(|restarts| *restarts > 0)?;
    Some(
        Finding::warning("worker-restarted", "host", "The host's worker ended unexpectedly and was restarted.")
            .found(format!("{restarts} times since the host was started"))
            .fix("See the log and DATA_DIR/crashes.json for the cause; a plugin that causes it twice is quarantined."),
    )
}

fn undeclared_proxies(system: &Value) -> Option<Finding> {
    let seen: Vec<&str> = system["undeclared_proxies"].as_array()?.iter().filter_map(Value::as_str).collect();
    (!seen.is_empty()).then(|| {
        Finding::warning("proxy-undeclared", "TRUSTED_PROXIES", "Clients send X-Forwarded-For, which is ignored.")
            .found(seen.join(", "))
            .expected("every proxy in front of the host listed in TRUSTED_PROXIES")
            .fix("List those that are your proxies: all clients behind one share its address for limits and logins.")
    })
}

/// Settings with which the next start would differ from what runs. Secrets are masked on both sides.
fn settings(config: &Config, serving: &Value) -> Option<Finding> {
    let ours = config.in_force();
    // A port that the system has chosen is in force under its number.
    let chosen = |name: &str, value: &Value| {
        let free_port = value.as_str().is_some_and(|value| value.ends_with(":0"));
        free_port || (name == "BASE_URL" && config.http.base_url_derived)
    };
    let differing: Vec<String> = ours
        .iter()
        .filter(|(name, value)| serving.get(name.as_str()) != Some(value) && !chosen(name, value))
        .map(|(name, value)| {
            format!("{name} = {value}, in force {}", serving.get(name.as_str()).unwrap_or(&Value::Null))
        })
        .collect();
    if differing.is_empty() {
        return None;
    }
    Some(
        Finding::warning("settings-differ", "settings", "The host runs with different settings from this check.")
            .found(differing.join("; "))
            .fix("Run the check with the host's settings, or restart the host to apply these."),
    )
}

fn plugin(report: &Value) -> Finding {
    let text = |member: &str| report[member].as_str().unwrap_or_default().to_owned();
    let (name, version, state) = (text("name"), text("version"), text("state"));
    let refusal = &report["refusal"];
    let from_refusal = |finding: Finding| {
        let part = |member: &str| refusal[member].as_str().map(str::to_owned);
        let cause = part("code").or(finding.cause.clone());
        Finding {
            cause,
            found: part("found"),
            expected: part("expected"),
            fix: part("fix").or(finding.fix.clone()),
            ..finding
        }
    };
    match state.as_str() {
        "active" if refusal.is_object() => from_refusal(Finding::warning(
            "plugin-behind",
            &name,
            format!("{name} {version} is still in service; the files now in the plugins folder are refused."),
        )),
        "active" => Finding::ok("plugin-serving", &name, format!("{name} {version} is in service.")),
        "disabled" => Finding::ok("plugin-not-serving", &name, format!("{name} {version} is disabled.")),
        // An operator has taken it out of the folder; what its data means stands in the findings about the database.
        "retired" => Finding::ok("plugin-not-serving", &name, format!("{name} {version} has been removed.")),
        _ => {
            let reason = text("reason");
            let finding = Finding::error("plugin-not-serving", &name, format!("{name} is {state}: {reason}"));
            from_refusal(finding.fix("See `cardinal plugin list` for the details, and the log for more."))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_plugin_is_told_by_what_serves_and_what_does_not() {
        let examine = |report: Value| plugin(&report);
        assert_eq!(examine(json!({"name": "a", "version": "1.0.0", "state": "active"})).code, "plugin-serving");
        let refusal = json!({"code": "bad-manifest", "fix": "Correct it.", "found": "x"});
        let behind = examine(json!({"name": "a", "state": "active", "refusal": refusal}));
        assert_eq!((behind.code, behind.cause.as_deref()), ("plugin-behind", Some("bad-manifest")));
        let failed =
            examine(json!({"name": "a", "state": "failed", "reason": "The database is unreachable.", "refusal": null}));
        assert_eq!(failed.code, "plugin-not-serving");
        assert!(failed.message.contains("The database is unreachable.") && failed.fix.is_some());
    }

    #[test]
    fn a_proxy_that_nobody_declared_is_a_warning() {
        assert!(undeclared_proxies(&json!({})).is_none());
        assert!(undeclared_proxies(&json!({"undeclared_proxies": []})).is_none());
        let found = undeclared_proxies(&json!({"undeclared_proxies": ["10.0.0.1", "10.0.0.2"]})).unwrap();
        assert_eq!((found.code, found.found.as_deref()), ("proxy-undeclared", Some("10.0.0.1, 10.0.0.2")));
    }

    #[test]
    fn a_host_that_is_not_ready_says_its_state() {
        let found = health(&json!({"health": {"state": "draining"}}));
        assert_eq!((found.code, found.found.as_deref()), ("host-not-ready", Some("draining")));
        assert_eq!(health(&json!({"health": {"state": "ready"}})).code, "host-ready");
    }
}
