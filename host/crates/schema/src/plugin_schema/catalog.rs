//! What the catalog holds of a plugin, held against the list of `sql/plugin_catalog.sql`: the second wall behind the
//! reader of schema.sql, and the only one for databases whose schemas older versions made.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::LazyLock;

use anyhow::Context as _;
use tokio::sync::OnceCell;
use tokio_postgres::{Client, GenericClient, Statement, Transaction};

use super::{Step, StepError, plugin_roles::change_right};
use crate::{keyed_tables::INDEXED, sql_failure};
use cardinal_control::link::ProvisionFault;
use cardinal_database::{
    roles::{self, RoleNames},
    sql,
};

const CATALOG_SQL: &str = include_str!("../../../../../sql/plugin_catalog.sql");
const ACTIONS_SQL: &str = include_str!("../../../../../sql/plugin_actions.sql");

/// Nodes of expressions and queries, as PostgreSQL 15 to 18 name them.
const NODE_TAGS: &str = "\
    AGGREF ALIAS ARRAY ARRAYCOERCEEXPR ARRAYEXPR BOOLEANTEST BOOLEXPR CASE CASEEXPR CASETESTEXPR CASEWHEN COALESCE \
    COALESCEEXPR COERCETODOMAIN COERCETODOMAINVALUE COERCEVIAIO COLLATEEXPR COMMONTABLEEXPR CONST CONVERTROWTYPEEXPR \
    DISTINCTEXPR FIELDSELECT FROMEXPR FUNCEXPR GROUPINGFUNC GROUPINGSET JOINEXPR MINMAX MINMAXEXPR NULLIFEXPR NULLTEST \
    OPEXPR PARTITIONBOUNDSPEC PARTITIONRANGEDATUM QUERY RANGETBLENTRY RANGETBLFUNCTION RANGETBLREF RELABELTYPE ROW \
    ROWCOMPARE ROWCOMPAREEXPR ROWEXPR RTE RTEPERMISSIONINFO SCALARARRAYOPEXPR SETOPERATIONSTMT SETTODEFAULT \
    SORTGROUPCLAUSE SQLVALUEFUNCTION SUBLINK SUBSCRIPTINGREF TARGETENTRY VAR WHEN WINDOWCLAUSE WINDOWFUNC WITHCHECKOPTION";
/// Functions whose value is not a matter of their arguments alone (the clock, the time zone, a sequence, chance), and
/// that do nothing else. Those that PostgreSQL marks as immutable need no name.
const CHANGING_FUNCTIONS: &str = "\
    age array_to_json array_to_string clock_timestamp concat concat_ws convert_from convert_to currval date date_part \
    date_trunc enum_first enum_last enum_range extract format gen_random_uuid generate_series json_agg json_build_array \
    json_build_object json_object_agg jsonb_agg jsonb_build_array jsonb_build_object jsonb_object_agg lastval length \
    make_timestamptz nextval now numeric pg_typeof phraseto_tsquery plainto_tsquery quote_literal quote_nullable random \
    row_to_json setval statement_timestamp time timestamp timestamptz timetz timezone to_char to_date to_json to_jsonb \
    to_number to_timestamp to_tsquery to_tsvector transaction_timestamp uuidv4 uuidv7 websearch_to_tsquery";

/// `None` where the template and this file are out of step, which a test rules out.
static QUERY: LazyLock<Option<String>> = LazyLock::new(|| {
    let places = [("node_tags", sql::literal(NODE_TAGS)), ("changing_functions", sql::literal(CHANGING_FUNCTIONS))];
    sql::fill(CATALOG_SQL, &places).ok()
});

/// Something in a plugin's schema, or of its roles, that is not on the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnlistedObject {
    pub what: String,
    pub name: String,
    /// What would have to go, where that is one object.
    pub object: Option<ObjectAddress>,
}

/// Where an object stands in the catalog.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ObjectAddress {
    pub class: u32,
    pub object: u32,
}

impl fmt::Display for UnlistedObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.name)
    }
}

/// Planning takes several times as long as looking, and the plan is the same for every plugin.
const PLAN_ONCE: &str = "plan_cache_mode = force_generic_plan";

/// A transaction in which no name can mean anything but PostgreSQL's own.
///
/// # Errors
/// As the server reports them.
pub async fn looking(session: &mut Client) -> anyhow::Result<Transaction<'_>> {
    let tx = session.transaction().await.context("beginning a look at the catalog")?;
    let prepare = format!("{}; SET LOCAL {PLAN_ONCE}", sql::CATALOG_NAMES_ONLY);
    tx.batch_execute(&prepare).await.context("preparing a look at the catalog")?;
    Ok(tx)
}

/// The questions of a look, prepared in one session.
pub struct Questions {
    unlisted: Statement,
    unbounded: Statement,
}

impl Questions {
    /// The session's `search_path` has to be `pg_catalog, pg_temp`, now and whenever they are asked.
    ///
    /// # Errors
    /// As the server reports them.
    pub async fn prepare(session: &impl GenericClient) -> anyhow::Result<Self> {
        let query = QUERY.as_deref().context("sql/plugin_catalog.sql has a place that is not filled")?;
        let unlisted = session.prepare(query).await.context("preparing a look at what the catalog has of plugins")?;
        let unbounded =
            session.prepare(ACTIONS_SQL).await.context("preparing a look at what removing cards computes")?;
        Ok(Self { unlisted, unbounded })
    }
}

/// A provisioner's session that looks at the catalog for one step after another.
pub(super) struct Observer {
    client: Client,
    questions: OnceCell<Questions>,
}

impl Observer {
    pub(super) fn new(client: Client) -> Self {
        Self { client, questions: OnceCell::new() }
    }
}

impl Deref for Observer {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

impl DerefMut for Observer {
    fn deref_mut(&mut self) -> &mut Client {
        &mut self.client
    }
}

/// Whether there is such a schema with both of its roles, without which there is nothing to look at.
///
/// # Errors
/// As the server reports them.
pub async fn is_there(session: &impl GenericClient, schema: &str, roles: &[String; 2]) -> anyhow::Result<bool> {
    let sql = "SELECT EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = $1)
                 AND (SELECT count(*) = 2 FROM pg_catalog.pg_roles WHERE rolname = ANY ($2))";
    let row = session.query_one(sql, &[&schema, &roles.as_slice()]).await;
    row.and_then(|row| row.try_get(0)).context("looking for a plugin's schema and roles")
}

/// Everything of the plugin that is not on the list, at most twenty. `roles` are the schema role and the run-time role.
///
/// # Errors
/// As the server reports them.
pub async fn unknown(
    session: &impl GenericClient,
    questions: &Questions,
    schema: &str,
    [schema_role, runtime_role]: &[String; 2],
) -> anyhow::Result<Vec<UnlistedObject>> {
    let (schema_role, runtime_role) = (sql::identifier(schema_role), sql::identifier(runtime_role));
    let rows = session.query(&questions.unlisted, &[&schema, &schema_role, &runtime_role]).await;
    let rows = rows.context("looking at what the catalog has of the plugin")?;
    let mut unknown = rows.iter().map(read_object).collect::<Result<Vec<_>, _>>()?;
    unknown.extend(unbounded(session, &questions.unbounded, schema).await?);
    Ok(unknown)
}

/// Columns of the schema with a key to the cards and no index, each with its table: every removal of a card reads these
/// tables whole.
///
/// # Errors
/// As the server reports them.
pub async fn unindexed_keys(session: &impl GenericClient, schema: &str) -> anyhow::Result<Vec<String>> {
    let sql = format!(
        "SELECT t.relname::text, a.attname::text
         FROM pg_catalog.pg_constraint k JOIN pg_catalog.pg_class t ON t.oid = k.conrelid
         JOIN pg_catalog.pg_namespace n ON n.oid = t.relnamespace
         JOIN pg_catalog.pg_attribute a ON a.attrelid = k.conrelid AND a.attnum = k.conkey[1],
         LATERAL (SELECT k.conrelid, a.attnum) key (relation, number)
         WHERE n.nspname = $1 AND k.contype = 'f' AND k.confrelid = 'public.master_cards'::pg_catalog.regclass AND NOT {INDEXED}
         ORDER BY 1, 2"
    );
    let rows = session.query(&sql, &[&schema]).await.context("looking for keys without an index")?;
    let name = |row: &tokio_postgres::Row| -> Result<String, tokio_postgres::Error> {
        Ok(format!("{}.{}", row.try_get::<_, String>("relname")?, row.try_get::<_, String>("attname")?))
    };
    Ok(rows.iter().map(name).collect::<Result<_, _>>()?)
}

/// What a card's removal would compute without a bound.
async fn unbounded(
    session: &impl GenericClient,
    question: &Statement,
    schema: &str,
) -> anyhow::Result<Vec<UnlistedObject>> {
    let rows = session.query(question, &[&schema]).await.context("looking at what removing a card computes")?;
    read(&rows)
}

fn read(rows: &[tokio_postgres::Row]) -> anyhow::Result<Vec<UnlistedObject>> {
    let read = |row: &tokio_postgres::Row| -> Result<UnlistedObject, tokio_postgres::Error> {
        Ok(UnlistedObject { what: row.try_get("what")?, name: row.try_get("name")?, object: None })
    };
    Ok(rows.iter().map(read).collect::<Result<_, _>>()?)
}

fn read_object(row: &tokio_postgres::Row) -> Result<UnlistedObject, tokio_postgres::Error> {
    let (class, object): (Option<u32>, Option<u32>) = (row.try_get("class")?, row.try_get("object")?);
    let object = class.zip(object).map(|(class, object)| ObjectAddress { class, object });
    Ok(UnlistedObject { what: row.try_get("what")?, name: row.try_get("name")?, object })
}

/// Refuses what only the keys show. Quick, since it runs while the cards are locked.
pub(super) async fn actions_refusal(
    session: &impl GenericClient,
    questions: &Questions,
    schema: &str,
) -> anyhow::Result<Option<ProvisionFault>> {
    let unbounded = unbounded(session, &questions.unbounded, schema).await?;
    Ok((!unbounded.is_empty()).then(|| {
        let named: Vec<String> = unbounded.iter().map(ToString::to_string).collect();
        ProvisionFault::refused("schema-unsafe", ACTIONS_EXPECTED, named.join("; "), ACTIONS_FIX)
    }))
}

impl Step<'_> {
    /// Lets the run-time role in once the catalog holds nothing but what is known. Else it is shut out, whatever an
    /// older version let it have.
    pub(super) async fn check_catalog(&self, session: &Observer) -> Result<(), StepError> {
        let prepare = format!("SET search_path = pg_catalog, pg_temp; SET {PLAN_ONCE}");
        session.batch_execute(&prepare).await.context("preparing a look at the catalog")?;
        let questions = session.questions.get_or_try_init(|| Questions::prepare(&session.client)).await?;
        if let Some(refusal) = self.catalog_refusal(&session.client, questions).await? {
            revoke_access(session, self.names, self.plugin).await?;
            return Err(StepError::Refused(refusal));
        }
        let usage = change_right(&self.schema(), &self.names.plugin_runtime(self.plugin), "USAGE", true);
        Ok(session.batch_execute(&usage).await.context("letting the plugin into its schema")?)
    }

    /// The look at what was committed, from outside. The one within the transaction found nothing; should something
    /// have come about after it, nobody gets to use it: a plugin that had nothing before loses all, of another the data
    /// stays.
    pub(super) async fn check_committed(&self, session: &Observer, first_time: bool) -> Result<(), StepError> {
        let checked = self.check_catalog(session).await;
        if first_time && matches!(checked, Err(StepError::Refused(_))) {
            self.drop_all().await?;
        }
        checked
    }

    /// A step that was refused has left what was there. If that is unsafe, it is not served meanwhile either.
    pub(super) async fn check_left(&self, session: &Observer) {
        match self.check_catalog(session).await {
            Ok(()) => {}
            Err(StepError::Refused(fault)) => tracing::warn!(plugin = self.plugin, %fault, "the plugin is shut out"),
            Err(StepError::Failed(error)) => {
                let error = format!("{error:#}");
                tracing::warn!(plugin = self.plugin, error, "what a refused step left could not be looked at");
            }
        }
    }

    /// Refuses what the catalog must not hold.
    pub(super) async fn catalog_refusal(
        &self,
        session: &impl GenericClient,
        questions: &Questions,
    ) -> anyhow::Result<Option<ProvisionFault>> {
        let roles = [self.names.plugin_schema(self.plugin), self.names.plugin_runtime(self.plugin)];
        let unknown = unknown(session, questions, &self.schema(), &roles).await?;
        Ok((!unknown.is_empty()).then(|| refusal(self.plugin, &unknown)))
    }
}

pub const EXPECTED: &str = "a schema of tables, columns, constraints, indexes, sequences, plain views and types, with built-in \
    functions, and keys of one uuid to the cards";
/// Takes from a plugin's run-time role its way into the schema, its login and its sessions, until a step finds the
/// schema safe. In no transaction, which one of the two could undo.
pub(super) async fn revoke_access(session: &Client, names: &RoleNames, plugin: &str) -> anyhow::Result<()> {
    let (schema, role) = (roles::plugin_schema_name(plugin), names.plugin_runtime(plugin));
    let close = format!("REVOKE USAGE ON SCHEMA {} FROM {}", sql::identifier(&schema), sql::identifier(&role));
    session.batch_execute(&close).await.context("closing a schema that has something unknown")?;
    let close_login = format!("SELECT cardinal.close_runtime_login({}, 0)", sql::literal(&plugin.replace('-', "_")));
    match session.batch_execute(&close_login).await {
        Err(error) if sql_failure::lacks_function(&error) => {
            tracing::warn!(plugin, %error, "the login of a plugin that is shut out stays open");
            Ok(())
        }
        closed => closed.context("closing the login of a plugin that has something unknown"),
    }
}

/// What to do about it.
pub fn fix(plugin: &str) -> String {
    format!(
        "Take it out of schema.sql and write it in the plugin, in Rust. What is in the database already stays until an \
         operator drops it: `cardinal database drop-object {plugin}` lists it, with the command for each object; the plugin's \
         tables and rows stay as they are."
    )
}

const ACTIONS_EXPECTED: &str = "tables whose keys set values to hold checks, generated columns and indexes of a bounded cost, and \
    indexes to compute nothing from constants alone";
const ACTIONS_FIX: &str = "Write ON DELETE CASCADE for the key, or move the check, column or index to another table; beside a key \
    with SET NULL or SET DEFAULT only comparisons, tests for NULL and bounds of a length may stand. In an index, write the \
    value instead of computing it from constants.";

fn refusal(plugin: &str, unknown: &[UnlistedObject]) -> ProvisionFault {
    let named: Vec<String> = unknown.iter().map(ToString::to_string).collect();
    ProvisionFault::refused("schema-unsafe", EXPECTED, named.join("; "), fix(plugin))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_template_is_filled() {
        let query = QUERY.as_deref().unwrap_or_default();
        assert!(query.contains("AGGREF") && query.contains("nextval") && !query.contains("{{"));
    }
}
