//! The plugin's own table (`schema.sql`); all its SQL is here. No connection is held while a site makes us wait.

use cardinal_plugin::{FromRow, PluginContext, Result};
use sha2::{Digest, Sha256};

use crate::thumbnail::Thumbnail;

/// What kept a picture from becoming a thumbnail is believed so long.
const FAILURE_MINUTES: i32 = 10;
/// Rows that one new thumbnail may push out: a setting that was lowered takes effect step by step.
const MAX_FORGOTTEN: i64 = 100;

/// What is known of a picture in a size.
pub(crate) enum CachedPicture {
    Thumbnail(Thumbnail),
    /// A picture that cannot be shown: code and words for people.
    Unusable {
        code: String,
        detail: String,
    },
}

#[derive(FromRow)]
struct ThumbnailRow {
    jpeg: Option<Vec<u8>>,
    width: Option<i32>,
    height: Option<i32>,
    code: Option<String>,
    failure: Option<String>,
}

impl ThumbnailRow {
    fn read(self) -> Option<CachedPicture> {
        if let Some(jpeg) = self.jpeg {
            let (width, height) = (u32::try_from(self.width?).ok()?, u32::try_from(self.height?).ok()?);
            return Some(CachedPicture::Thumbnail(Thumbnail { jpeg: jpeg.into(), width, height }));
        }
        Some(CachedPicture::Unusable { code: self.code?, detail: self.failure? })
    }
}

fn key(address: &str) -> Vec<u8> {
    Sha256::digest(address).to_vec()
}

fn pixels(size: u32) -> i32 {
    i32::try_from(size).unwrap_or(i32::MAX)
}

pub(crate) async fn find(
    ctx: &PluginContext,
    address: &str,
    size: u32,
    keep_days: i32,
) -> Result<Option<CachedPicture>> {
    const SQL: &str = "
        SELECT jpeg, width, height, code, failure FROM thumbnails
        WHERE address = $1 AND size = $2
          AND made_at > now() - CASE WHEN jpeg IS NULL THEN make_interval(mins => $4) ELSE make_interval(days => $3) END";
    let connection = ctx.get_plugin_conn().await?;
    let row: Option<ThumbnailRow> =
        connection.query_opt_as(SQL, &[&key(address), &pixels(size), &keep_days, &FAILURE_MINUTES]).await?;
    Ok(row.and_then(ThumbnailRow::read))
}

/// Keeps what became of a picture, and forgets the oldest when there are too many.
pub(crate) async fn keep(
    ctx: &PluginContext,
    address: &str,
    size: u32,
    known: &CachedPicture,
    most: i64,
) -> Result<()> {
    const KEEP: &str = "
        INSERT INTO thumbnails (address, size, jpeg, width, height, code, failure) VALUES ($1, $2, $3, $4, $5, $6, $7)
        ON CONFLICT (address, size) DO UPDATE SET
            jpeg = excluded.jpeg, width = excluded.width, height = excluded.height,
            code = excluded.code, failure = excluded.failure, made_at = now()";
    const FORGET: &str = "
        DELETE FROM thumbnails WHERE id IN (SELECT id FROM thumbnails ORDER BY id DESC OFFSET $1 LIMIT $2)";
    let (mut jpeg, mut width, mut height, mut code, mut failure) = (None, None, None, None, None);
    match known {
        CachedPicture::Thumbnail(thumbnail) => {
            jpeg = Some(&thumbnail.jpeg[..]);
            (width, height) = (Some(pixels(thumbnail.width)), Some(pixels(thumbnail.height)));
        }
        CachedPicture::Unusable { code: own, detail } => (code, failure) = (Some(own), Some(detail)),
    }
    let connection = ctx.get_plugin_conn().await?;
    connection.execute(KEEP, &[&key(address), &pixels(size), &jpeg, &width, &height, &code, &failure]).await?;
    connection.execute(FORGET, &[&most, &MAX_FORGOTTEN]).await?;
    Ok(())
}
