//! Where a page of cards begins.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// Behind (or, going back, before) this card in the order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// The sort column's value; empty when the order is the id's own.
    pub value: String,
    pub id: Uuid,
    /// Towards the beginning of the list.
    pub back: bool,
}
