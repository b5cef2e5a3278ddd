use anyhow::bail;
use serde_json::json;

use crate::cli::{
    direct::{self, Direct},
    text::{plain, print_line, shell_word},
};
use cardinal_base::config::DatabaseSettings;
use cardinal_database::roles::RolePasswords;
use cardinal_package::manifest::CONNECTIONS_DEFAULT;
use cardinal_schema::plugin_schema::{
    LockLimits, SCHEMA_TIMEOUT, Step, catalog::UnlistedObject, drop_object::DropOutcome,
};
use cardinal_serve::audit::AuditAction;

/// Drop one object that a plugin's schema must not hold, such as a function of an older version
///
/// Without an object it lists what keeps the plugin from being served (`schema-unsafe`), with the command that drops
/// each. Nothing else can be dropped this way. Works beside a running host and with the host stopped; the audit log has
/// it as `local`. Scan the plugins again, or start the host, when nothing is left.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  cardinal database drop-object notes
  cardinal database drop-object notes 'a function: plugin_notes.touch()'")]
pub(super) struct Args {
    /// Name of the plugin
    plugin: String,
    /// The object, in the words of the list
    object: Option<String>,
    /// Drop what needs the object as well; a column that is computed by it goes with its values
    #[arg(long, requires = "object")]
    cascade: bool,
    #[command(flatten)]
    database: DatabaseSettings,
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let config = direct::begin(&args.database)?;
    Direct::run(&config, async |direct| {
        let passwords = direct.preparation.passwords().await?;
        match &args.object {
            Some(object) => drop_object(direct, &passwords, args, object).await,
            None => list(direct, &passwords, &args.plugin).await,
        }
    })
}

/// What the step needs of a plugin to work on its schema as it is.
async fn with_step<T>(
    direct: &Direct,
    passwords: &RolePasswords,
    plugin: &str,
    work: impl AsyncFnOnce(Step<'_>) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let names = &direct.preparation.names;
    let role = names.provision();
    let provisioner = direct.preparation.login.with_login(role.clone(), passwords.for_role(&role));
    work(Step {
        plugin,
        version: "",
        package: "",
        schema_sql: "",
        // Until a host makes the step with the package.
        connections: CONNECTIONS_DEFAULT,
        provisioner: &provisioner,
        names,
        passwords,
        start_options: false,
        schema_timeout: SCHEMA_TIMEOUT,
        lock_limits: LockLimits::default(),
        is_kept: false,
        replay: false,
    })
    .await
}

async fn list(direct: &Direct, passwords: &RolePasswords, plugin: &str) -> anyhow::Result<()> {
    let unknown = with_step(direct, passwords, plugin, async |step| step.unknown_objects().await).await?;
    if unknown.is_empty() {
        return print_line(&format!("The schema of {} holds nothing that it must not.", plain(plugin)));
    }
    for unknown in &unknown {
        print_line(&plain(&unknown.to_string()))?;
        print_line(&format!("  {}", advice(plugin, unknown)))?;
    }
    Ok(())
}

fn advice(plugin: &str, unknown: &UnlistedObject) -> String {
    match unknown.object {
        Some(_) => {
            let object = shell_word(&plain(&unknown.to_string()));
            format!("cardinal database drop-object {} {object}", shell_word(&plain(plugin)))
        }
        None => "goes with one of the above, or the plugin's next schema.sql drops it, or a superuser takes it back"
            .to_owned(),
    }
}

async fn drop_object(direct: &Direct, passwords: &RolePasswords, args: &Args, object: &str) -> anyhow::Result<()> {
    let outcome =
        with_step(direct, passwords, &args.plugin, async |step| step.drop_object(object, args.cascade).await).await?;
    match outcome {
        DropOutcome::Dropped { object, dependents } => {
            let detail = json!({ "object": object.to_string(), "dependents": dependents });
            direct.record(AuditAction::DropPluginObject, args.plugin.clone(), detail).await;
            print_line(&format!("Dropped {}.", plain(&object.to_string())))?;
            dependents.iter().try_for_each(|line| print_line(&format!("  with it: {}", plain(line))))
        }
        DropOutcome::HasDependents(dependents) => {
            let lines: Vec<String> = dependents.iter().map(|line| format!("  {}", plain(line))).collect();
            bail!(
                "nothing was dropped, since others need {object}:\n{}\nDrop them first, or say --cascade, and they go with it.",
                lines.join("\n")
            )
        }
    }
}
