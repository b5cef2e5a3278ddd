//! Every error code of the contract, once: its status, its title and the page that explains it.

use http::StatusCode;

/// A stable, kebab-case error code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Code {
    /// What clients compare with.
    pub name: &'static str,
    /// The HTTP status that it comes with.
    pub status: u16,
    /// One line for people.
    pub title: &'static str,
    /// What it means and what to do, for `/problems/<code>`.
    pub meaning: &'static str,
}

impl Code {
    /// The status.
    pub fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }
}

/// The code called `name`, if the contract has one.
pub fn find(name: &str) -> Option<&'static Code> {
    ALL.iter().copied().find(|code| code.name == name)
}

macro_rules! codes {
    ($($(#[$doc:meta])* $ident:ident = $name:literal, $status:literal, $title:literal, $meaning:literal;)*) => {
        $($(#[$doc])* pub static $ident: Code = Code { name: $name, status: $status, title: $title, meaning: $meaning };)*
        /// All of them.
        pub static ALL: &[&Code] = &[$(&$ident),*];
    };
}

codes! {
    INVALID_REQUEST = "invalid-request", 400, "The request is malformed",
        "A header, the path or a query parameter is not what this endpoint takes. The detail names it. Unknown query parameters are refused, so that a typing error is never silently ignored.";
    INVALID_JSON = "invalid-json", 400, "The body is not JSON",
        "The request body could not be read as JSON. The detail says at which line and column.";
    INVALID_CURSOR = "invalid-cursor", 400, "The cursor does not fit this list",
        "A cursor belongs to the list, filter and sort order that it came from. Start again without one.";
    MISSING_TOKEN = "missing-token", 401, "A credential is needed",
        "Send `Authorization: Bearer <token>` with an API key, a login token or a JWT.";
    INVALID_TOKEN = "invalid-token", 401, "The credential is not valid",
        "The token is unknown, damaged or not meant for this server. Log in again or use another key.";
    EXPIRED_TOKEN = "expired-token", 401, "The credential has expired",
        "Log in again, or ask for a new key.";
    REVOKED_TOKEN = "revoked-token", 401, "The credential has been revoked",
        "Somebody ended this session or revoked this key. Log in again or use another key.";
    INVALID_CREDENTIALS = "invalid-credentials", 401, "Wrong username or password",
        "The username and password do not belong together. Which of the two is wrong is not said on purpose.";
    INSUFFICIENT_SCOPE = "insufficient-scope", 403, "The credential lacks a right",
        "The credential is valid, but its scopes do not cover this. `required_scope` names the one that is missing.";
    ACCOUNT_DISABLED = "account-disabled", 403, "The account is disabled",
        "An administrator has disabled this account.";
    FORBIDDEN = "forbidden", 403, "This is not allowed",
        "The request is understood and refused; the detail says why.";
    NOT_FOUND = "not-found", 404, "There is nothing here",
        "The path or the object that it names does not exist.";
    METHOD_NOT_ALLOWED = "method-not-allowed", 405, "The method does not fit this path",
        "The `Allow` header lists the methods that work here.";
    SKU_TAKEN = "sku-taken", 409, "Another card has this SKU",
        "A SKU is unique among the cards that are not deleted.";
    NAME_TAKEN = "name-taken", 409, "The name is taken",
        "Choose another name.";
    CARD_IN_USE = "card-in-use", 409, "A plugin still needs this card",
        "A plugin's table refers to the card and forbids its removal. The detail names the plugin.";
    CONFLICT = "conflict", 409, "The state does not allow this now",
        "The detail says what is in the way.";
    DESTRUCTIVE_MIGRATION = "destructive-migration", 409, "The schema change would lose data",
        "The plugin's new schema.sql loses a column or a table. An operator has to confirm it.";
    VERSION_MISMATCH = "version-mismatch", 412, "The object has changed meanwhile",
        "`If-Match` names another version than the current one, which is in `current_version`. Read the object again and repeat the change.";
    PAYLOAD_TOO_LARGE = "payload-too-large", 413, "The body is too large",
        "The detail says the limit in bytes.";
    URI_TOO_LONG = "uri-too-long", 414, "The address is too long",
        "Shorten the path or the query.";
    UNSUPPORTED_MEDIA_TYPE = "unsupported-media-type", 415, "The body's type does not fit",
        "Send the `Content-Type` that the detail names, and no `Content-Encoding`.";
    MISDIRECTED_REQUEST = "misdirected-request", 421, "This host name is not served here",
        "The `Host` header names neither BASE_URL nor one of ALLOWED_HOSTS.";
    VALIDATION_FAILED = "validation-failed", 422, "Some fields are not valid",
        "`errors` lists each field by JSON pointer and says what is wrong with it.";
    KIND_NOT_DECLARED = "kind-not-declared", 422, "The plugin has not declared this kind",
        "A plugin may only write kinds that its manifest lists in `provides_kinds`.";
    SOURCE_KEY_INVALID = "source-key-invalid", 422, "The source key does not fit the plugin",
        "A source key is the plugin's name, a colon and a suffix that is not empty.";
    SOURCE_LIMIT_EXCEEDED = "source-limit-exceeded", 422, "The source is over a limit",
        "A card has at most 256 sources, a source at most 256 KiB and 64 levels of nesting.";
    RATE_LIMITED = "rate-limited", 429, "Too many requests",
        "Wait as long as `Retry-After` says.";
    HEADERS_TOO_LARGE = "headers-too-large", 431, "The headers are too large",
        "Send fewer or shorter headers.";
    INTERNAL_ERROR = "internal-error", 500, "Something went wrong on the server",
        "The server's log has the cause under this `request_id`.";
    PLUGIN_PANICKED = "plugin-panicked", 500, "The plugin broke down during this call",
        "The plugin's code panicked. Only this call is lost; the server's log has the cause.";
    PLUGIN_ERROR = "plugin-error", 502, "The plugin's answer could not be used",
        "The plugin answered with something that cannot be sent: a bad status, a bad header, a body over its limit.";
    UPSTREAM_ERROR = "upstream-error", 502, "The server behind this path failed",
        "The upstream of this proxy route could not be reached or broke off.";
    PLUGIN_UNAVAILABLE = "plugin-unavailable", 503, "The plugin is not available",
        "The plugin is disabled, refused, failed or busy. Operators find the reason in the plugin registry.";
    DATABASE_UNAVAILABLE = "database-unavailable", 503, "The database cannot be reached",
        "Try again after `Retry-After`. Credentials stay valid; nobody has to log in again.";
    IDENTITY_PROVIDER_UNAVAILABLE = "identity-provider-unavailable", 503, "The identity provider cannot be reached",
        "Try again after `Retry-After`.";
    OVERLOADED = "overloaded", 503, "The server is busy",
        "A bounded queue is full. Try again after `Retry-After`.";
    DRAINING = "draining", 503, "The server is shutting down",
        "Try again after `Retry-After`; another instance or the next start will answer.";
    PLUGIN_TIMEOUT = "plugin-timeout", 504, "The plugin took too long",
        "The call reached its deadline and was cancelled.";
    UPSTREAM_TIMEOUT = "upstream-timeout", 504, "The server behind this path took too long",
        "The upstream of this proxy route did not answer in time.";
    REQUEST_TIMEOUT = "request-timeout", 408, "The request came too slowly",
        "The body did not arrive in time.";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_kebab_case_and_statuses_are_errors() {
        for (i, code) in ALL.iter().enumerate() {
            assert!(code.name.bytes().all(|b| b.is_ascii_lowercase() || b == b'-'), "{}", code.name);
            assert!((400..600).contains(&code.status), "{}", code.name);
            assert!(ALL[i + 1..].iter().all(|other| other.name != code.name), "{} twice", code.name);
        }
    }
}
