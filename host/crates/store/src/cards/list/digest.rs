//! Which cards were looked at, in 32 bytes.

use std::fmt;

use cardinal_base::hex::hex;

/// SHA-256 of cards' ids in their order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Digest(pub(crate) Vec<u8>);

impl Digest {
    /// The aggregate that makes one of a column of ids.
    pub(crate) fn sql(column: &str) -> String {
        format!("sha256(coalesce(string_agg(uuid_send({column}), ''::bytea ORDER BY {column}), ''::bytea))")
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.0))
    }
}
