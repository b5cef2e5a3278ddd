//! What all crates of the host share: settings, secrets, the clock, codes of problems, strict JSON
//! input and the client's side of HTTP.
//!
//! No database sessions, no HTTP server, nothing of plugins.

pub mod account;
pub mod card_size;
pub mod causes;
pub mod clock;
pub mod codes;
pub mod coding;
pub mod config;
pub mod db_error;
pub mod exact;
pub mod hex;
pub mod hop_by_hop;
pub mod http_client;
pub mod input;
pub mod log_targets;
pub mod mac;
pub mod memory;
pub mod page;
pub mod password;
pub mod printable;
pub mod raw_answer;
pub mod request_id;
pub mod schema;
pub mod scope;
pub mod seal;
pub mod secret_file;
pub mod spelling;
mod strict;
