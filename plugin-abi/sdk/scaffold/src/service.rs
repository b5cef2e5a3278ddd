//! What the plugin does. `?` on any error tells the log and not the client; `Error`'s constructors speak to the client.

use cardinal_plugin::{Error, PluginContext, Result, Uuid, json};

const LONGEST_NOTE: usize = 2_000;

/// The notes on a card, oldest first.
pub async fn list(ctx: &PluginContext, card_id: Uuid) -> Result<Vec<String>> {
    let conn = ctx.get_plugin_conn().await?;
    let rows = conn.query("SELECT text FROM notes WHERE card_id = $1 ORDER BY id", &[&card_id]).await?;
    Ok(rows.iter().map(|row| row.get("text")).collect())
}

/// Adds a note, and tells the card of it: other plugins read what `enrich_card` writes. Gives the card's version.
pub async fn add(ctx: &PluginContext, card_id: Uuid, text: &str) -> Result<i64> {
    let text = checked(text)?;
    let user = ctx.user()?;
    ctx.read_card(card_id, user.id).await?; // 404 for a card that is not there
    {
        let conn = ctx.get_plugin_conn().await?;
        conn.execute("INSERT INTO notes (card_id, text) VALUES ($1, $2)", &[&card_id, &text]).await?;
    }
    let notes = list(ctx, card_id).await?;
    let data = json!({ "count": notes.len(), "last": text });
    ctx.enrich_card(card_id, user.id, "{{name}}:notes", "{{name}}-note", &data).await
}

/// A note as it is kept, or what is wrong with it.
fn checked(text: &str) -> Result<&str> {
    match text.trim() {
        "" => Err(Error::unprocessable("A note has a text.").field("/text", "is empty")),
        text if text.chars().count() > LONGEST_NOTE => {
            Err(Error::unprocessable("The note is too long.").field("/text", "has more than 2,000 characters"))
        }
        text => Ok(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_has_a_text_that_is_not_too_long() {
        assert_eq!(checked("  check the legs ").unwrap(), "check the legs");
        assert!(checked(" \n").is_err());
        assert!(checked(&"x".repeat(LONGEST_NOTE)).is_ok() && checked(&"x".repeat(LONGEST_NOTE + 1)).is_err());
    }
}
