//! The users of kind `oidc` in `public.admin_users`: who the holders of an identity provider's tokens are here.

use deadpool_postgres::{Pool, Transaction};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use super::users::{self, User};
use crate::error::StoreError;
use cardinal_base::{hex::hex, printable::turns_line};

/// Characters of a name that a provider gives; the suffix that makes it unique comes on top, and the column takes 120.
const MAX_NAME: usize = 100;
/// Hex digits of that suffix.
const SUFFIX_DIGITS: usize = 8;

/// The user whom this subject of this issuer is here; made when it is seen for the first time.
pub async fn find_or_create(pool: &Pool, issuer: &str, subject: &str, name: &str) -> Result<User, StoreError> {
    let mut client = pool.get().await?;
    let sql = find();
    if let Some(row) = client.query_opt(&client.prepare_cached(&sql).await?, &[&issuer, &subject]).await? {
        return Ok(users::from_row(&row));
    }
    let transaction = client.transaction().await?;
    // Two first requests at once, on two hosts perhaps, make one user, and two people of one name get two names.
    transaction.batch_execute("LOCK TABLE public.admin_users IN SHARE ROW EXCLUSIVE MODE").await?;
    insert(&transaction, issuer, subject, name).await?;
    let row = transaction.query_one(&sql, &[&issuer, &subject]).await?;
    transaction.commit().await?;
    Ok(users::from_row(&row))
}

fn find() -> String {
    format!("SELECT {} FROM public.admin_users u WHERE u.oidc_iss = $1 AND u.oidc_sub = $2", users::columns())
}

async fn insert(transaction: &Transaction<'_>, issuer: &str, subject: &str, name: &str) -> Result<(), StoreError> {
    let (name, suffix) = (readable(name), suffix(issuer, subject));
    let with_suffix = format!("{name} {suffix}").trim_start().to_owned();
    let name = if name.is_empty() { &with_suffix } else { &name };
    // Nobody may look like somebody else in the audit, a local administrator least of all.
    transaction
        .execute(
            "INSERT INTO public.admin_users (id, kind, oidc_iss, oidc_sub, username) \
             SELECT $1, 'oidc', $2, $3, CASE WHEN EXISTS ( \
                 SELECT 1 FROM public.admin_users WHERE lower(username) = lower($4)) THEN $5 ELSE $4 END \
             ON CONFLICT (oidc_iss, oidc_sub) DO NOTHING",
            &[&Uuid::now_v7(), &issuer, &subject, &name, &with_suffix],
        )
        .await?;
    Ok(())
}

/// A provider's name as it may stand in a list: bounded, in one line, without characters that change how the rest
/// of the line reads.
fn readable(name: &str) -> String {
    let is_kept = |c: &char| !turns_line(*c) && *c != '\u{ad}';
    let kept: String = name.chars().filter(is_kept).take(MAX_NAME).collect();
    kept.trim().to_owned()
}

/// Tells apart two people whom their providers call the same.
fn suffix(issuer: &str, subject: &str) -> String {
    let hash = Sha256::new().chain_update(issuer).chain_update([0]).chain_update(subject).finalize();
    format!("({})", &hex(&hash)[..SUFFIX_DIGITS])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_mark_belongs_to_issuer_and_subject_together() {
        assert_eq!(suffix("a", "b"), suffix("a", "b"));
        assert_ne!(suffix("a", "bc"), suffix("ab", "c"));
    }

    proptest! {
        #[test]
        fn any_name_fits_the_column(name in "(?s).{0,300}") {
            let readable = readable(&name);
            let with_suffix = format!("{readable} {}", suffix("i", "s"));
            prop_assert!((1..=120).contains(&with_suffix.chars().count()), "{with_suffix:?}");
            let plain = |c: char| !c.is_control() && c != '\u{202e}';
            prop_assert!(readable.chars().all(plain));
        }
    }
}
