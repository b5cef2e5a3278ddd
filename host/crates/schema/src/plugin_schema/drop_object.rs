//! One object that the look at the catalog refuses, dropped by an operator's word: what an older schema.sql, or
//! somebody by hand, left in a plugin's schema.

use anyhow::{Context as _, bail};
use tokio_postgres::{Client, error::SqlState};

use super::{
    Step, StepError,
    catalog::{self, ObjectAddress, UnlistedObject},
};
use cardinal_database::{connect, sql};

const DROP_SQL: &str = include_str!("../../../../../sql/plugin_drop.sql");
/// Whoever works with a table that goes waits behind it.
const LIMITS: &str = "SET LOCAL lock_timeout = '1s'; SET LOCAL statement_timeout = '2s'";

/// What became of the object.
#[derive(Debug, PartialEq, Eq)]
pub enum DropOutcome {
    Dropped {
        object: UnlistedObject,
        /// As PostgreSQL says it, a line for each other object that went.
        dependents: Vec<String>,
    },
    /// Nothing was dropped: these need the object.
    HasDependents(Vec<String>),
}

impl Step<'_> {
    /// What the look at the catalog refuses of this plugin, at most twenty; what can be dropped by itself comes first,
    /// what uses others before those.
    ///
    /// # Errors
    /// There is no such plugin in the database, or as the server reports them.
    pub async fn unknown_objects(&self) -> anyhow::Result<Vec<UnlistedObject>> {
        let mut session = connect::connect(self.provisioner).await.context("logging in as the provisioner")?;
        let mut unknown = self.look(&mut session).await?;
        // The class of an object and its kind may both be refused: one line for it will do.
        let named: Vec<_> = unknown.iter().filter(|it| !is_named_by_class(it)).filter_map(|it| it.object).collect();
        unknown.retain(|it| !is_named_by_class(it) || !it.object.is_some_and(|object| named.contains(&object)));
        unknown.sort_by_key(|it| (it.object.is_none(), it.what == "a function", it.what == "a type of another kind"));
        Ok(unknown)
    }

    /// Drops the object that the look at the catalog names so, `a function: plugin_x.f()` or `plugin_x.f()`, and
    /// nothing that it does not refuse.
    ///
    /// # Errors
    /// There is no such object, or PostgreSQL does not let it go; nothing was changed.
    pub async fn drop_object(&self, named: &str, cascade: bool) -> anyhow::Result<DropOutcome> {
        let mut first = connect::connect(self.provisioner).await.context("logging in as the provisioner")?;
        let second = connect::connect(self.provisioner).await.context("logging in as the provisioner")?;
        let mut second = catalog::Observer::new(second);
        self.look(&mut second).await?; // before anything is made for a plugin that is not there
        self.make_row(&first).await?;
        let step_tx = first.transaction().await.context("waiting for a step of the plugin")?;
        self.lock_step(&step_tx).await?;
        let (object, address) = find(self.look(&mut second).await?, named)?;
        let statement = statement(&mut second, address).await?;
        let Some(statement) = statement else {
            bail!("{object} is not dropped by this command; a superuser has to");
        };
        let (mut writer, closer) = self.writer().await?;
        let dropped = self.drop_as_either(&mut writer, &mut second, &statement, cascade).await;
        self.close_writer(&closer).await?;
        let outcome = dropped?;
        if let Err(StepError::Failed(error)) = self.check_catalog(&second).await {
            return Err(error);
        }
        step_tx.commit().await.context("ending the turn")?;
        Ok(match outcome {
            (true, dependents) => DropOutcome::Dropped { object, dependents },
            (false, dependents) => DropOutcome::HasDependents(dependents),
        })
    }

    async fn look(&self, session: &mut Client) -> anyhow::Result<Vec<UnlistedObject>> {
        let roles = [self.names.plugin_schema(self.plugin), self.names.plugin_runtime(self.plugin)];
        let tx = catalog::looking(session).await?;
        if !catalog::is_there(&tx, &self.schema(), &roles).await? {
            bail!("the database has no schema of a plugin {}", self.plugin);
        }
        let questions = catalog::Questions::prepare(&tx).await?;
        catalog::unknown(&tx, &questions, &self.schema(), &roles).await
    }

    /// As the schema role, whose tables and types they are. What somebody else made in the schema is left to the
    /// schema's owner, but for what opens a table: PostgreSQL may compute something of the plugin's then.
    async fn drop_as_either(
        &self,
        writer: &mut Client,
        provisioner: &mut Client,
        statement: &str,
        cascade: bool,
    ) -> anyhow::Result<(bool, Vec<String>)> {
        match drop(writer, statement, cascade).await {
            Err(error) if is_denied(&error) && leaves_tables_closed(statement) => {
                drop(provisioner, statement, cascade).await
            }
            dropped => dropped,
        }
    }
}

fn is_named_by_class(unknown: &UnlistedObject) -> bool {
    unknown.what.starts_with("something that is no table")
}

fn find(unknown: Vec<UnlistedObject>, named: &str) -> anyhow::Result<(UnlistedObject, ObjectAddress)> {
    let is_meant = |it: &UnlistedObject| it.name == named || it.to_string() == named;
    let mut meant: Vec<UnlistedObject> = unknown.into_iter().filter(is_meant).collect();
    let Some(first) = meant.first() else {
        bail!("nothing of that name is refused; without a name the command lists what is");
    };
    let Some(address) = meant.iter().find_map(|it| it.object) else {
        bail!("{first} is not an object of its own; a superuser has to take it back, or the plugin's next schema.sql");
    };
    if meant.iter().filter_map(|it| it.object).any(|other| other != address) {
        let named: Vec<String> = meant.iter().map(ToString::to_string).collect();
        bail!("the name is ambiguous: {}", named.join("; "));
    }
    meant.retain(|it| it.object.is_some());
    Ok((meant.swap_remove(0), address))
}

async fn statement(session: &mut Client, address: ObjectAddress) -> anyhow::Result<Option<String>> {
    let tx = catalog::looking(session).await?;
    let row = tx.query_one(DROP_SQL, &[&address.class, &address.object]).await;
    row.and_then(|row| row.try_get(0)).context("looking for what drops the object")
}

/// Whether it was dropped, and what needs it. With `cascade` that goes, too.
async fn drop(session: &mut Client, statement: &str, cascade: bool) -> anyhow::Result<(bool, Vec<String>)> {
    let tx = session.transaction().await.context("beginning to drop the object")?;
    let prepare = format!("{}; {LIMITS}; SAVEPOINT alone", sql::CATALOG_NAMES_ONLY);
    tx.batch_execute(&prepare).await.context("preparing to drop the object")?;
    let dependents = match tx.batch_execute(&format!("{statement} RESTRICT")).await {
        Ok(()) => Vec::new(),
        Err(error) if error.code() == Some(&SqlState::DEPENDENT_OBJECTS_STILL_EXIST) => {
            let detail = error.as_db_error().and_then(|db_error| db_error.detail()).unwrap_or_default();
            let dependents: Vec<String> = detail.lines().map(str::to_owned).collect();
            if !cascade {
                return Ok((false, dependents));
            }
            let cascade = format!("ROLLBACK TO alone; {statement} CASCADE");
            tx.batch_execute(&cascade).await.context("dropping the object with what needs it")?;
            dependents
        }
        Err(error) => return Err(anyhow::Error::new(error).context("dropping the object")),
    };
    tx.commit().await.context("dropping the object")?;
    Ok((true, dependents))
}

fn is_denied(error: &anyhow::Error) -> bool {
    let pg_error = error.chain().find_map(|cause| cause.downcast_ref::<tokio_postgres::Error>());
    pg_error.and_then(tokio_postgres::Error::code) == Some(&SqlState::INSUFFICIENT_PRIVILEGE)
}

fn leaves_tables_closed(statement: &str) -> bool {
    ["DROP ROUTINE", "DROP OPERATOR", "DROP COLLATION", "DROP CONVERSION", "DROP TEXT SEARCH", "DROP STATISTICS"]
        .iter()
        .any(|kind| statement.starts_with(kind))
}
