//! Rows of an import as cards: new ones by COPY, those that are there by one statement, each with its line of history.

use std::{
    collections::{HashMap, HashSet},
    pin::pin,
};

use deadpool_postgres::Transaction;
use serde_json::Value;
use tokio_postgres::{
    binary_copy::BinaryCopyInWriter,
    error::SqlState,
    types::{Json, Type},
};
use uuid::Uuid;

use crate::error::StoreError;
use cardinal_base::{codes, db_error};
use cardinal_cards::{
    error::{CardError, FieldError},
    row::{Mode, Row, RowError, Terms},
};

mod changes;
mod staged;

use self::changes::{change, differing};
pub use self::staged::{forget, stage, staged};

/// Others that write the same SKUs are met so often before the rows are taken one by one.
const MAX_CONFLICTS: u32 = 5;

/// An import under way.
#[derive(Clone, Copy)]
pub struct Import<'a> {
    pub terms: &'a Terms,
    pub actor: &'a Value,
    pub job: Uuid,
}

/// What became of rows.
#[derive(Debug, Default)]
pub struct Outcome {
    pub created: i64,
    pub updated: i64,
    /// There, and as the row says already.
    pub unchanged: i64,
    /// Each that can't be written, as readers of the job get it.
    pub refused: Vec<Value>,
}

impl Outcome {
    pub const fn fine(&self) -> i64 {
        self.created + self.updated + self.unchanged
    }

    pub fn add(&mut self, other: Self) {
        self.created += other.created;
        self.updated += other.updated;
        self.unchanged += other.unchanged;
        self.refused.extend(other.refused);
    }

    fn refuse(&mut self, row: &Row, error: &RowError) {
        self.refused.push(error.report(row.line, Some(&row.sku)));
    }
}

/// Why rows were not written.
enum WriteError {
    Sql(tokio_postgres::Error),
    Other(StoreError),
}

impl From<tokio_postgres::Error> for WriteError {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Sql(error)
    }
}

impl From<CardError> for WriteError {
    fn from(error: CardError) -> Self {
        Self::Other(error.into())
    }
}

impl From<StoreError> for WriteError {
    fn from(error: StoreError) -> Self {
        Self::Other(error)
    }
}

impl From<WriteError> for StoreError {
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::Sql(error) => error.into(),
            WriteError::Other(error) => error,
        }
    }
}

impl WriteError {
    fn is(&self, predicate: impl Fn(&SqlState) -> bool) -> bool {
        matches!(self, Self::Sql(error) if error.code().is_some_and(predicate))
    }

    /// Somebody else wrote the same SKU or id meanwhile; by now it can be seen.
    fn is_conflict(&self) -> bool {
        self.is(|code| *code == SqlState::UNIQUE_VIOLATION)
    }

    /// The database can't hold what a row says.
    fn is_of_data(&self) -> bool {
        let is_too_large = matches!(self, Self::Sql(error) if db_error::card_too_large(error).is_some());
        is_too_large || self.is(|code| ["22", "23", "54"].contains(&&code.code()[..2]))
    }
}

impl Import<'_> {
    /// Writes rows in their order. What the database refuses is found by halves, so that it takes no other row along.
    pub async fn write(&self, tx: &mut Transaction<'_>, rows: &[Row]) -> Result<Outcome, StoreError> {
        let mut outcome = Outcome::default();
        let (mut todo, mut conflicts) = (vec![rows], 0);
        while let Some(rows) = todo.pop() {
            let point = tx.transaction().await?;
            match self.together(&point, rows).await {
                Ok(written) => {
                    point.commit().await?;
                    outcome.add(written);
                    continue;
                }
                Err(error) if error.is_conflict() && conflicts < MAX_CONFLICTS => {
                    conflicts += 1;
                    todo.push(rows);
                }
                Err(error) if error.is_of_data() => match rows {
                    [row] => outcome.refuse(row, &row_error(&error)),
                    _ => {
                        let (first, second) = rows.split_at(rows.len() / 2);
                        todo.extend([second, first]);
                    }
                },
                Err(error) => return Err(error.into()),
            }
            point.rollback().await?;
        }
        Ok(outcome)
    }

    /// What would become of rows, as far as can be known without writing them.
    pub async fn preview(&self, tx: &mut Transaction<'_>, rows: &[Row]) -> Result<Outcome, StoreError> {
        let mut outcome = Outcome::default();
        for batch in self.batches(rows, &mut outcome) {
            let mut known = self.known(tx, &batch).await?;
            for sku in staged::seen(tx, self.job, &batch).await? {
                known.skus.entry(sku).or_insert(Uuid::nil());
            }
            let sorted = self.sort(&batch, &known, &mut outcome);
            outcome.created += i64::try_from(sorted.new.len()).unwrap_or_default();
            let there = i64::try_from(sorted.there.len()).unwrap_or_default();
            let point = tx.transaction().await?;
            let changed = match differing(&point, &sorted.there).await {
                Ok(changed) => changed,
                // To be found when the rows are written, one by one.
                Err(error) if error.is_of_data() => there,
                Err(error) => return Err(error.into()),
            };
            point.rollback().await?;
            outcome.updated += changed;
            outcome.unchanged += there - changed;
            let new = sorted.new.iter().map(|(row, _)| (row.line, row.sku.as_str(), None));
            staged::put(tx, self.job, new).await?;
        }
        Ok(outcome)
    }

    async fn together(&self, point: &Transaction<'_>, rows: &[Row]) -> Result<Outcome, WriteError> {
        let mut outcome = Outcome::default();
        for batch in self.batches(rows, &mut outcome) {
            let known = self.known(point, &batch).await?;
            let mut sorted = self.sort(&batch, &known, &mut outcome);
            // Who writes the same SKUs at the same time waits for this one, and not this one for them as well.
            sorted.new.sort_unstable_by(|(one, _), (two, _)| one.sku.cmp(&two.sku));
            self.make(point, &sorted.new).await?;
            outcome.created += i64::try_from(sorted.new.len()).unwrap_or_default();
            let changed = change(point, &sorted.there, self).await?;
            outcome.updated += changed;
            outcome.unchanged += i64::try_from(sorted.there.len()).unwrap_or_default() - changed;
            if self.terms.keeps_sources {
                list_sources(point, sorted.new.iter().chain(&sorted.there)).await?;
            }
        }
        Ok(outcome)
    }

    /// Rows that can be written at once: no SKU twice. A later row of the same SKU changes what an earlier one made, or
    /// can't be made.
    fn batches<'r>(&self, rows: &'r [Row], outcome: &mut Outcome) -> Vec<Vec<&'r Row>> {
        let mut batches: Vec<Vec<&Row>> = Vec::new();
        let mut times: HashMap<&str, usize> = HashMap::with_capacity(rows.len());
        for row in rows {
            let batch = times.entry(&row.sku).and_modify(|times| *times += 1).or_insert(0);
            if *batch > 0 && self.terms.mode == Mode::Create {
                outcome.refuse(row, &taken("An earlier row has this SKU."));
                continue;
            }
            if batches.len() <= *batch {
                batches.resize_with(*batch + 1, Vec::new);
            }
            batches[*batch].push(row);
        }
        batches
    }

    /// What is there of the SKUs and ids of rows. Cards that are to be changed are locked in the order of their ids, so
    /// that two writers never wait for each other for good.
    async fn known(&self, tx: &Transaction<'_>, rows: &[&Row]) -> Result<KnownCard, tokio_postgres::Error> {
        let lock =
            if self.terms.mode == Mode::Upsert && !self.terms.dry_run { "ORDER BY id FOR NO KEY UPDATE" } else { "" };
        let skus: Vec<&str> = rows.iter().map(|row| row.sku.as_str()).collect();
        let sql = format!("SELECT sku, id FROM public.master_cards WHERE sku = ANY($1) AND deleted_at IS NULL {lock}");
        let found = tx.query(&tx.prepare_cached(&sql).await?, &[&skus]).await?;
        let skus = found
            .iter()
            .map(|row| Ok((row.try_get("sku")?, row.try_get("id")?)))
            .collect::<Result<_, tokio_postgres::Error>>()?;
        let ids: Vec<Uuid> = rows.iter().filter_map(|row| row.id).collect();
        let mut known = KnownCard { skus, hidden: HashMap::new() };
        if !ids.is_empty() {
            let sql = "SELECT id, deleted_at IS NOT NULL AS is_deleted FROM public.master_cards WHERE id = ANY($1) ORDER BY id";
            for row in tx.query(&tx.prepare_cached(sql).await?, &[&ids]).await? {
                known.hidden.insert(row.try_get("id")?, row.try_get("is_deleted")?);
            }
        }
        Ok(known)
    }

    /// Which rows make a card and which change one.
    fn sort<'r>(&self, rows: &[&'r Row], known: &KnownCard, outcome: &mut Outcome) -> RowGroups<'r> {
        let mut sorted = RowGroups::default();
        let mut seen_ids = HashSet::new();
        for row in rows {
            match (known.skus.get(&row.sku), self.terms.mode) {
                (Some(_), Mode::Create) => {
                    outcome.refuse(row, &taken("Another card has this SKU."));
                    continue;
                }
                (Some(id), Mode::Upsert) => {
                    sorted.there.push((row, *id));
                    continue;
                }
                (None, _) => {}
            }
            if row.title.is_none() {
                outcome.refuse(row, &RowError::from(&CardError::field("/title", "A new card needs a title.")));
                continue;
            }
            let hidden = row.id.and_then(|id| Some((id, *known.hidden.get(&id)?)));
            let twice = row.id.is_some_and(|id| !seen_ids.insert(id));
            match (hidden, twice) {
                // The very card that is deleted and not gone yet comes back.
                (Some((id, true)), false) => sorted.there.push((row, id)),
                (None, false) => sorted.new.push((row, row.id.unwrap_or_else(Uuid::now_v7))),
                _ => {
                    let detail = "Another card has this id.";
                    outcome.refuse(row, &RowError::new(&codes::CONFLICT, detail));
                }
            }
        }
        sorted
    }

    async fn make(&self, point: &Transaction<'_>, rows: &[(&Row, Uuid)]) -> Result<(), WriteError> {
        if rows.is_empty() {
            return Ok(());
        }
        let sql = "COPY public.master_cards (id, title, sku, status, attributes) FROM STDIN BINARY";
        let types = [Type::UUID, Type::TEXT, Type::TEXT, Type::TEXT, Type::JSONB];
        let mut out = pin!(BinaryCopyInWriter::new(point.copy_in(sql).await?, &types));
        for (row, id) in rows {
            let (status, attributes) = (row.status.unwrap_or_default().name(), Json(row.new_attributes()?));
            out.as_mut().write(&[id, &row.title, &row.sku, &status, &attributes]).await?;
        }
        out.finish().await?;
        let sql = "COPY public.card_history (id, card_id, version, actor, action, change) FROM STDIN BINARY";
        let types = [Type::UUID, Type::UUID, Type::INT8, Type::JSONB, Type::TEXT, Type::JSONB];
        let mut out = pin!(BinaryCopyInWriter::new(point.copy_in(sql).await?, &types));
        for (row, id) in rows {
            let change = Json(row.history_entry(self.job)?);
            out.as_mut().write(&[&Uuid::now_v7(), id, &1_i64, self.actor, &"create", &change]).await?;
        }
        out.finish().await?;
        Ok(())
    }
}

/// Cards by SKU, and of ids whether their cards are deleted.
struct KnownCard {
    skus: HashMap<String, Uuid>,
    hidden: HashMap<Uuid, bool>,
}

#[derive(Default)]
struct RowGroups<'r> {
    new: Vec<(&'r Row, Uuid)>,
    there: Vec<(&'r Row, Uuid)>,
}

/// Lists the sources of cards anew whose rows had some.
async fn list_sources<'r>(
    point: &Transaction<'_>,
    rows: impl Iterator<Item = &'r (&'r Row, Uuid)>,
) -> Result<(), tokio_postgres::Error> {
    let of: Vec<(Uuid, &_)> = rows.filter_map(|(row, id)| Some((*id, row.sources.as_ref()?))).collect();
    if of.is_empty() {
        return Ok(());
    }
    let ids: Vec<Uuid> = of.iter().map(|(id, _)| *id).collect();
    let sql = "DELETE FROM public.card_source_index WHERE card_id = ANY($1)";
    point.execute(&point.prepare_cached(sql).await?, &[&ids]).await?;
    let sql = "COPY public.card_source_index (card_id, source_key, plugin, kind, bytes) FROM STDIN BINARY";
    let types = [Type::UUID, Type::TEXT, Type::TEXT, Type::TEXT, Type::INT4];
    let mut out = pin!(BinaryCopyInWriter::new(point.copy_in(sql).await?, &types));
    for (id, sources) in of {
        for listed in &sources.listed {
            out.as_mut().write(&[&id, &listed.key, &listed.plugin, &listed.kind, &listed.bytes]).await?;
        }
    }
    out.finish().await?;
    Ok(())
}

fn taken(detail: &str) -> RowError {
    RowError::new(&codes::SKU_TAKEN, detail)
}

/// A row that passed every check and that the database can't hold all the same.
fn row_error(error: &WriteError) -> RowError {
    if let WriteError::Sql(error) = error
        && let Some(detail) = db_error::card_too_large(error)
    {
        let fields = vec![FieldError { pointer: "/attributes".to_owned(), detail: detail.clone() }];
        return RowError { code: &codes::CARD_TOO_LARGE, detail: Some(detail), fields };
    }
    let reason = match error {
        WriteError::Sql(error) => error.as_db_error().map_or_else(String::new, |fault| fault.message().to_owned()),
        WriteError::Other(_) => String::new(),
    };
    RowError::new(&codes::VALIDATION_FAILED, format!("The database can't hold this row: {reason}."))
}
