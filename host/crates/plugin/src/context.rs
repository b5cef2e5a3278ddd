//! What a plugin may ask of the host, and the rules of asking (contract 5.4), in plain Rust. The
//! bridge turns it into doors; nothing here knows of the ABI.
//!
//! Rights come from the call, never from an argument. Without a call the plugin acts as its service user,
//! which may write the plugin's declared kinds and read cards, no more.

mod jobs;

use std::sync::Arc;

use http::HeaderValue;
use serde_json::{Value, json, value::RawValue};
use time::{OffsetDateTime, format_description::well_known::Rfc3339};
use tokio::{runtime::Handle, sync::OnceCell};
use uuid::Uuid;

use super::{connection::PluginPool, fault::Fault, listen::Listeners, probe::Prober, watchdog::Watchdog};
use cardinal_base::{
    config::{BreakerMode, Execution, PerPlugin, PluginNetworks},
    http_client::{self, HttpClient, Reach},
    input,
};
use cardinal_cards::{filter::ListQuery, source};
use cardinal_control::crash::PluginTag;
use cardinal_database::pool::Pool;
use cardinal_identity::auth::caller::Caller;
use cardinal_observe::log::Log;
use cardinal_package::manifest::DeclaredJob;
use cardinal_store::{
    cards::{
        self,
        sources::{Entry, WriteOutcome},
    },
    catalogue::Catalogue,
    events::{Events, card_page::CardEventQuery},
    service_users,
};

/// What the host shares with every plugin's context.
pub struct Services {
    /// The core's own pool. Plugins' SQL never runs on it.
    pub core: Pool,
    /// Cards as the API reads them.
    pub catalogue: Arc<Catalogue>,
    /// What happens to cards.
    pub events: Arc<Events>,
    /// Where the doors' work runs.
    pub runtime: Handle,
    /// Watches over all plugins' code.
    pub watchdog: Arc<Watchdog>,
    /// Where plugins' calls run, as the operator has it.
    pub execution: PerPlugin<Execution>,
    /// What becomes of plugins whose calls go wrong.
    pub breaker: PerPlugin<BreakerMode>,
    /// Tries libraries before they are opened here.
    pub prober: Prober,
    /// Where plugins' lines go.
    pub log: Log,
    /// Connects to other servers.
    pub http: HttpClient,
    /// Private networks that plugins reach, as the operator has it.
    pub networks: PluginNetworks,
}

/// Who a plugin instance is and what it was given.
pub struct PluginIdentity {
    pub name: String,
    pub version: String,
    /// What marks threads that run its code.
    pub tag: PluginTag,
    /// Counts up with every instance that the host makes.
    pub generation: u64,
    /// `provides_kinds` of the manifest.
    pub provides_kinds: Vec<String>,
    /// `backend.jobs` of the manifest.
    pub jobs: Vec<DeclaredJob>,
    /// The operator's settings over the manifest's defaults: a JSON object.
    pub settings: Value,
    /// Whether its settings open all private networks to it.
    pub opens_private_networks: bool,
    /// The plugin's own pool; none when it has no database.
    pub pool: Option<PluginPool>,
}

/// The context of one plugin instance.
pub struct PluginContext {
    services: Arc<Services>,
    identity: PluginIdentity,
    service_user: OnceCell<Uuid>,
}

impl PluginContext {
    pub fn new(services: Arc<Services>, identity: PluginIdentity) -> Self {
        Self { services, identity, service_user: OnceCell::new() }
    }

    pub fn name(&self) -> &str {
        &self.identity.name
    }

    pub fn tag(&self) -> PluginTag {
        self.identity.tag
    }

    pub fn generation(&self) -> u64 {
        self.identity.generation
    }

    pub fn runtime(&self) -> &Handle {
        &self.services.runtime
    }

    pub fn execution(&self) -> Execution {
        self.services.execution.get(self.name())
    }

    pub fn watchdog(&self) -> &Arc<Watchdog> {
        &self.services.watchdog
    }

    pub fn settings(&self) -> &Value {
        &self.identity.settings
    }

    /// The plugin's own pool.
    pub fn pool(&self) -> Result<&PluginPool, Fault> {
        let none = || Fault::Unsupported("this plugin was given no database".to_owned());
        self.identity.pool.as_ref().ok_or_else(none)
    }

    /// Those of one instance.
    pub(crate) fn listeners(&self) -> Arc<Listeners> {
        Listeners::new(self.name(), self.identity.pool.clone(), self.services.runtime.clone())
    }

    /// Connects to other servers.
    pub fn http_client(&self) -> HttpClient {
        self.services.http.clone()
    }

    /// Which servers the plugin may reach through the host.
    pub fn reach(&self) -> Reach {
        match self.identity.opens_private_networks {
            true => Reach::with_private_networks(),
            false => Reach::new(self.services.networks.get(self.name())),
        }
    }

    /// How the plugin's requests call themselves, unless they say it.
    pub fn user_agent(&self) -> HeaderValue {
        let PluginIdentity { name, version, .. } = &self.identity;
        let text = format!("{name}/{version} {}", http_client::AGENT);
        HeaderValue::from_str(&text).unwrap_or(HeaderValue::from_static(http_client::AGENT))
    }

    /// How many connections the plugin may have open, has open, and has open and unused; how many calls wait.
    pub fn pool_status(&self) -> Option<deadpool::Status> {
        self.identity.pool.as_ref().map(PluginPool::status)
    }

    /// Has the plugin's pool keep no free connection any more.
    pub fn drain(&self) {
        if let Some(pool) = &self.identity.pool {
            pool.drain();
        }
    }

    /// Closes the plugin's pool.
    pub fn close(&self) {
        if let Some(pool) = &self.identity.pool {
            pool.close();
        }
    }

    /// The id of the plugin's own user, made on first use.
    pub async fn service_user(&self) -> Result<Uuid, Fault> {
        let find = || service_users::find_or_create(&self.services.core, self.name());
        self.service_user.get_or_try_init(find).await.copied().map_err(Fault::from)
    }

    /// The card as JSON.
    pub async fn read_card(&self, caller: Option<&Caller>, card: Uuid) -> Result<String, Fault> {
        self.authorize(caller, Access::Read).await?;
        let card = self.services.catalogue.card(card).await?;
        serde_json::to_string(&card).map_err(|error| Fault::Internal(error.into()))
    }

    /// A page of cards as JSON.
    pub async fn list_cards(&self, caller: Option<&Caller>, query: &str) -> Result<String, Fault> {
        self.authorize(caller, Access::Read).await?;
        let query = if query.is_empty() { "{}" } else { query };
        let query: ListQuery =
            input::strict(query.as_bytes()).map_err(|error| Fault::Invalid(format!("the query: {error}")))?;
        let page = self.services.catalogue.page(&query).await?;
        serde_json::to_string(&page).map_err(|error| Fault::Internal(error.into()))
    }

    /// A page of what happened to cards, as JSON.
    pub async fn card_events(&self, caller: Option<&Caller>, query: &str) -> Result<String, Fault> {
        self.authorize(caller, Access::Read).await?;
        let query = if query.is_empty() { "{}" } else { query };
        let query: CardEventQuery =
            serde_json::from_str(query).map_err(|error| Fault::Invalid(format!("the query: {error}")))?;
        let page = self.services.events.card_page(&query).await?;
        serde_json::to_string(&page).map_err(|error| Fault::Internal(error.into()))
    }

    /// Writes one source of a card; the card's new version.
    pub async fn enrich_card(&self, caller: Option<&Caller>, source: Source<'_>) -> Result<u64, Fault> {
        let actor = self.authorize(caller, Access::Write).await?;
        source::check_key(self.name(), source.key)?;
        source::check_kind(&self.identity.provides_kinds, source.kind)?;
        source::check_data(source.data)?;
        let data: &RawValue =
            serde_json::from_str(source.data).map_err(|error| Fault::Invalid(format!("data is not JSON: {error}")))?;
        let entry = Entry {
            kind: source.kind,
            data,
            plugin: self.name(),
            plugin_version: &self.identity.version,
            updated_at: now().format(&Rfc3339).map_err(|error| Fault::Internal(error.into()))?,
            updated_by: &actor,
        };
        written(self.services.catalogue.enrich(source.card, source.key, &entry).await?)
    }

    /// Removes one of the plugin's own sources of a card; the card's new version.
    pub async fn remove_source(&self, caller: Option<&Caller>, card: Uuid, key: &str) -> Result<u64, Fault> {
        let actor = self.authorize(caller, Access::Write).await?;
        source::check_key(self.name(), key)?;
        written(cards::sources::remove(&self.services.core, card, key, &actor).await?)
    }

    /// Checks that the call may do this; who does it, as `{kind, id, name}`.
    async fn authorize(&self, caller: Option<&Caller>, access: Access) -> Result<Value, Fault> {
        let Some(caller) = caller else {
            return Ok(json!({"kind": "plugin", "id": self.service_user().await?, "name": self.name()}));
        };
        let own = format!("plugin:{}:{}", self.name(), access.action());
        if caller.holds(&own) || caller.holds(access.cards_scope()) {
            return Ok(caller.actor());
        }
        Err(Fault::Forbidden { detail: format!("This needs the scope `{own}`."), scope: Some(own) })
    }
}

/// One source to be written.
pub struct Source<'a> {
    pub card: Uuid,
    pub key: &'a str,
    pub kind: &'a str,
    /// JSON.
    pub data: &'a str,
}

#[derive(Clone, Copy)]
enum Access {
    Read,
    Write,
}

impl Access {
    const fn action(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
        }
    }

    const fn cards_scope(self) -> &'static str {
        match self {
            Self::Read => "cards:read",
            Self::Write => "cards:write",
        }
    }
}

/// To the microsecond, as all times that the database keeps.
fn now() -> OffsetDateTime {
    let now = OffsetDateTime::now_utc();
    now.replace_nanosecond(now.microsecond() * 1_000).unwrap_or(now)
}

fn written(outcome: WriteOutcome) -> Result<u64, Fault> {
    match outcome {
        WriteOutcome::Version(version) => u64::try_from(version).map_err(|error| Fault::Internal(error.into())),
        WriteOutcome::NoCard => Err(Fault::NotFound("There is no such card.".to_owned())),
        WriteOutcome::NoSource => Err(Fault::NotFound("The card has no such source.".to_owned())),
        WriteOutcome::Full => Err(Fault::Refused(source::too_many_sources())),
    }
}
