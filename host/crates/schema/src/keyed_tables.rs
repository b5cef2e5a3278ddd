//! Tables whose rows go or change with a card, and the locks on them that others wait for: parts of statements that
//! look at the catalogs.

/// `keyed (relation)` of a `WITH RECURSIVE`.
pub(crate) const KEYED: &str = "keyed (relation) AS (
      SELECT conrelid FROM pg_catalog.pg_constraint WHERE contype = 'f' AND confrelid = 'public.master_cards'::pg_catalog.regclass
      UNION SELECT k.conrelid FROM pg_catalog.pg_constraint k JOIN keyed ON keyed.relation = k.confrelid WHERE k.contype = 'f'
    )";
/// Modes in which a lock keeps others from writing rows.
pub(crate) const STRONG_MODES: &str = "('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')";
/// Whether PostgreSQL finds the rows of `key (relation, number)`, a table and a column of it, without reading the whole
/// table.
pub(crate) const INDEXED: &str = "EXISTS (
      SELECT FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid JOIN pg_catalog.pg_am m ON m.oid = c.relam
      WHERE i.indrelid = key.relation AND i.indkey[0] = key.number AND i.indisvalid AND i.indpred IS NULL AND m.amname IN ('btree', 'hash'))";
