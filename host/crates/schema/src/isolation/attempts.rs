//! What each role tries, and must be refused.

use super::{Isolation, PluginRecord, Violation};
use cardinal_database::{roles, sql};

/// A statement that must be refused.
pub(super) struct Attempt {
    pub violation: Violation,
    /// What is tried, for people.
    pub what: String,
    pub sql: String,
}

impl Isolation<'_> {
    pub(super) fn plugin_attempts(&self, own: &PluginRecord) -> Vec<Attempt> {
        use Violation::*;
        let mut attempts = vec![
            Attempt::new(PluginWritesCards, "add a card", "INSERT INTO public.master_cards DEFAULT VALUES"),
            Attempt::new(PluginWritesCards, "change cards", "UPDATE public.master_cards SET title = title WHERE false"),
            Attempt::new(PluginWritesCards, "remove cards", "DELETE FROM public.master_cards WHERE false"),
            Attempt::table(PluginRunsDdl, "public"),
            Attempt::table(PluginRunsDdl, &roles::plugin_schema_name(&own.plugin)),
            Attempt::new(PluginRunsDdl, "make a temporary table", "CREATE TEMPORARY TABLE cardinal_check ()"),
        ];
        attempts.extend(self.core_tables.iter().map(|table| Attempt::read(PluginReadsCore, "public", table)));
        for other in self.plugins.iter().filter(|other| other.plugin != own.plugin) {
            attempts.extend(Attempt::look_into(PluginReadsPlugin, other));
            attempts.push(Attempt::become_role(PluginBecomesAnother, &self.names.plugin_runtime(&other.plugin)));
        }
        let others =
            [self.names.owner(), self.names.cards(), self.names.core(), self.names.reaper(), self.names.provision()];
        attempts.extend(others.iter().map(|role| Attempt::become_role(PluginBecomesAnother, role)));
        attempts.push(Attempt::become_role(PluginBecomesAnother, &self.names.plugin_schema(&own.plugin)));
        attempts
    }

    pub(super) fn core_attempts(&self) -> Vec<Attempt> {
        use Violation::*;
        let mut attempts = vec![
            Attempt::new(CoreDeletesCards, "remove cards", "DELETE FROM public.master_cards WHERE false"),
            Attempt::new(CoreDeletesCards, "change a card's id", "UPDATE public.master_cards SET id = id WHERE false"),
            Attempt::new(
                CoreRewritesAudit,
                "change the audit log",
                "UPDATE public.admin_audit_log SET action = action WHERE false",
            ),
            Attempt::new(
                CoreRewritesAudit,
                "remove from the audit log",
                "DELETE FROM public.admin_audit_log WHERE false",
            ),
            Attempt::table(CoreRunsDdl, "public"),
        ];
        for known in self.plugins {
            attempts.extend(Attempt::look_into(CoreReadsPlugin, known));
            for role in [self.names.plugin_runtime(&known.plugin), self.names.plugin_schema(&known.plugin)] {
                attempts.push(Attempt::become_role(CoreBecomesAnother, &role));
            }
        }
        for role in [self.names.owner(), self.names.reaper(), self.names.provision()] {
            attempts.push(Attempt::become_role(CoreBecomesAnother, &role));
        }
        attempts
    }

    pub(super) fn cards_attempts(&self) -> Vec<Attempt> {
        use Violation::CardsRoleDoesMore;
        let mut attempts = vec![
            Attempt::new(CardsRoleDoesMore, "read cards", "SELECT title FROM public.master_cards LIMIT 0"),
            Attempt::new(CardsRoleDoesMore, "add a card", "INSERT INTO public.master_cards DEFAULT VALUES"),
            Attempt::new(CardsRoleDoesMore, "change cards", "UPDATE public.master_cards SET title = title WHERE false"),
            Attempt::new(CardsRoleDoesMore, "remove cards", "DELETE FROM public.master_cards WHERE false"),
            Attempt::new(CardsRoleDoesMore, "make a role", "CREATE ROLE cardinal_check"),
            Attempt::table(CardsRoleDoesMore, "public"),
        ];
        attempts.extend(self.core_tables.iter().map(|table| Attempt::read(CardsRoleDoesMore, "public", table)));
        attempts.extend(self.plugins.iter().flat_map(|known| Attempt::look_into(CardsRoleDoesMore, known)));
        attempts
    }

    pub(super) fn reaper_attempts(&self) -> Vec<Attempt> {
        use Violation::ReaperDoesMore;
        let mut attempts = vec![
            Attempt::new(ReaperDoesMore, "read cards", "SELECT title FROM public.master_cards LIMIT 0"),
            Attempt::new(ReaperDoesMore, "change cards", "UPDATE public.master_cards SET title = title WHERE false"),
            Attempt::table(ReaperDoesMore, "public"),
        ];
        attempts.extend(self.plugins.iter().flat_map(|known| Attempt::look_into(ReaperDoesMore, known)));
        attempts
    }

    /// It owns the plugins' schemas, and so may make tables there; theirs it may not read.
    pub(super) fn provisioner_attempts(&self) -> Vec<Attempt> {
        use Violation::ProvisionerDoesMore;
        let mut attempts = vec![
            Attempt::new(ProvisionerDoesMore, "read cards", "SELECT id FROM public.master_cards LIMIT 0"),
            Attempt::new(ProvisionerDoesMore, "make a role", "CREATE ROLE cardinal_check"),
            Attempt::table(ProvisionerDoesMore, "public"),
        ];
        for known in self.plugins {
            let schema = roles::plugin_schema_name(&known.plugin);
            attempts.extend(known.tables.iter().map(|table| Attempt::read(ProvisionerDoesMore, &schema, table)));
        }
        attempts
    }
}

impl Attempt {
    fn new(violation: Violation, what: impl Into<String>, sql: impl Into<String>) -> Self {
        Self { violation, what: what.into(), sql: sql.into() }
    }

    fn read(violation: Violation, schema: &str, table: &str) -> Self {
        let place = format!("{}.{}", sql::identifier(schema), sql::identifier(table));
        Self::new(violation, format!("read {schema}.{table}"), format!("SELECT 1 FROM {place} LIMIT 0"))
    }

    fn table(violation: Violation, schema: &str) -> Self {
        let statement = format!("CREATE TABLE {}.cardinal_check ()", sql::identifier(schema));
        Self::new(violation, format!("make a table in {schema}"), statement)
    }

    fn become_role(violation: Violation, role: &str) -> Self {
        Self::new(violation, format!("become {role}"), format!("SET LOCAL ROLE {}", sql::identifier(role)))
    }

    /// Into a plugin's schema: its tables, and the schema itself where there are none.
    fn look_into(violation: Violation, known: &PluginRecord) -> Vec<Self> {
        let schema = roles::plugin_schema_name(&known.plugin);
        let mut attempts: Vec<Self> = known.tables.iter().map(|table| Self::read(violation, &schema, table)).collect();
        attempts.push(Self::table(violation, &schema));
        attempts
    }
}
