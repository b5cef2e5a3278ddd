//! Where a plugin stands on its walk, and why it was turned away.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The states of a plugin (contract 5.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "PluginState")]
pub enum State {
    Discovered,
    Checked,
    Loaded,
    Migrated,
    Active,
    Draining,
    Retired,
    /// By an operator; its data is untouched.
    Disabled,
    /// Turned away with a [`Refusal`].
    Refused,
    /// The host could not do its part (database down, out of memory): worth another try.
    Failed,
    /// Set aside after it took the worker down.
    Quarantined,
}

impl State {
    pub const ALL: [Self; 11] = [
        Self::Discovered,
        Self::Checked,
        Self::Loaded,
        Self::Migrated,
        Self::Active,
        Self::Draining,
        Self::Retired,
        Self::Disabled,
        Self::Refused,
        Self::Failed,
        Self::Quarantined,
    ];

    /// As it is serialised.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Discovered => "discovered",
            Self::Checked => "checked",
            Self::Loaded => "loaded",
            Self::Migrated => "migrated",
            Self::Active => "active",
            Self::Draining => "draining",
            Self::Retired => "retired",
            Self::Disabled => "disabled",
            Self::Refused => "refused",
            Self::Failed => "failed",
            Self::Quarantined => "quarantined",
        }
    }
}

/// Why a plugin was refused. Stable: tests, scripts and the Admin UI know them by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "RefusalCode")]
pub enum Code {
    BadManifest,
    BadName,
    ReservedName,
    BadToolName,
    UnsupportedApiVersion,
    CoreOutOfRange,
    /// It needs a feature that this host does not have.
    FeatureMissing,
    DuplicateName,
    DuplicatePrefix,
    DuplicateTool,
    DuplicateTab,
    DuplicateContribution,
    ManifestMismatch,
    LibraryMissing,
    SeveralLibraries,
    WrongPlatform,
    WrongArchitecture,
    NotAPlugin,
    Truncated,
    PanicAbort,
    LayoutMismatch,
    NotLoadable,
    ConstructorPanicked,
    ProbeFailed,
    CreatePanicked,
    CreateFailed,
    RouteNotDeclared,
    RouteMissing,
    RouteInvalid,
    ToolHandlerMissing,
    JobHandlerMissing,
    FrontendInvalid,
    TooLarge,
    Unreadable,
    LinkRefused,
    WorldWritable,
    UntrustedOwner,
    HashNotTrusted,
    SignatureMissing,
    SignatureInvalid,
    SignerChanged,
    SchemaFailed,
    SchemaUnsafe,
    SchemaTaken,
    PackageChanged,
    DestructiveMigration,
    SettingsInvalid,
    /// It was rolled back, and waits for an operator to take it back.
    RolledBack,
    /// It is lower than what serves, and waits for an operator to go back.
    LowerVersion,
}

impl Code {
    /// The code as it is written everywhere: kebab-case.
    pub fn as_str(self) -> &'static str {
        use Code::*;
        match self {
            BadManifest => "bad-manifest",
            BadName => "bad-name",
            ReservedName => "reserved-name",
            BadToolName => "bad-tool-name",
            UnsupportedApiVersion => "unsupported-api-version",
            CoreOutOfRange => "core-out-of-range",
            FeatureMissing => "feature-missing",
            DuplicateName => "duplicate-name",
            DuplicatePrefix => "duplicate-prefix",
            DuplicateTool => "duplicate-tool",
            DuplicateTab => "duplicate-tab",
            DuplicateContribution => "duplicate-contribution",
            ManifestMismatch => "manifest-mismatch",
            LibraryMissing => "library-missing",
            SeveralLibraries => "several-libraries",
            WrongPlatform => "wrong-platform",
            WrongArchitecture => "wrong-architecture",
            NotAPlugin => "not-a-plugin",
            Truncated => "truncated",
            PanicAbort => "panic-abort",
            LayoutMismatch => "layout-mismatch",
            NotLoadable => "not-loadable",
            ConstructorPanicked => "constructor-panicked",
            ProbeFailed => "probe-failed",
            CreatePanicked => "create-panicked",
            CreateFailed => "create-failed",
            RouteNotDeclared => "route-not-declared",
            RouteMissing => "route-missing",
            RouteInvalid => "route-invalid",
            ToolHandlerMissing => "tool-handler-missing",
            JobHandlerMissing => "job-handler-missing",
            FrontendInvalid => "frontend-invalid",
            TooLarge => "too-large",
            Unreadable => "unreadable",
            LinkRefused => "link-refused",
            WorldWritable => "world-writable",
            UntrustedOwner => "untrusted-owner",
            HashNotTrusted => "hash-not-trusted",
            SignatureMissing => "signature-missing",
            SignatureInvalid => "signature-invalid",
            SignerChanged => "signer-changed",
            SchemaFailed => "schema-failed",
            SchemaUnsafe => "schema-unsafe",
            SchemaTaken => "schema-taken",
            PackageChanged => "package-changed",
            DestructiveMigration => "destructive-migration",
            SettingsInvalid => "settings-invalid",
            RolledBack => "rolled-back",
            LowerVersion => "lower-version",
        }
    }

    /// Reads a code that another process wrote.
    pub fn parse(text: &str) -> Option<Self> {
        serde_json::from_value(serde_json::Value::String(text.to_owned())).ok()
    }

    /// What to do about it, when the place that refuses knows nothing better. `{name}` is the plugin's, see
    /// [`Refusal::for_plugin`].
    fn usual_fix(self) -> &'static str {
        use Code::*;
        match self {
            BadManifest | BadName | ReservedName | BadToolName => "Correct manifest.json and build the plugin again.",
            UnsupportedApiVersion => {
                "Build the plugin with the SDK of this host's plugin API, or install a host that supports its API."
            }
            CoreOutOfRange => {
                "Install a version of the plugin made for this core, or another core; engine.core_version says which."
            }
            FeatureMissing => {
                "Install a host that has it, or a version of the plugin that works without it; `requires` in \
                 manifest.json says what it needs."
            }
            DuplicateName => "Keep one of the two packages in the plugins folder.",
            DuplicatePrefix | DuplicateTool | DuplicateTab | DuplicateContribution => {
                "Rename it in one of the two plugins, or remove one."
            }
            ManifestMismatch => "Copy manifest.json and library from the same build.",
            LibraryMissing => "Put the plugin's shared library (.so) beside manifest.json.",
            SeveralLibraries => "Leave exactly one shared library (.so) in the folder.",
            WrongPlatform | WrongArchitecture => "Build the plugin for this machine.",
            NotAPlugin => "Build the library with the Cardinal plugin SDK, crate-type cdylib.",
            Truncated => "Copy the library again: the file is not complete.",
            PanicAbort => "Build the plugin with panic = \"unwind\".",
            LayoutMismatch => "Build the plugin again with the SDK of this host's plugin API.",
            NotLoadable => "Build the plugin on (or for) this system, and install the libraries that it links to.",
            ConstructorPanicked => "Report it to the plugin's author; the log has the panic's message.",
            ProbeFailed => {
                "Correct what the library does when it is opened; `cardinal plugin check --open` tries it again."
            }
            CreatePanicked | CreateFailed => "Correct the plugin's `routes` function.",
            RouteNotDeclared => "Declare the route under backend.routes, or drop it from the plugin's router.",
            RouteMissing => "Add the route to the plugin's router, or drop it from backend.routes.",
            RouteInvalid => "Correct the route's path or method in the plugin's router.",
            JobHandlerMissing => {
                "Add the job to the plugin's router, as in `.job(\"name\", handler)`, or drop it from backend.jobs."
            }
            ToolHandlerMissing => "Register the handler in the plugin's router, or correct mcp.tools[].handler.",
            FrontendInvalid => "Correct the plugin's frontend folder.",
            TooLarge => "Make the file smaller.",
            Unreadable => "Let the host's user read the plugin's files.",
            LinkRefused => "Replace the link by the file itself.",
            WorldWritable => "Take the write permission from group and others: chmod go-w.",
            UntrustedOwner => "Give the files to root or to the user that runs the host: chown.",
            HashNotTrusted => "Check where the files come from, then record their hash in the lock file.",
            SignatureMissing => "Sign the package (`cardinal plugin sign`) with a key that this host trusts.",
            SignatureInvalid => "Copy the files again, or have the package signed again as it is now.",
            SignerChanged => {
                "If you know why, accept the new signer: POST /v1/admin/plugin-registry/{name}/accept-signer with the package's sha256."
            }
            SchemaFailed => "Correct schema.sql; every statement must be repeatable (IF NOT EXISTS).",
            SchemaTaken => "Give the plugin another name, or remove the schema of that name.",
            PackageChanged => "Load the plugin again.",
            SchemaUnsafe => "Take the named object out of schema.sql.",
            DestructiveMigration => "Confirm the migration, or keep the column or table in schema.sql.",
            SettingsInvalid => "Correct the plugin's settings.",
            RolledBack => {
                "Put a corrected package into the folder, or take this one back: `cardinal plugin reload {name}`."
            }
            LowerVersion => {
                "To go back to it: `cardinal plugin rollback {name}`. Otherwise put a later version into the folder."
            }
        }
    }
}

impl std::fmt::Display for Code {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A plugin turned away: what for, both values, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Refusal {
    pub code: Code,
    /// One plain sentence.
    pub reason: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub found: Option<String>,
    pub fix: String,
    /// What would be lost: an operator may agree to exactly this.
    #[serde(default, skip_serializing_if = "<[String]>::is_empty")]
    pub losses: Box<[String]>,
}

/// Values of a refusal come from foreign files; longer ones are cut.
const VALUE_LIMIT: usize = 2_000;

impl Refusal {
    pub fn new(code: Code, reason: impl Into<String>) -> Self {
        let reason = cut(reason.into());
        Self { code, reason, expected: None, found: None, fix: code.usual_fix().to_owned(), losses: Box::default() }
    }

    pub fn expected(mut self, expected: impl Into<String>) -> Self {
        self.expected = Some(cut(expected.into()));
        self
    }

    pub fn found(mut self, found: impl Into<String>) -> Self {
        self.found = Some(cut(found.into()));
        self
    }

    pub fn fix(mut self, fix: impl Into<String>) -> Self {
        self.fix = cut(fix.into());
        self
    }

    /// With the plugin's name where the usual fix has a place for it.
    pub fn for_plugin(mut self, name: &str) -> Self {
        self.fix = self.fix.replace("{name}", name);
        self
    }
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.code, self.reason)?;
        if let Some(expected) = &self.expected {
            write!(f, " Expected: {}", Sentence(expected))?;
        }
        if let Some(found) = &self.found {
            write!(f, " Found: {}", Sentence(found))?;
        }
        write!(f, " {}", self.fix)
    }
}

/// A text with a full stop, unless it ends a sentence by itself.
struct Sentence<'t>(&'t str);

impl std::fmt::Display for Sentence<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let end = if self.0.ends_with(['.', '!', '?', '…']) { "" } else { "." };
        write!(f, "{}{end}", self.0)
    }
}

impl std::error::Error for Refusal {}

fn cut(mut text: String) -> String {
    if text.len() > VALUE_LIMIT {
        text.truncate(text.floor_char_boundary(VALUE_LIMIT));
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_written_as_it_is_read() {
        for code in [Code::BadManifest, Code::NotAPlugin, Code::DestructiveMigration, Code::UnsupportedApiVersion] {
            assert_eq!(Code::parse(code.as_str()), Some(code));
            assert_eq!(serde_json::to_value(code).unwrap(), code.as_str());
        }
        assert_eq!(Code::parse("no-such-code"), None);
    }

    #[test]
    fn a_refusal_is_told_in_sentences_with_one_full_stop_each() {
        let refusal =
            Refusal::new(Code::CreateFailed, "No.").expected("a router").found("Seven is bad luck.").fix("Do.");
        assert_eq!(refusal.to_string(), "create-failed: No. Expected: a router. Found: Seven is bad luck. Do.");
    }

    #[test]
    fn what_to_do_names_the_plugin() {
        for code in [Code::RolledBack, Code::LowerVersion, Code::SignerChanged] {
            let refusal = Refusal::new(code, "No.").for_plugin("notes");
            assert!(refusal.fix.contains("notes") && !refusal.fix.contains('{'), "{refusal}");
        }
    }

    #[test]
    fn foreign_text_is_cut_on_a_character() {
        let refusal = Refusal::new(Code::BadManifest, "é".repeat(VALUE_LIMIT));
        assert!(refusal.reason.len() <= VALUE_LIMIT + '…'.len_utf8());
    }
}
