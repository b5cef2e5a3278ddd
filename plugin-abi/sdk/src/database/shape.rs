//! What a prepared statement takes and gives, read once and remembered.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use postgres_types::Type;

use super::{
    row::Column,
    types::{ColumnJson, PreparedJson},
};
use crate::{Error, Result};

/// Descriptions that an instance remembers: some hundred statements on each of its connections.
const REMEMBERED: usize = 2_048;

/// A prepared statement as the host describes it.
pub(crate) struct Shape {
    /// Names the statement on its connection.
    pub(super) number: u64,
    pub(super) params: Vec<Type>,
    pub(super) columns: Arc<[Column]>,
}

impl Shape {
    fn read(description: &[u8]) -> Result<Self> {
        let malformed = |error| Error::internal(format!("the host's prepared statement: {error}"));
        let prepared: PreparedJson = serde_json::from_slice(description).map_err(malformed)?;
        let column = |column: ColumnJson| Ok(Column::new(column.name, column.of.build()?));
        Ok(Self {
            number: prepared.statement,
            params: prepared.params.into_iter().map(|of| of.build()).collect::<Result<_>>()?,
            columns: prepared.columns.into_iter().map(column).collect::<Result<_>>()?,
        })
    }
}

/// The shapes of an instance's statements, by their description: the host gives the same one whenever a connection that
/// has the statement is checked out again.
#[derive(Default)]
pub(crate) struct Shapes(Mutex<HashMap<Box<[u8]>, Arc<Shape>>>);

impl Shapes {
    pub(super) fn get(&self, description: &[u8]) -> Result<Arc<Shape>> {
        if let Some(shape) = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(description) {
            return Ok(shape.clone());
        }
        let shape = Arc::new(Shape::read(description)?);
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= REMEMBERED {
            known.clear();
        }
        known.insert(description.into(), shape.clone());
        Ok(shape)
    }
}
