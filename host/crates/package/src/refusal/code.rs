//! The codes of refusals, with what to do about each.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A row is a code, as it is written everywhere (kebab-case), and what to do about it.
macro_rules! codes {
    ($($(#[$about:meta])* $code:ident $name:literal => $fix:literal;)*) => {
        /// Why a plugin was refused. Stable: tests, scripts and the Admin UI know them by name.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
        #[serde(rename_all = "kebab-case")]
        #[schemars(rename = "RefusalCode")]
        pub enum Code {
            $($(#[$about])* $code,)*
        }

        #[cfg(test)]
        const ALL: &[Code] = &[$(Code::$code),*];

        impl Code {
            /// The code as it is written everywhere: kebab-case.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$code => $name,)*
                }
            }

            /// What to do about it, when the place that refuses knows nothing better. `{name}` is the plugin's, see
            /// [`Refusal::for_plugin`](super::Refusal::for_plugin).
            pub(super) fn usual_fix(self) -> &'static str {
                match self {
                    $(Self::$code => $fix,)*
                }
            }
        }
    };
}

codes! {
    BadManifest "bad-manifest"
        => "Correct manifest.json and build the plugin again.";
    BadName "bad-name"
        => "Correct manifest.json and build the plugin again.";
    ReservedName "reserved-name"
        => "Correct manifest.json and build the plugin again.";
    BadToolName "bad-tool-name"
        => "Correct manifest.json and build the plugin again.";
    UnsupportedApiVersion "unsupported-api-version"
        => "Build the plugin with the SDK of this host's plugin API, or install a host that supports its API.";
    CoreOutOfRange "core-out-of-range"
        => "Install a version of the plugin made for this core, or another core; engine.core_version says which.";
    /// It needs a feature that this host does not have.
    FeatureMissing "feature-missing"
        => "Install a host that has it, or a version of the plugin that works without it; `requires` in \
            manifest.json says what it needs.";
    DuplicateName "duplicate-name"
        => "Keep one of the two packages in the plugins folder.";
    DuplicatePrefix "duplicate-prefix"
        => "Rename it in one of the two plugins, or remove one.";
    DuplicateTool "duplicate-tool"
        => "Rename it in one of the two plugins, or remove one.";
    DuplicateTab "duplicate-tab"
        => "Rename it in one of the two plugins, or remove one.";
    DuplicateContribution "duplicate-contribution"
        => "Rename it in one of the two plugins, or remove one.";
    ManifestMismatch "manifest-mismatch"
        => "Copy manifest.json and library from the same build.";
    LibraryMissing "library-missing"
        => "Put the plugin's shared library (.so) beside manifest.json.";
    SeveralLibraries "several-libraries"
        => "Leave exactly one shared library (.so) in the folder.";
    WrongPlatform "wrong-platform"
        => "Build the plugin for this machine.";
    WrongArchitecture "wrong-architecture"
        => "Build the plugin for this machine.";
    NotAPlugin "not-a-plugin"
        => "Build the library with the Cardinal plugin SDK, crate-type cdylib.";
    Truncated "truncated"
        => "Copy the library again: the file is not complete.";
    PanicAbort "panic-abort"
        => "Build the plugin with panic = \"unwind\".";
    LayoutMismatch "layout-mismatch"
        => "Build the plugin again with the SDK of this host's plugin API.";
    NotLoadable "not-loadable"
        => "Build the plugin on (or for) this system, and install the libraries that it links to.";
    ConstructorPanicked "constructor-panicked"
        => "Report it to the plugin's author; the log has the panic's message.";
    ProbeFailed "probe-failed"
        => "Correct what the library does when it is opened; `cardinal plugin check --open` tries it again.";
    CreatePanicked "create-panicked"
        => "Correct the plugin's `routes` function.";
    CreateFailed "create-failed"
        => "Correct the plugin's `routes` function.";
    RouteNotDeclared "route-not-declared"
        => "Declare the route under backend.routes, or drop it from the plugin's router.";
    RouteMissing "route-missing"
        => "Add the route to the plugin's router, or drop it from backend.routes.";
    RouteInvalid "route-invalid"
        => "Correct the route's path or method in the plugin's router.";
    ToolHandlerMissing "tool-handler-missing"
        => "Register the handler in the plugin's router, or correct mcp.tools[].handler.";
    JobHandlerMissing "job-handler-missing"
        => "Add the job to the plugin's router, as in `.job(\"name\", handler)`, or drop it from backend.jobs.";
    FrontendInvalid "frontend-invalid"
        => "Correct the plugin's frontend folder.";
    TooLarge "too-large"
        => "Make the file smaller.";
    Unreadable "unreadable"
        => "Let the host's user read the plugin's files.";
    LinkRefused "link-refused"
        => "Replace the link by the file itself.";
    WorldWritable "world-writable"
        => "Take the write permission from group and others: chmod go-w.";
    UntrustedOwner "untrusted-owner"
        => "Give the files to root or to the user that runs the host: chown.";
    HashNotTrusted "hash-not-trusted"
        => "Check where the files come from, then record their hash in the lock file.";
    SignatureMissing "signature-missing"
        => "Sign the package (`cardinal plugin sign`) with a key that this host trusts.";
    SignatureInvalid "signature-invalid"
        => "Copy the files again, or have the package signed again as it is now.";
    SignerChanged "signer-changed"
        => "If you know why, accept the new signer: POST /v1/admin/plugin-registry/{name}/accept-signer with the \
            package's sha256.";
    SchemaFailed "schema-failed"
        => "Correct schema.sql; every statement must be repeatable (IF NOT EXISTS).";
    SchemaUnsafe "schema-unsafe"
        => "Take the named object out of schema.sql.";
    SchemaTaken "schema-taken"
        => "Give the plugin another name, or remove the schema of that name.";
    PackageChanged "package-changed"
        => "Load the plugin again.";
    DestructiveMigration "destructive-migration"
        => "Confirm the migration, or keep the column or table in schema.sql.";
    SettingsInvalid "settings-invalid"
        => "Correct the plugin's settings.";
    /// It was rolled back, and waits for an operator to take it back.
    RolledBack "rolled-back"
        => "Put a corrected package into the folder, or take this one back: `cardinal plugin reload {name}`.";
    /// It is lower than what serves, and waits for an operator to go back.
    LowerVersion "lower-version"
        => "To go back to it: `cardinal plugin rollback {name}`. Otherwise put a later version into the folder.";
}

impl Code {
    /// Reads a code that another process wrote.
    pub fn parse(text: &str) -> Option<Self> {
        serde_json::from_value(serde_json::Value::String(text.to_owned())).ok()
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_written_as_it_is_read() {
        for &code in ALL {
            assert_eq!(Code::parse(code.as_str()), Some(code));
            assert_eq!(serde_json::to_value(code).unwrap(), code.as_str());
        }
        assert_eq!(Code::parse("no-such-code"), None);
    }
}
