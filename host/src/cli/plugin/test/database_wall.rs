//! PostgreSQL keeps the plugin's role to its own schema: `cardinal check` tries what must be refused, as the role
//! itself.

use std::{path::Path, process::Stdio};

use anyhow::Context as _;
use serde_json::Value;
use tokio::process::Command;

use super::{Outcome, some};
use crate::cli::plugin::own_host;

const HOLDS: &str = "isolation-holds";
const ROLES: [&str; 4] = ["plugin-", "isolation-", "core-", "database-"];

pub(super) async fn check(place: &Path) -> anyhow::Result<Outcome> {
    let mut command = Command::new("/proc/self/exe");
    command.args(["check", "--json"]);
    own_host::set_environment(&mut command, place);
    let output = command.stdin(Stdio::null()).kill_on_drop(true).output().await.context("starting the check")?;
    let report: Value = serde_json::from_slice(&output.stdout)
        .with_context(|| format!("the check says: {}", String::from_utf8_lossy(&output.stderr)))?;
    Ok(evaluate(&report))
}

fn evaluate(report: &Value) -> Outcome {
    let text = |finding: &Value, name: &str| finding[name].as_str().unwrap_or_default().to_owned();
    let findings: Vec<&Value> = report["findings"].as_array().into_iter().flatten().collect();
    let is_bad = |finding: &&&Value| {
        let code = text(finding, "code");
        finding["severity"] != "ok" && ROLES.iter().any(|role| code.starts_with(role)) && code != "plugin-warning"
    };
    let describe = |finding: &&Value| {
        format!("{}: {} {}", text(finding, "code"), text(finding, "message"), text(finding, "found"))
    };
    let bad: Vec<String> = findings.iter().filter(is_bad).map(describe).collect();
    match findings.iter().find(|finding| finding["code"] == HOLDS) {
        _ if !bad.is_empty() => Outcome::Bad(some(&bad)),
        Some(holds) => Outcome::Good(text(holds, "message")),
        None => Outcome::Bad("the check has not tried the roles".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_roles_that_were_tried_and_refused_are_good() {
        let finding = |code: &str, severity: &str| json!({"code": code, "severity": severity, "message": "m"});
        let evaluate_findings = |findings: Vec<Value>| evaluate(&json!({"findings": findings}));
        assert!(matches!(
            evaluate_findings(vec![finding(HOLDS, "ok"), finding("disk-space", "warning")]),
            Outcome::Good(_)
        ));
        assert!(matches!(evaluate_findings(vec![]), Outcome::Bad(_)));
        let read = finding("plugin-reads-core", "error");
        assert!(
            matches!(evaluate_findings(vec![finding(HOLDS, "ok"), read]), Outcome::Bad(text) if text.contains("reads-core"))
        );
    }
}
