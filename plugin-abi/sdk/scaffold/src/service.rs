//! What the plugin does. `?` sends an error to the log and not to the client; `Error`'s constructors speak to the
//! client.

{{#page}}
{{#job}}
use cardinal_plugin::{Error, FromRow, Job, PluginContext, Result, Uuid, json};
{{/job}}
{{^job}}
use cardinal_plugin::{Error, FromRow, PluginContext, Result, Uuid, json};
{{/job}}
use serde::Serialize;
{{/page}}
{{#schema}}
{{^page}}
{{#job}}
use cardinal_plugin::{Error, Job, PluginContext, Result, Uuid, json};
{{/job}}
{{^job}}
use cardinal_plugin::{Error, PluginContext, Result, Uuid, json};
{{/job}}
{{/page}}
{{/schema}}
{{^schema}}
use cardinal_plugin::{Error, PluginContext, Result, Source, Uuid, json};
{{/schema}}
{{#settings}}

use crate::settings::Settings;
{{/settings}}

/// What this plugin writes to cards, as `provides_kinds` in manifest.json declares it.
const KIND: &str = "{{name}}-note";
{{^settings}}
/// Characters of a note.
const MAX_NOTE_CHARS: usize = 2_000;
{{/settings}}

/// The notes on a card, oldest first.
pub async fn list(ctx: &PluginContext, card_id: Uuid) -> Result<Vec<String>> {
{{#schema}}
    let conn = ctx.get_plugin_conn().await?;
    let sql = "SELECT text FROM notes WHERE card_id = $1 ORDER BY id";
    conn.query_values(sql, &[&card_id]).await
{{/schema}}
{{^schema}}
    let card = ctx.read_card(card_id, ctx.user()?.id).await?; // 404 for a card that is not there
    let notes = card.sources_of(KIND).into_values();
    let text = |note: Source| note.data["text"].as_str().map(str::to_owned);
    Ok(notes.filter_map(text).collect())
{{/schema}}
}

{{#page}}
/// Notes on the page.
const PAGE_ROWS: i64 = 50;

#[derive(FromRow, Serialize)]
pub struct Note {
    card_id: Uuid,
    title: String,
    text: String,
}

/// The newest notes on all cards, newest first.
pub async fn latest(ctx: &PluginContext) -> Result<Vec<Note>> {
    let conn = ctx.get_plugin_conn().await?;
    let sql = "SELECT n.card_id, c.title, n.text FROM notes n JOIN public.master_cards c ON c.id = n.card_id
               WHERE c.deleted_at IS NULL ORDER BY n.id DESC LIMIT $1";
    conn.query_as(sql, &[&PAGE_ROWS]).await
}

{{/page}}
{{#job}}
/// Notes of a card that stay; the newest.
const KEPT_NOTES: usize = 20;
/// Cards looked up at a time.
const BATCH_CARDS: i64 = 100;

/// Removes all but the newest notes of each card.
pub async fn trim(ctx: &PluginContext, job: &Job) -> Result<()> {
    let sql = "SELECT card_id FROM notes GROUP BY card_id HAVING count(*) > $1 LIMIT $2";
    let most = KEPT_NOTES as i64;
    let mut removed = job.checkpoint()?.unwrap_or(0);
    loop {
        let conn = ctx.get_plugin_conn().await?;
        let cards: Vec<Uuid> = conn.query_values(sql, &[&most, &BATCH_CARDS]).await?;
        drop(conn);
        if cards.is_empty() {
            return Ok(());
        }
        for card_id in cards {
            removed += trim_card(ctx, card_id).await?;
            job.progress(removed, None, "Removing old notes");
            job.save(&removed).await?; // fails when the job is to stop
        }
    }
}

/// Returns how many notes were removed.
async fn trim_card(ctx: &PluginContext, card_id: Uuid) -> Result<u64> {
    let notes = list(ctx, card_id).await?;
    let kept = &notes[notes.len().saturating_sub(KEPT_NOTES)..];
    // Before the notes go: a job that is stopped in between finds them again.
    match share(ctx, card_id, kept).await {
        Err(error) if !error.is_not_found() => return Err(error),
        _ => {} // a card that was deleted has nothing to write to
    }
    let conn = ctx.get_plugin_conn().await?;
    let sql = "DELETE FROM notes WHERE card_id = $1 AND id NOT IN (
                 SELECT id FROM notes WHERE card_id = $1 ORDER BY id DESC LIMIT $2)";
    conn.execute(sql, &[&card_id, &(KEPT_NOTES as i64)]).await
}

{{/job}}
{{#schema}}
/// Adds a note, and tells other plugins of it in the card. Returns the card's version.
{{/schema}}
{{^schema}}
/// Adds a note to the card, where other plugins read it, too. Returns the card's version.
{{/schema}}
pub async fn add(ctx: &PluginContext, card_id: Uuid, text: &str) -> Result<i64> {
{{#settings}}
    let Settings { longest_note } = ctx.settings()?; // those of this instance; new ones make a new instance
    let text = checked(text, longest_note)?;
{{/settings}}
{{^settings}}
    let text = checked(text, MAX_NOTE_CHARS)?;
{{/settings}}
    let user = ctx.user()?;
{{#schema}}
    ctx.read_card(card_id, user.id).await?; // 404 for a card that is not there
    {
        let conn = ctx.get_plugin_conn().await?;
        let sql = "INSERT INTO notes (card_id, text) VALUES ($1, $2)";
        conn.execute(sql, &[&card_id, &text]).await?;
    }
    share(ctx, card_id, &list(ctx, card_id).await?).await
{{/schema}}
{{^schema}}
    // Such an id grows with time, so the notes stay in order.
    let source_key = format!("{{name}}:{}", Uuid::now_v7());
    let data = json!({ "text": text });
    ctx.enrich_card(card_id, user.id, &source_key, KIND, &data)
        .await
{{/schema}}
}

{{#schema}}
/// Writes to the card how many notes it has, and the newest. Returns the card's version.
async fn share(ctx: &PluginContext, card_id: Uuid, notes: &[String]) -> Result<i64> {
    let data = json!({ "count": notes.len(), "last": notes.last() });
    let user = ctx.user()?;
    ctx.enrich_card(card_id, user.id, "{{name}}:notes", KIND, &data)
        .await
}

{{/schema}}
/// A note as it is kept, or what is wrong with it.
fn checked(text: &str, longest: usize) -> Result<&str> {
    let text = text.trim();
    if text.is_empty() {
        return Err(Error::unprocessable("A note has a text.").field("/text", "is empty"));
    }
    if text.chars().count() > longest {
        let detail = format!("has more than {longest} characters");
        return Err(Error::unprocessable("The note is too long.").field("/text", &detail));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
{{#routes}}
    use cardinal_plugin::block_on;
{{/routes}}
{{#schema}}
{{#job}}
    use cardinal_plugin::testing::{JobEnd, TestHost, TestJob, TestRequest};
    use cardinal_plugin::testing::{lacks_database, test_card};
{{/job}}
{{^job}}
    use cardinal_plugin::testing::{TestHost, TestRequest, lacks_database, test_card};
{{/job}}
{{/schema}}
{{^schema}}
    use cardinal_plugin::testing::{TestHost, TestRequest, test_card};
{{/schema}}
{{^routes}}
    use cardinal_plugin::{block_on, serde_json::Value};
{{/routes}}

    use super::*;

    const MANIFEST: &str = include_str!("../manifest.json");

    #[test]
    fn a_note_has_a_text_that_is_not_too_long() {
        let text = "check the legs";
        assert_eq!(checked(&format!("  {text} "), text.len()).unwrap(), text);
        assert!(checked(" \n", text.len()).is_err());
        assert!(checked(text, text.len() - 1).is_err());
    }

{{#schema}}
    /// In a host of the test's own, with a real PostgreSQL where one is installed.
{{/schema}}
{{^schema}}
    /// In a host of the test's own.
{{/schema}}
    #[test]
    fn a_note_is_kept_and_other_plugins_can_read_it() {
{{#schema}}
        if lacks_database() {
            return;
        }
        let host = TestHost::builder(MANIFEST)
            .database(include_str!("../schema.sql"))
            .start(crate::routes::routes);
{{/schema}}
{{^schema}}
        let host = TestHost::new(MANIFEST, crate::routes::routes);
{{/schema}}
        let chair = host.add_card(test_card("Chair", json!({})));
{{#routes}}
        let path = format!("/cards/{chair}");
        let body = json!({ "text": "check the legs" });
        let added = block_on(host.send(TestRequest::post(&path).json(&body)));
        assert_eq!(added.status(), 201, "{added:?}");
        let listed = block_on(host.send(TestRequest::get(&path))).json();
{{/routes}}
{{^routes}}
        let tool = |name: &str, arguments: Value| {
            let tool = format!("plugin_{{snake}}_{name}");
            block_on(host.send(TestRequest::tool(&tool, &arguments)))
        };
        let note = json!({ "card_id": chair, "text": "check the legs" });
        assert_eq!(tool("add", note).json()["version"], 2);
        let listed = tool("list", json!({ "card_id": chair })).json();
{{/routes}}
        assert_eq!(listed["items"], json!(["check the legs"]));
        assert_eq!(host.card(chair).sources_of(KIND).len(), 1);
    }
{{#job}}

    #[test]
    fn the_newest_notes_stay() {
        if lacks_database() {
            return;
        }
        let host = TestHost::builder(MANIFEST)
            .database(include_str!("../schema.sql"))
            .start(crate::routes::routes);
        let chair = host.add_card(test_card("Chair", json!({})));
        for number in 0..=KEPT_NOTES {
            let text = format!("note {number}");
{{#routes}}
            let request =
                TestRequest::post(&format!("/cards/{chair}")).json(&json!({ "text": text }));
{{/routes}}
{{^routes}}
            let note = json!({ "card_id": chair, "text": text });
            let request = TestRequest::tool("plugin_{{snake}}_add", &note);
{{/routes}}
            let added = block_on(host.send(request));
            assert!(added.error().is_none(), "{added:?}");
        }
        let mut run = host.begin_job(TestJob::new("trim"));
        let end = block_on(&mut run);
        assert!(matches!(end, JobEnd::Done), "{end:?}");
        assert_eq!(run.done(), 1);
{{#routes}}
        let request = TestRequest::get(&format!("/cards/{chair}"));
{{/routes}}
{{^routes}}
        let request = TestRequest::tool("plugin_{{snake}}_list", &json!({ "card_id": chair }));
{{/routes}}
        let listed = block_on(host.send(request)).json();
        assert_eq!(listed["items"][0], "note 1");
        let sources = host.card(chair).sources_of(KIND);
        assert_eq!(sources["{{name}}:notes"].data["count"], KEPT_NOTES);
    }
{{/job}}
}
