//! Tables whose rows go or change with a card, and the locks on them that others wait for: parts of statements that look at
//! the catalogs.

/// `keyed (relation)` of a `WITH RECURSIVE`.
pub(crate) const KEYED: &str = "keyed (relation) AS (
      SELECT conrelid FROM pg_catalog.pg_constraint WHERE contype = 'f' AND confrelid = 'public.master_cards'::pg_catalog.regclass
      UNION SELECT k.conrelid FROM pg_catalog.pg_constraint k JOIN keyed ON keyed.relation = k.confrelid WHERE k.contype = 'f'
    )";
/// Modes in which a lock keeps others from writing rows.
pub(crate) const STRONG_MODES: &str = "('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')";
