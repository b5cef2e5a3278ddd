//! The table `mcp_approvals`: tool calls that a person has to confirm, and what became of each. A decision is good for
//! one call, of the caller, tool, arguments and package that its `binding` is made of, until it expires.

mod decisions;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value, json, value::RawValue};
use time::OffsetDateTime;
use tokio_postgres::{Row, types::ToSql};
use uuid::Uuid;

pub use self::decisions::{
    AskedClient, Decision, decide, ended, sweep, take_approved, take_denied, take_elicited, void, void_outdated,
    void_replaced, void_used,
};
use crate::error::StoreError;
use crate::event_log::{
    self,
    event::{Event, Topic},
};
use cardinal_base::schema::{Actor, DateTime};
use cardinal_database::pool::Pool;

/// What a decision is good for, as SHA-256.
pub type Binding = [u8; 32];

/// Seconds from the question until neither an answer nor an approval counts any more.
pub const LIFETIME_SECONDS: u32 = 600;
/// Calls of one caller that wait at a time; a further one displaces its oldest.
pub(crate) const PENDING_PER_CALLER: i64 = 10;
/// Calls of everybody that wait at a time; further ones are refused.
pub const PENDING_LIMIT: i64 = 500;

/// A question that is still open, or an answer that still counts.
const IS_LIVE: &str = "a.expires_at > clock_timestamp()";

/// Characters of the reason for a refusal.
pub const REASON_LIMIT: usize = 500;

/// Who is asked first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FirstAsked {
    /// The client's own user.
    Client,
    /// A person in the Admin UI.
    Admin,
}

impl FirstAsked {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Admin => "admin",
        }
    }
}

/// A call that is to wait for a person.
pub struct NewApproval<'a> {
    pub binding: Binding,
    /// The key, or the user where no key was shown.
    pub caller_id: Uuid,
    pub caller: &'a Value,
    pub user_id: Uuid,
    pub client_name: Option<&'a str>,
    pub client_version: Option<&'a str>,
    pub tool: &'a str,
    pub title: Option<&'a str>,
    pub plugin: Option<&'a Value>,
    /// JSON.
    pub arguments: &'a str,
    /// JSON.
    pub difference: Option<&'a str>,
    /// What was looked at for the question, where the arguments leave it open.
    pub pin: Option<&'a str>,
    pub asked: FirstAsked,
    pub session: Option<Uuid>,
    pub request_id: &'a str,
}

/// What became of a question.
pub enum QuestionOutcome {
    /// It waits; those of the caller that it displaced do not any more.
    New { id: Uuid, displaced: Vec<Uuid> },
    /// The same call waits for a person already.
    Known(Uuid),
    /// Too many calls wait.
    TooMany,
}

/// A call that waits for a person, or waited, as the API shows it.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Approval {
    pub id: Uuid,
    /// `pending`, `approved`, `denied`, `used`, `expired` or `void`: the plugin's package was replaced, or the
    /// cards are not those that were shown.
    pub state: String,
    pub tool: String,
    pub title: Option<String>,
    /// Null is a tool of the core.
    #[schemars(with = "Option<ConfirmedPlugin>")]
    pub plugin: Option<Value>,
    /// Exactly what the tool would get.
    #[schemars(with = "Map<String, Value>")]
    pub arguments: Box<RawValue>,
    /// What the call would change of cards, by JSON pointer; absent where the host cannot know it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Difference>")]
    pub difference: Option<Box<RawValue>>,
    /// The key, or the user where no key was shown.
    #[schemars(with = "Actor")]
    pub caller: Value,
    /// Whose rights the call has.
    pub user: ApprovalUser,
    /// As the client calls itself.
    pub client: Option<ApprovalClient>,
    /// `client`: its own user is asked, too; `admin`: a person in the Admin UI alone.
    pub asked: String,
    pub request_id: String,
    #[serde(with = "time::serde::rfc3339")]
    #[schemars(with = "DateTime")]
    pub created_at: OffsetDateTime,
    /// Until then it can be decided, and an approval be used.
    #[serde(with = "time::serde::rfc3339")]
    #[schemars(with = "DateTime")]
    pub expires_at: OffsetDateTime,
    #[serde(with = "time::serde::rfc3339::option")]
    #[schemars(with = "Option<DateTime>")]
    pub decided_at: Option<OffsetDateTime>,
    #[schemars(with = "Option<Actor>")]
    pub decided_by: Option<Value>,
    /// Why a person has refused it, in that person's words.
    pub reason: Option<String>,
    /// When the call ran.
    #[serde(with = "time::serde::rfc3339::option")]
    #[schemars(with = "Option<DateTime>")]
    pub used_at: Option<OffsetDateTime>,
    /// What was looked at for the question, as the tool writes it.
    #[serde(skip)]
    pub pin: Option<String>,
}

/// Which package would run.
#[derive(JsonSchema)]
#[allow(dead_code, reason = "a description")]
struct ConfirmedPlugin {
    name: String,
    version: String,
    /// Of the package; another one voids the approval.
    sha256: String,
}

/// What a card would become, or many.
#[derive(JsonSchema)]
#[allow(dead_code, reason = "a description")]
struct Difference {
    /// Null is a new card, many, or whatever a plugin says that its tool would change.
    card_id: Option<Uuid>,
    /// The card's version that was compared with.
    version: Option<i64>,
    /// Of a bulk action: how many cards it is for. `changes` are those of the first of them, and each pointer begins
    /// with a card's SKU.
    #[serde(skip_serializing_if = "Option::is_none")]
    count: Option<i64>,
    changes: Vec<ChangedMember>,
    /// Of a plugin's tool with a preview: why the plugin could not say what would change.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
}

#[derive(JsonSchema)]
#[allow(dead_code, reason = "a description")]
struct ChangedMember {
    pointer: String,
    /// Absent where there is none yet.
    before: Option<Value>,
    /// Absent where it is removed.
    after: Option<Value>,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ApprovalUser {
    pub id: Uuid,
    pub username: String,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ApprovalClient {
    pub name: String,
    pub version: Option<String>,
}

/// With the joined user; what has expired is shown as that before it is recorded.
const COLUMNS: &str = "a.id, CASE WHEN a.state IN ('pending', 'approved') AND a.expires_at <= clock_timestamp() \
     THEN 'expired' ELSE a.state END AS state, a.tool, a.title, a.plugin, a.arguments, a.difference, a.caller, a.user_id, \
     u.username, a.client_name, a.client_version, a.asked, a.request_id, a.created_at, a.expires_at, a.decided_at, \
     a.decided_by, a.reason, a.used_at, a.pin";
const WITH_USER: &str = "public.mcp_approvals a JOIN public.admin_users u ON u.id = a.user_id";

fn from_row(row: &Row) -> Result<Approval, StoreError> {
    let raw = |text: String| RawValue::from_string(text).map_err(StoreError::internal);
    let client: Option<String> = row.get("client_name");
    Ok(Approval {
        id: row.get("id"),
        state: row.get("state"),
        tool: row.get("tool"),
        title: row.get("title"),
        plugin: row.get("plugin"),
        arguments: raw(row.get("arguments"))?,
        difference: row.get::<_, Option<String>>("difference").map(raw).transpose()?,
        caller: row.get("caller"),
        user: ApprovalUser { id: row.get("user_id"), username: row.get("username") },
        client: client.map(|name| ApprovalClient { name, version: row.get("client_version") }),
        asked: row.get("asked"),
        request_id: row.get("request_id"),
        created_at: row.get("created_at"),
        expires_at: row.get("expires_at"),
        decided_at: row.get("decided_at"),
        decided_by: row.get("decided_by"),
        reason: row.get("reason"),
        used_at: row.get("used_at"),
        pin: row.get("pin"),
    })
}

/// Puts a call before a person. One that waits for the Admin UI already is not put there twice.
pub async fn ask(pool: &Pool, new: &NewApproval<'_>) -> Result<QuestionOutcome, StoreError> {
    let mut client = pool.get().await?;
    let tx = client.transaction().await?;
    let binding = new.binding.as_slice();
    let overdue = "UPDATE public.mcp_approvals a SET state = 'expired' \
                   WHERE a.binding = $1 AND a.state = 'pending' AND a.expires_at <= clock_timestamp()";
    tx.execute(&tx.prepare_cached(overdue).await?, &[&binding]).await?;
    if new.asked == FirstAsked::Admin
        && let Some(known) = waiting(&tx, binding).await?
    {
        tx.commit().await?;
        return Ok(QuestionOutcome::Known(known));
    }
    let displace = format!(
        "DELETE FROM public.mcp_approvals d WHERE d.id IN (SELECT a.id FROM public.mcp_approvals a \
         WHERE a.caller_id = $1 AND a.state = 'pending' AND {IS_LIVE} ORDER BY a.id DESC OFFSET $2) RETURNING d.id"
    );
    let rows = tx.query(&tx.prepare_cached(&displace).await?, &[&new.caller_id, &(PENDING_PER_CALLER - 1)]).await?;
    let displaced: Vec<Uuid> = rows.iter().map(|row| row.get(0)).collect();
    let id = Uuid::now_v7();
    if !insert(&tx, id, new).await? {
        // Another call was first with the same one, or too many wait. What would have been displaced stays.
        let known = if new.asked == FirstAsked::Admin { waiting(&tx, binding).await? } else { None };
        tx.rollback().await?;
        return Ok(known.map_or(QuestionOutcome::TooMany, QuestionOutcome::Known));
    }
    event_log::raise(&tx, &event("requested", id, new.tool)).await?;
    for displaced in &displaced {
        event_log::raise(&tx, &event("displaced", *displaced, new.tool)).await?;
    }
    tx.commit().await?;
    Ok(QuestionOutcome::New { id, displaced })
}

async fn waiting(tx: &deadpool_postgres::Transaction<'_>, binding: &[u8]) -> Result<Option<Uuid>, StoreError> {
    let sql = format!(
        "SELECT a.id FROM public.mcp_approvals a WHERE a.binding = $1 AND a.state = 'pending' AND a.asked = 'admin' AND {IS_LIVE}"
    );
    let row = tx.query_opt(&tx.prepare_cached(&sql).await?, &[&binding]).await?;
    Ok(row.map(|row| row.get(0)))
}

async fn insert(tx: &deadpool_postgres::Transaction<'_>, id: Uuid, new: &NewApproval<'_>) -> Result<bool, StoreError> {
    let sql = format!(
        "INSERT INTO public.mcp_approvals (id, binding, caller_id, caller, user_id, client_name, client_version, tool, \
         title, plugin, arguments, difference, pin, asked, session, request_id, created_at, expires_at) \
         SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, \
         t.now, t.now + make_interval(secs => {LIFETIME_SECONDS}) FROM (SELECT clock_timestamp() AS now) t \
         WHERE (SELECT count(*) FROM public.mcp_approvals a WHERE a.state = 'pending' AND {IS_LIVE}) < $17 \
         ON CONFLICT (binding) WHERE state = 'pending' AND asked = 'admin' DO NOTHING"
    );
    let binding = new.binding.as_slice();
    let values: [&(dyn ToSql + Sync); 17] = [
        &id,
        &binding,
        &new.caller_id,
        &new.caller,
        &new.user_id,
        &new.client_name,
        &new.client_version,
        &new.tool,
        &new.title,
        &new.plugin,
        &new.arguments,
        &new.difference,
        &new.pin,
        &new.asked.name(),
        &new.session,
        &new.request_id,
        &PENDING_LIMIT,
    ];
    Ok(tx.execute(&tx.prepare_cached(&sql).await?, &values).await? == 1)
}

fn event(what: &'static str, id: Uuid, tool: &str) -> Event {
    Event::new(Topic::Approval, what, json!({"id": id, "tool": tool}))
}

pub async fn get(pool: &Pool, id: Uuid) -> Result<Option<Approval>, StoreError> {
    let client = pool.get().await?;
    let sql = format!("SELECT {COLUMNS} FROM {WITH_USER} WHERE a.id = $1");
    let row = client.query_opt(&client.prepare_cached(&sql).await?, &[&id]).await?;
    row.as_ref().map(from_row).transpose()
}

/// Newest first; of one state, or of all. `before` is the last id of the page before.
pub async fn list(
    pool: &Pool,
    state: Option<&str>,
    before: Option<Uuid>,
    limit: i64,
) -> Result<Vec<Approval>, StoreError> {
    let client = pool.get().await?;
    let sql = format!(
        "SELECT s.* FROM (SELECT {COLUMNS} FROM {WITH_USER}) s (id, state) WHERE ($1::text IS NULL OR s.state = $1) \
         AND ($2::uuid IS NULL OR s.id < $2) ORDER BY s.id DESC LIMIT $3"
    );
    let rows = client.query(&client.prepare_cached(&sql).await?, &[&state, &before, &limit]).await?;
    rows.iter().map(from_row).collect()
}
