//! What a check has found, in a shape that people and programs can read.

use schemars::JsonSchema;
use serde::Serialize;

/// How bad it is. Errors alone make the command fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    Ok,
    Warning,
    Error,
}

/// One thing that was looked at. `code` is stable: scripts know a finding by it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Finding {
    pub code: &'static str,
    pub severity: Severity,
    /// What was looked at: a setting, a file, a role, a plugin.
    pub subject: String,
    /// One plain sentence.
    pub message: String,
    /// Of a plugin that is refused: the reason's own code.
    pub cause: Option<String>,
    pub found: Option<String>,
    pub expected: Option<String>,
    /// What to do about it.
    pub fix: Option<String>,
}

impl Finding {
    pub fn ok(code: &'static str, subject: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            code,
            severity: Severity::Ok,
            subject: subject.into(),
            message: message.into(),
            cause: None,
            found: None,
            expected: None,
            fix: None,
        }
    }

    pub fn warning(code: &'static str, subject: impl Into<String>, message: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::ok(code, subject, message) }
    }

    pub fn error(code: &'static str, subject: impl Into<String>, message: impl Into<String>) -> Self {
        Self { severity: Severity::Error, ..Self::ok(code, subject, message) }
    }

    pub fn cause(self, cause: impl Into<String>) -> Self {
        Self { cause: Some(cause.into()), ..self }
    }

    pub fn found(self, found: impl Into<String>) -> Self {
        Self { found: Some(found.into()), ..self }
    }

    pub fn expected(self, expected: impl Into<String>) -> Self {
        Self { expected: Some(expected.into()), ..self }
    }

    pub fn fix(self, fix: impl Into<String>) -> Self {
        Self { fix: Some(fix.into()), ..self }
    }
}

/// How many findings there are of each severity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "FindingCounts")]
pub struct Counts {
    pub ok: usize,
    pub warning: usize,
    pub error: usize,
}

impl Counts {
    pub fn from_findings(findings: &[Finding]) -> Self {
        let count = |severity| findings.iter().filter(|finding| finding.severity == severity).count();
        Self { ok: count(Severity::Ok), warning: count(Severity::Warning), error: count(Severity::Error) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_is_written_with_every_member() {
        let finding = Finding::warning("disk-space", "/data", "It is nearly full.").found("1 MiB").fix("Make room.");
        let written = serde_json::to_value(&finding).unwrap();
        assert_eq!(
            written,
            serde_json::json!({"code": "disk-space", "severity": "warning", "subject": "/data",
                "message": "It is nearly full.", "cause": null, "found": "1 MiB", "expected": null, "fix": "Make room."})
        );
        assert_eq!(Counts::from_findings(&[finding]), Counts { ok: 0, warning: 1, error: 0 });
    }
}
