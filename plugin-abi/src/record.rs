//! A record: fields by number in one buffer. A reader takes the numbers that it knows; a number that is absent, or that
//! an older writer never heard of, reads as empty. So a record can grow without a new version of the API.
//!
//! Layout, native byte order: `count: u32`, then `count` times `{number: u32, offset: u32, length: u32}` with offsets
//! into the buffer, then the values.
//!
//! ```
//! use cardinal_plugin_abi::record::{self, attr};
//!
//! let head = record::write(&[(attr::METHOD, b"GET"), (attr::PATH, b"/items/7")]);
//! assert_eq!(record::field(&head, attr::PATH), b"/items/7");
//! assert_eq!(record::field(&head, attr::QUERY), b"");
//! ```

/// Numbers of the fields of a request's head ([`crate::Request::head`]).
///
/// Text is UTF-8; a path, a query and header values are as they came.
///
/// ```
/// use cardinal_plugin_abi::record::{self, attr};
///
/// let head = record::write(&[(attr::CALL_KIND, b"tool"), (attr::TOOL, b"plugin_prices_get")]);
/// assert_eq!(record::field(&head, attr::TOOL), b"plugin_prices_get");
/// assert_eq!(record::field(&head, attr::METHOD), b""); // a tool has none
/// ```
pub mod attr {
    /// The method, upper case; empty in a tool call.
    pub const METHOD: u32 = 1;
    /// The path below the plugin's prefix, beginning with `/`, percent-encoded as it came.
    pub const PATH: u32 = 2;
    /// The query without `?`, percent-encoded as it came.
    pub const QUERY: u32 = 3;
    /// Who calls: the user's id as hyphenated text.
    pub const USER_ID: u32 = 10;
    /// `user`, `api_key`, `oidc`, `plugin` or `local`.
    pub const USER_KIND: u32 = 11;
    /// The user's name.
    pub const USER_NAME: u32 = 12;
    /// The call's effective scopes, separated by spaces.
    pub const SCOPES: u32 = 13;
    /// `hmac`, `api_key`, `jwt` or `local`.
    pub const AUTH_METHOD: u32 = 14;
    /// The request id that is in every log line and error body.
    pub const REQUEST_ID: u32 = 20;
    /// The W3C `traceparent`.
    pub const TRACE_PARENT: u32 = 21;
    /// Milliseconds that were left until the deadline when the call began, decimal.
    pub const DEADLINE_MS: u32 = 22;
    /// The client's address, as text.
    pub const PEER: u32 = 23;
    /// The tenant; always empty today.
    pub const TENANT: u32 = 24;
    /// The generation of the plugin that is being called, decimal.
    pub const GENERATION: u32 = 25;
    /// `route`, `tool` or `job`; later versions may add others.
    pub const CALL_KIND: u32 = 26;
    /// The length of a streamed request body when the client said it, decimal.
    pub const CONTENT_LENGTH: u32 = 27;
    /// The name of the tool that is called; empty in the call of a route.
    pub const TOOL: u32 = 28;
    /// The language that the client prefers, a tag such as `de-AT`; empty when it named none.
    pub const LOCALE: u32 = 29;
    /// The id of the job whose handler is called, as hyphenated text; empty in other calls.
    pub const JOB: u32 = 30;
    /// The checkpoint of the job's run before, as JSON; empty when there is none.
    pub const CHECKPOINT: u32 = 31;
}

/// Numbers of what an instance is made with (`about` of [`crate::PluginModule`]'s `create`).
///
/// ```
/// use cardinal_plugin_abi::record::{self, instance};
///
/// let about = record::write(&[(instance::GENERATION, b"3"), (instance::CORE_VERSION, b"1.2.0")]);
/// assert_eq!(record::field(&about, instance::CORE_VERSION), b"1.2.0");
/// ```
pub mod instance {
    /// The generation of the instance, decimal: one more with every instance that the host makes.
    pub const GENERATION: u32 = 1;
    /// The version of the host's core, semver.
    pub const CORE_VERSION: u32 = 2;
    /// The minor version of the plugin API that the host offers, decimal.
    pub const API_MINOR: u32 = 3;
}

/// Numbers of [`crate::Reply::extra`]. Both are reserved: no host acts on them yet.
///
/// ```
/// use cardinal_plugin_abi::{Reply, record::{self, reply}};
///
/// let extra = Reply::default().extra;
/// assert_eq!(record::field(extra.get(), reply::TRAILERS), b"");
/// ```
pub mod reply {
    /// The reply takes its connection over for another protocol.
    pub const UPGRADE: u32 = 1;
    /// Pairs that follow the body.
    pub const TRAILERS: u32 = 2;
}

/// Numbers of the start of a job ([`crate::extension::Jobs`]).
///
/// ```
/// use cardinal_plugin_abi::record::{self, job_start};
///
/// let start = record::write(&[(job_start::NAME, b"import"), (job_start::ARGS, br#"{"supplier":"oak-and-co"}"#)]);
/// assert_eq!(record::field(&start, job_start::NAME), b"import");
/// ```
pub mod job_start {
    /// The job's name in the manifest.
    pub const NAME: u32 = 1;
    /// Its arguments, a JSON object of at most 64 KiB; none when empty.
    pub const ARGS: u32 = 2;
}

/// Numbers of a job's report ([`crate::extension::Jobs`]). What is absent stays as it was.
///
/// ```
/// use cardinal_plugin_abi::record::{self, job_report};
///
/// let report = record::write(&[(job_report::DONE, b"7"), (job_report::TEXT, b"Reading prices")]);
/// assert_eq!(record::field(&report, job_report::TOTAL), b""); // stays as it was
/// ```
pub mod job_report {
    /// Items that are done, decimal.
    pub const DONE: u32 = 1;
    /// Items in all, decimal.
    pub const TOTAL: u32 = 2;
    /// A few words for people, at most 1 KiB.
    pub const TEXT: u32 = 3;
    /// One item that failed: a JSON object with `code` and `detail`, and what says which one (`id`, `line`).
    pub const ERROR: u32 = 4;
    /// With `save`: where a later run goes on, JSON of at most 64 KiB.
    pub const CHECKPOINT: u32 = 5;
}

/// Numbers of a request to another server ([`crate::extension::HttpClient`]).
///
/// ```
/// use cardinal_plugin_abi::{pairs, record::{self, http_request}};
///
/// let headers = pairs::write([(&b"accept"[..], &b"text/csv"[..])]);
/// let request = record::write(&[
///     (http_request::URL, b"https://shop.example/prices.csv"),
///     (http_request::HEADERS, &headers),
///     (http_request::TIMEOUT_MS, b"5000"),
/// ]);
/// assert_eq!(record::field(&request, http_request::METHOD), b""); // counts as GET
/// ```
pub mod http_request {
    /// The method; GET when it is empty.
    pub const METHOD: u32 = 1;
    /// The URL: `http` or `https`, at most 8 KiB, without credentials in it.
    pub const URL: u32 = 2;
    /// Pairs ([`crate::pairs`]). The host sets `host`, `content-length` and what belongs to the connection, and refuses
    /// them here; it adds `user-agent` and `traceparent` where there are none.
    pub const HEADERS: u32 = 3;
    /// The body: at most 64 MiB.
    pub const BODY: u32 = 4;
    /// Milliseconds for all of it, the body of the answer included; decimal. 15,000 when it is empty; more than 600,000
    /// is refused.
    pub const TIMEOUT_MS: u32 = 5;
    /// Bytes that the body of the answer has at most; decimal. 8 MiB when it is empty; more than 1 GiB is refused.
    pub const MAX_BYTES: u32 = 6;
}

/// Numbers of [`crate::Reply::extra`] when the reply is another server's.
///
/// ```
/// use cardinal_plugin_abi::record::{self, http_answer};
///
/// let extra = record::write(&[(http_answer::ADDRESS, b"192.0.2.7:443")]);
/// assert_eq!(record::field(&extra, http_answer::ADDRESS), b"192.0.2.7:443");
/// ```
pub mod http_answer {
    /// The address and port that were connected to, as text.
    pub const ADDRESS: u32 = 1;
}

/// Numbers of what is listened to ([`crate::extension::Channels`]).
///
/// ```
/// use cardinal_plugin_abi::record::{self, listen};
///
/// let request = record::write(&[(listen::CHANNEL, b"prices")]);
/// assert_eq!(record::field(&request, listen::CHANNEL), b"prices");
/// ```
pub mod listen {
    /// The plugin's own name of the channel: 1 to 100 bytes of UTF-8.
    pub const CHANNEL: u32 = 1;
}

/// Numbers of a notification, which is one piece of the stream of [`crate::extension::Channels`].
///
/// ```
/// use cardinal_plugin_abi::record::{self, notification};
///
/// let heard = record::write(&[(notification::PAYLOAD, b"L1")]);
/// assert!(record::field(&heard, notification::GAP).is_empty(), "nothing was missed");
/// ```
pub mod notification {
    /// What was sent along; empty when nothing was, and in a gap.
    pub const PAYLOAD: u32 = 1;
    /// Not empty: this is no notification but a gap, in which there may have been some. `reconnected` after an outage,
    /// `overflow` when they came faster than the plugin read them; later versions may add others.
    pub const GAP: u32 = 2;
}

const HEAD: usize = 4;
const ENTRY: usize = 12;

/// Writes a record. Of two fields with one number the first is read. A field that would end beyond 4 GiB reads as
/// empty.
///
/// ```
/// use cardinal_plugin_abi::record;
///
/// let record = record::write(&[(1, b"L1"), (2, b"990")]);
/// assert_eq!(record::field(&record, 2), b"990");
/// ```
pub fn write(fields: &[(u32, &[u8])]) -> Vec<u8> {
    let table = HEAD + ENTRY * fields.len();
    let total = fields.iter().map(|(_, value)| value.len()).sum::<usize>();
    let mut out = Vec::with_capacity(table + total);
    out.extend_from_slice(&(fields.len() as u32).to_ne_bytes());
    let mut offset = table;
    for (number, value) in fields {
        let place = (u32::try_from(offset), u32::try_from(value.len()));
        let (at, length) = if let (Ok(at), Ok(length)) = place { (at, length) } else { (0, 0) };
        for word in [*number, at, length] {
            out.extend_from_slice(&word.to_ne_bytes());
        }
        offset += value.len();
    }
    for (_, value) in fields {
        out.extend_from_slice(value);
    }
    out
}

/// Returns the field `number` of `record`; empty when it is absent or the record is malformed. Any bytes may be given.
///
/// ```
/// use cardinal_plugin_abi::record;
///
/// let record = record::write(&[(1, b"L1")]);
/// assert_eq!((record::field(&record, 1), record::field(&record, 2)), (&b"L1"[..], &b""[..]));
/// assert_eq!(record::field(b"nonsense", 1), b"");
/// ```
pub fn field(record: &[u8], number: u32) -> &[u8] {
    entries(record)
        .find(|entry| entry.0 == number)
        .and_then(|(_, offset, length)| record.get(offset..offset.checked_add(length)?))
        .unwrap_or_default()
}

fn entries(record: &[u8]) -> impl Iterator<Item = (u32, usize, usize)> + '_ {
    let count = word(record, 0).unwrap_or(0) as usize;
    (0..count).map_while(move |i| {
        let at = HEAD.checked_add(i.checked_mul(ENTRY)?)?;
        Some((word(record, at)?, word(record, at + 4)? as usize, word(record, at + 8)? as usize))
    })
}

pub(crate) fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let word = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_ne_bytes(word.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_was_written_and_nothing_else() {
        let record = write(&[(attr::METHOD, b"GET"), (attr::PATH, b"/items"), (99, b"")]);
        assert_eq!(field(&record, attr::METHOD), b"GET");
        assert_eq!(field(&record, attr::PATH), b"/items");
        assert_eq!(field(&record, attr::QUERY), b"");
    }

    #[test]
    fn a_malformed_record_reads_as_empty() {
        let record = write(&[(1, b"abc")]);
        for end in 0..record.len() {
            field(&record[..end], 1); // must not panic, whatever is missing
        }
        let mut wild = record.clone();
        wild[8..12].copy_from_slice(&u32::MAX.to_ne_bytes());
        assert_eq!(field(&wild, 1), b"");
        assert_eq!(field(&[0xff; 16], 1), b"");
    }
}
