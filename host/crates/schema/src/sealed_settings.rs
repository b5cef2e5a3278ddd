//! The secrets among plugins' settings, when they come into a database with another key.

use std::collections::BTreeMap;

use anyhow::Context as _;
use tokio_postgres::{Client, types::Json};

use cardinal_base::seal::{SealingKey, settings_place};

/// Seals what the key `before` opens with the key `now`. What `now` opens already stays; what neither opens stays too,
/// and its plugins are named.
///
/// # Errors
/// As the server reports them.
pub async fn reseal(owner: &Client, before: Option<&SealingKey>, now: &SealingKey) -> anyhow::Result<Vec<String>> {
    let sql = "SELECT plugin, sealed FROM public.plugin_state WHERE sealed <> '{}' ORDER BY plugin";
    let rows = owner.query(sql, &[]).await.context("reading the plugins' secret settings")?;
    let mut unreadable = Vec::new();
    for row in rows {
        let (plugin, Json(mut sealed)): (String, Json<BTreeMap<String, String>>) =
            (row.try_get("plugin")?, row.try_get("sealed")?);
        for (pointer, text) in &mut sealed {
            let place = settings_place(&plugin, pointer);
            if now.open(&place, text).is_ok() {
                continue;
            }
            match before.and_then(|key| key.open(&place, text).ok()) {
                Some(opened) => *text = now.seal(&place, &opened)?,
                None if !unreadable.contains(&plugin) => unreadable.push(plugin.clone()),
                None => {}
            }
        }
        let write = "UPDATE public.plugin_state SET sealed = $2 WHERE plugin = $1";
        owner.execute(write, &[&plugin, &Json(&sealed)]).await.context("writing the plugins' secret settings")?;
    }
    Ok(unreadable)
}
