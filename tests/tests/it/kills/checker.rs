//! Whether everything that was acknowledged is there, nothing is half done, and all that tells of a card agrees.

use std::collections::HashMap;

use tokio_postgres::Client;
use uuid::Uuid;

use super::writers::Done;

/// Each finds what contradicts itself; all of them find nothing.
const CONTRADICTIONS: &[(&str, &str)] = &[
    (
        "versions go up by one from 1",
        "SELECT card_id::text FROM card_history GROUP BY card_id
         HAVING min(version) <> 1 OR max(version) <> count(*) OR count(DISTINCT version) <> count(*)",
    ),
    (
        "a card is at the version of its last line of history",
        "SELECT m.id::text FROM master_cards m
         LEFT JOIN (SELECT card_id, max(version) AS version FROM card_history GROUP BY card_id) h ON h.card_id = m.id
         WHERE m.version IS DISTINCT FROM h.version",
    ),
    (
        "the title is the one of the last change of it",
        "SELECT m.id::text FROM master_cards m
         JOIN (SELECT DISTINCT ON (card_id) card_id, change ->> 'title' AS title FROM card_history
               WHERE change ? 'title' ORDER BY card_id, version DESC) h ON h.card_id = m.id
         WHERE m.title IS DISTINCT FROM h.title",
    ),
    (
        "deleted is what was deleted last",
        "SELECT m.id::text FROM master_cards m
         LEFT JOIN (SELECT DISTINCT ON (card_id) card_id, action FROM card_history
               WHERE action IN ('delete', 'restore') ORDER BY card_id, version DESC) h ON h.card_id = m.id
         WHERE (m.deleted_at IS NOT NULL) <> (coalesce(h.action, '') = 'delete')",
    ),
    (
        "the index of sources has what the cards have",
        "WITH inside AS (SELECT m.id, s.key, s.value ->> 'kind' AS kind, s.value ->> 'plugin' AS plugin
                         FROM master_cards m, jsonb_each(m.attributes -> 'sources') s)
         SELECT coalesce(i.id, x.card_id)::text FROM inside i
         FULL JOIN card_source_index x ON x.card_id = i.id AND x.source_key = i.key
         WHERE i.id IS NULL OR x.card_id IS NULL OR i.kind <> x.kind OR i.plugin <> x.plugin",
    ),
    (
        "a source is there exactly when its last change wrote it",
        "WITH last AS (SELECT DISTINCT ON (card_id, change ->> 'source_key') card_id, change ->> 'source_key' AS key, action
                       FROM card_history WHERE action IN ('enrich', 'remove_source')
                       ORDER BY card_id, change ->> 'source_key', version DESC)
         SELECT l.card_id::text FROM last l JOIN master_cards m ON m.id = l.card_id
         WHERE (m.attributes -> 'sources' ? l.key) <> (l.action = 'enrich')",
    ),
    (
        "every line of history is one event",
        "SELECT h.card_id || ' ' || h.version FROM card_history h
         LEFT JOIN events e ON e.topic = 'card' AND e.data ->> 'card_id' = h.card_id::text
                           AND (e.data ->> 'version')::bigint = h.version
         GROUP BY h.card_id, h.version HAVING count(e.id) <> 1",
    ),
    (
        "every event of a card is a line of its history",
        "SELECT e.id::text FROM events e WHERE e.topic = 'card' AND NOT EXISTS (
           SELECT FROM card_history h WHERE h.card_id::text = e.data ->> 'card_id' AND h.version = (e.data ->> 'version')::bigint)",
    ),
    (
        "events of a card are in the order of its versions",
        "SELECT card FROM (SELECT data ->> 'card_id' AS card, (data ->> 'version')::bigint AS version,
                 lag((data ->> 'version')::bigint) OVER (PARTITION BY data ->> 'card_id' ORDER BY id) AS before
               FROM events WHERE topic = 'card') o WHERE version <> before + 1",
    ),
    (
        "events have no gaps",
        "SELECT n.last::text FROM event_numbers n, (SELECT count(*) AS count, min(id) AS first, max(id) AS last FROM events) e
         WHERE e.last <> n.last OR e.first <> n.kept_from OR e.count <> e.last - e.first + 1",
    ),
    ("no event waits", "SELECT entry::text FROM event_outbox"),
    (
        "the plugin's schema is recorded as it is",
        "SELECT 'echo' WHERE NOT EXISTS (SELECT FROM plugin_schema_state WHERE plugin = 'echo' AND schema_sha256 IS NOT NULL)
         OR to_regclass('plugin_echo.notes') IS NULL",
    ),
];

/// Fails with all that is wrong.
pub(super) async fn check(database: &Client, done: &[Done], when: &str) {
    let mut wrong = Vec::new();
    for (rule, contradiction) in CONTRADICTIONS {
        let found = database.query(*contradiction, &[]).await.unwrap();
        if let Some(first) = found.first() {
            wrong.push(format!("not so: {rule}: {} times, such as {}", found.len(), first.get::<_, String>(0)));
        }
    }
    let history = History::read(database).await;
    let missing = done.iter().filter(|done| !history.has(done));
    wrong.extend(missing.map(|done| format!("acknowledged and not there: {done:?}")));
    assert!(wrong.is_empty(), "{when}: {}", wrong.join("\n"));
}

/// Action, title, source key.
type Line = (String, Option<String>, Option<String>);

/// What is there.
struct History {
    /// By card and version.
    lines: HashMap<(String, i64), Line>,
    deletions: HashMap<String, i64>,
    /// Card and source key → the version of the last change, and the note that is there.
    sources: HashMap<(String, String), (i64, Option<String>)>,
    notes: Vec<String>,
    keys: Vec<String>,
    jobs: HashMap<Uuid, String>,
}

impl History {
    async fn read(database: &Client) -> History {
        let rows = async |sql: &str| database.query(sql, &[]).await.unwrap();
        let lines = rows(
            "SELECT card_id::text, version, action, change ->> 'title', change ->> 'source_key' FROM card_history",
        );
        let sources = rows(
            "SELECT h.card_id::text, h.change ->> 'source_key', max(h.version),
                    max(m.attributes -> 'sources' -> (h.change ->> 'source_key') -> 'data' ->> 'note')
             FROM card_history h JOIN master_cards m ON m.id = h.card_id WHERE h.action = 'enrich' GROUP BY 1, 2",
        );
        let deletions = rows("SELECT card_id::text, count(*) FROM card_history WHERE action = 'delete' GROUP BY 1");
        let texts = async |sql: &str| rows(sql).await.iter().map(|row| row.get(0)).collect();
        History {
            lines: lines.await.iter().map(|r| ((r.get(0), r.get(1)), (r.get(2), r.get(3), r.get(4)))).collect(),
            deletions: deletions.await.iter().map(|row| (row.get(0), row.get(1))).collect(),
            sources: sources.await.iter().map(|r| ((r.get(0), r.get(1)), (r.get(2), r.get(3)))).collect(),
            notes: texts("SELECT text FROM plugin_echo.notes").await,
            keys: texts("SELECT name FROM admin_api_keys WHERE revoked_at IS NULL").await,
            jobs: rows("SELECT id, state FROM jobs").await.iter().map(|row| (row.get(0), row.get(1))).collect(),
        }
    }

    fn has(&self, done: &Done) -> bool {
        let line = |card: &String, version: i64| self.lines.get(&(card.clone(), version));
        match done {
            Done::Created { card } => line(card, 1).is_some_and(|line| line.0 == "create"),
            Done::Titled { card, version, title } => {
                line(card, *version).is_some_and(|line| line.0 == "update" && line.1.as_ref() == Some(title))
            }
            Done::Restored { card, version } => line(card, *version).is_some_and(|line| line.0 == "restore"),
            // Its answer has no version.
            Done::Deleted { card } => self.deletions.contains_key(card),
            Done::Enriched { card, version, key, note } => {
                let written =
                    line(card, *version).is_some_and(|line| line.0 == "enrich" && line.2.as_ref() == Some(key));
                let Some((last, there)) = self.sources.get(&(card.clone(), key.clone())) else { return false };
                written && (last != version || there.as_ref() == Some(note))
            }
            Done::Noted { text } => self.notes.contains(text),
            Done::MadeKey { name } => self.keys.contains(name),
            Done::StartedJob { id } => self.jobs.contains_key(&id.parse::<Uuid>().unwrap()),
        }
    }
}
