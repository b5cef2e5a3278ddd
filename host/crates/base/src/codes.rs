//! Every error code of the contract, once: its status, its title and the page that explains it.

use http::StatusCode;
use serde_json::{Value, json};

/// A stable, kebab-case error code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Code {
    /// What clients compare with.
    pub name: &'static str,
    /// The HTTP status that it comes with.
    pub status: u16,
    /// One line for people.
    pub title: &'static str,
    /// When this happens, for `/problems/<code>`.
    pub when: &'static str,
    /// What whoever gets it can do.
    pub advice: &'static str,
}

impl Code {
    /// The status.
    pub fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    /// The problem document with nothing to say beside the code.
    pub fn problem(&self, base_url: &str, request_id: &str) -> Value {
        json!({
            "type": format!("{base_url}/problems/{}", self.name),
            "title": self.title,
            "status": self.status,
            "detail": self.title,
            "code": self.name,
            "request_id": request_id,
        })
    }
}

/// The code called `name`, if the contract has one.
pub fn find(name: &str) -> Option<&'static Code> {
    ALL.iter().copied().find(|code| code.name == name)
}

macro_rules! codes {
    ($(
        $(#[$doc:meta])*
        $ident:ident = $name:literal, $status:literal, $title:literal, $when:literal, $advice:literal;
    )*) => {
        $(
            $(#[$doc])*
            pub static $ident: Code =
                Code { name: $name, status: $status, title: $title, when: $when, advice: $advice };
        )*
        /// All of them.
        pub static ALL: &[&Code] = &[$(&$ident),*];
    };
}

codes! {
    INVALID_REQUEST = "invalid-request", 400, "The request is malformed",
        "A header, the path or a query parameter is not valid; the detail names it. Unknown query parameters are \
         refused too, so that a typo is never silently ignored.",
        "Correct what the detail names and send the request again.";
    INVALID_JSON = "invalid-json", 400, "The body is not JSON",
        "The request body could not be read as JSON.",
        "Correct the body at the line and column that the detail names.";
    INVALID_CURSOR = "invalid-cursor", 400, "The cursor does not fit this list",
        "A cursor belongs to the list, filter and sort order that it came from, and this one came from another.",
        "Start again from the first page, without a cursor.";
    MISSING_TOKEN = "missing-token", 401, "A credential is needed",
        "The request carries no credential, and this path needs one.",
        "Send `Authorization: Bearer <token>` with an API key, a login token or a JWT.";
    INVALID_TOKEN = "invalid-token", 401, "The credential is not valid",
        "The token is unknown, damaged or not meant for this server.",
        "Log in again or use another key. A key is sent whole, from `mpk_` to its last character.";
    EXPIRED_TOKEN = "expired-token", 401, "The credential has expired",
        "The token was valid and has expired.",
        "Log in again, or ask for a new key.";
    REVOKED_TOKEN = "revoked-token", 401, "The credential has been revoked",
        "The session was ended or the key was revoked. A new password, a new role and a disabled account end every \
         session of a user.",
        "Log in again or use another key.";
    INVALID_CREDENTIALS = "invalid-credentials", 401, "Wrong username or password",
        "The username or the password is wrong. The answer never says which.",
        "Check both. After several failures the address has to wait before it may try again.";
    INSUFFICIENT_SCOPE = "insufficient-scope", 403, "The credential lacks a right",
        "The credential is valid, but its scopes do not cover this. What a key may do is what its own scopes and its owner's role both allow.",
        "Use a credential with the scope that `required_scope` names, or ask an administrator for it.";
    ACCOUNT_DISABLED = "account-disabled", 403, "The account is disabled",
        "An administrator has disabled the account behind this credential, or has deleted it.",
        "Ask an administrator to enable it.";
    FORBIDDEN = "forbidden", 403, "This is not allowed",
        "The request is understood and refused, and no scope would change that.",
        "The detail says why, and what to do instead.";
    NOT_FOUND = "not-found", 404, "There is nothing here",
        "The path, or the object that it names, does not exist.",
        "Check the path and the id. An object that belongs to someone else may look missing.";
    METHOD_NOT_ALLOWED = "method-not-allowed", 405, "The method does not fit this path",
        "The path exists, but not for this method.",
        "Use a method that the `Allow` header lists.";
    NOT_ACCEPTABLE = "not-acceptable", 406, "No acceptable type of answer",
        "The request's `Accept` header excludes every type that this endpoint can return.",
        "Send an `Accept` with one of the types that the detail names.";
    SKU_TAKEN = "sku-taken", 409, "Another card has this SKU",
        "A SKU is unique among the cards that are not deleted, and another card has this one.",
        "Choose another SKU, or change the card that has it.";
    NAME_TAKEN = "name-taken", 409, "The name is taken",
        "Another object of this kind has the name. Names that differ in case alone count as the same.",
        "Choose another name.";
    CARD_IN_USE = "card-in-use", 409, "A plugin still needs this card",
        "A row of a plugin's table refers to the card and forbids its removal, by its key or by another constraint of its table. The detail names the plugin.",
        "Remove what the plugin keeps of the card first, or leave the card deleted but not purged.";
    COUNT_MOVED = "count-moved", 409, "The filter now matches a different number of cards",
        "A bulk action stated how many cards it expects, and the filter now matches more or fewer. Nothing was \
         changed.",
        "Look at the list again and start the action with the new number; `current_count` has it.";
    CONFLICT = "conflict", 409, "The state does not allow this now",
        "The object is in a state that does not allow this.",
        "The detail says why.";
    DESTRUCTIVE_MIGRATION = "destructive-migration", 409, "The schema change would lose data",
        "The plugin's new schema.sql drops, renames or converts a column or a table that is there, or deletes or changes rows in it.",
        "An operator has to confirm it, after a backup, or the plugin's author keeps what would be lost.";
    VERSION_MISMATCH = "version-mismatch", 412, "Someone else changed this first",
        "`If-Match` does not name the current version: someone has changed the object in the meantime.",
        "Read the object again and repeat the change. The current version is in `current_version`.";
    PAYLOAD_TOO_LARGE = "payload-too-large", 413, "The body is too large",
        "The request body is larger than this endpoint takes; the detail names the limit.",
        "Send less at once.";
    URI_TOO_LONG = "uri-too-long", 414, "The address is too long",
        "The address is over 8 KiB.",
        "Shorten the path or the query.";
    UNSUPPORTED_MEDIA_TYPE = "unsupported-media-type", 415, "The body's type is not supported",
        "The `Content-Type` of the body is not one that this endpoint reads, or the body is encoded.",
        "Send the `Content-Type` that the detail names, and no `Content-Encoding`.";
    MISDIRECTED_REQUEST = "misdirected-request", 421, "This host name is not served here",
        "The `Host` header names neither BASE_URL nor one of ALLOWED_HOSTS.",
        "Use the address of BASE_URL. An operator may add the name to ALLOWED_HOSTS.";
    VALIDATION_FAILED = "validation-failed", 422, "Some fields are not valid",
        "The body is JSON, but some of its fields are not valid.",
        "Correct each field of `errors`: `pointer` says where it is, `detail` what is wrong with it.";
    KIND_NOT_DECLARED = "kind-not-declared", 422, "The plugin has not declared this kind",
        "A plugin tried to write a kind of data that its manifest does not list.",
        "The plugin's author adds the kind to `provides_kinds`.";
    SOURCE_KEY_INVALID = "source-key-invalid", 422, "The source key does not fit the plugin",
        "A source key is the plugin's name, a colon and a suffix that is not empty; this one is something else.",
        "The plugin's author corrects the key.";
    CARD_TOO_LARGE = "card-too-large", 422, "The card would be too large",
        "A card is at most 8 MiB, counted as the JSON text that readers get. The detail says how large this one would be; nothing was changed.",
        "Leave something out, or keep large data elsewhere and refer to it.";
    SOURCE_LIMIT_EXCEEDED = "source-limit-exceeded", 422, "The source is over a limit",
        "A card has at most 256 sources, a source at most 256 KiB and 64 levels of nesting.",
        "Store less, or remove a source that is no longer needed.";
    RATE_LIMITED = "rate-limited", 429, "Too many requests",
        "The key, user or address has used up its requests, or a login failed too often.",
        "Wait as long as `Retry-After` says. The headers `RateLimit` and `RateLimit-Policy` show what is left.";
    HEADERS_TOO_LARGE = "headers-too-large", 431, "The headers are too large",
        "The request's headers are over the limit.",
        "Send fewer or shorter headers.";
    INTERNAL_ERROR = "internal-error", 500, "Something went wrong on the server",
        "An internal error occurred. The cause is in the server's log, not in this answer.",
        "Tell an operator the `request_id`: the server's log has the cause under it.";
    PLUGIN_PANICKED = "plugin-panicked", 500, "The plugin crashed during this call",
        "The plugin's code panicked during this call. Only this call is lost.",
        "Try again; if it happens again, tell the plugin's author. The server's log has the cause under the `request_id`.";
    PLUGIN_ERROR = "plugin-error", 502, "The plugin's answer could not be used",
        "The plugin answered with something that cannot be sent: a bad status, a bad header, a body over its limit.",
        "Tell the plugin's author. The server's log has the cause under the `request_id`.";
    UPSTREAM_ERROR = "upstream-error", 502, "The server behind this path failed",
        "The upstream of this proxy route could not be reached, aborted its answer, or did not answer in HTTP.",
        "Try again later. If it keeps failing, tell an operator.";
    STORAGE_FULL = "storage-full", 507, "The disk is full",
        "The upload does not fit on the server's disk. None of it was kept.",
        "Ask an operator to free disk space, then send it again.";
    PLUGIN_UNAVAILABLE = "plugin-unavailable", 503, "The plugin is not available",
        "The plugin is disabled, refused, failed, busy or being replaced.",
        "Try again after `Retry-After`. Operators find the reason in the plugin registry.";
    DATABASE_UNAVAILABLE = "database-unavailable", 503, "The database cannot be reached",
        "The server cannot reach its database. Credentials stay valid; nobody has to log in again.",
        "Try again after `Retry-After`.";
    IDENTITY_PROVIDER_UNAVAILABLE = "identity-provider-unavailable", 503, "The identity provider cannot be reached",
        "The identity provider's keys are needed to check a JWT, and it cannot be reached.",
        "Try again after `Retry-After`. Other credentials work meanwhile.";
    OVERLOADED = "overloaded", 503, "The server is busy",
        "The server is at its limit and refuses more work instead of slowing every request down.",
        "Try again after `Retry-After`.";
    STARTING = "starting", 503, "The host is starting",
        "The host is not ready yet: it is preparing its database and loading its plugins.",
        "Wait as long as `Retry-After` says. The server's log says what it waits for.";
    DRAINING = "draining", 503, "The server is shutting down",
        "The server is shutting down and takes no new requests.",
        "Try again after `Retry-After`; another instance or the next start will answer.";
    PLUGIN_TIMEOUT = "plugin-timeout", 504, "The plugin took too long",
        "The plugin's call reached its deadline and was cancelled.",
        "Ask for less at once, or try again later.";
    UPSTREAM_TIMEOUT = "upstream-timeout", 504, "The server behind this path took too long",
        "The upstream of this proxy route, or the site of a picture, did not answer in time.",
        "Try again later. If it keeps failing, tell an operator.";
    REQUEST_TIMEOUT = "request-timeout", 408, "The request came too slowly",
        "The body of the request did not arrive in time.",
        "Send it again over a better connection.";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_kebab_case_and_statuses_are_errors() {
        for (i, code) in ALL.iter().enumerate() {
            assert!(code.name.bytes().all(|b| b.is_ascii_lowercase() || b == b'-'), "{}", code.name);
            assert!((400..600).contains(&code.status), "{}", code.name);
            assert!([code.title, code.when, code.advice].iter().all(|text| !text.is_empty()), "{}", code.name);
            assert!(ALL[i + 1..].iter().all(|other| other.name != code.name), "{} twice", code.name);
        }
    }
}
