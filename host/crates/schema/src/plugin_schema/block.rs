//! Blocks for statements of schema.sql, in which PostgreSQL itself refuses to begin, commit or roll back.

use anyhow::Context as _;
use rand::TryRng as _;

use cardinal_base::hex::hex;
use cardinal_database::sql;

const TAG_BYTES: usize = 16;

/// One statement, in a block that cannot be left: PostgreSQL itself refuses there to begin, commit or roll back. The
/// tag is random, so that no text can contain it and end the block early.
pub(super) fn in_block(statement: &str) -> anyhow::Result<String> {
    do_block(&format!("BEGIN EXECUTE {}; END", sql::literal(statement)))
}

pub(super) fn do_block(body: &str) -> anyhow::Result<String> {
    let tag = format!("$block_{}$", random_tag()?);
    Ok(format!("DO {tag} {body} {tag}"))
}

/// What no text of a file can know.
pub(super) fn random_tag() -> anyhow::Result<String> {
    let mut bytes = [0; TAG_BYTES];
    rand::rngs::SysRng.try_fill_bytes(&mut bytes).context("getting random numbers")?;
    Ok(hex(&bytes))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn two_blocks_never_have_the_same_tag() {
        let (one, other) = (in_block("select 1").unwrap(), in_block("select 1").unwrap());
        assert_ne!(one, other);
        assert!(one.starts_with("DO $block_") && one.ends_with('$'));
    }
}
