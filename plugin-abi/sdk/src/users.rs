//! Users as plugins see them: who calls, and the plugin's own.
//!
//! The types are read from the host's JSON and `#[non_exhaustive]`, as those of cards are.

use cardinal_plugin_abi::record::{self, attr};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use crate::{Error, Result};

/// A user: the one who calls ([`PluginContext::user`](crate::PluginContext::user)), or the plugin itself
/// ([`service_user`](crate::PluginContext::service_user)).
///
/// In tests `testing::test_user` makes one.
///
/// ```
/// use cardinal_plugin::testing::{TestRequest, test_user};
///
/// # use cardinal_plugin::{PluginContext, Router, testing::TestHost};
/// # let host = TestHost::new(r#"{ "name": "notes", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
/// let ctx = host.call_context(TestRequest::get("/").user(test_user("Ada", &["cards:read"])));
/// let user = ctx.user()?;
/// assert_eq!((user.name.as_str(), user.scopes), ("Ada", vec!["cards:read".to_owned()]));
/// # Ok::<(), cardinal_plugin::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct User {
    /// The id: what `enrich_card` and `read_card` take as `user_id`. For an API key it is that of the key's owner.
    pub id: Uuid,
    /// The name, for people. It may change, and is no key.
    #[serde(default)]
    pub name: String,
    /// How the user was authenticated.
    #[serde(default)]
    pub kind: UserKind,
    /// What the call may do: `cards:read`, `plugin:supplier:write`, `*`, ... Empty for the service user.
    #[serde(default)]
    pub scopes: Vec<String>,
}

/// How a user was authenticated.
///
/// The host may add kinds: treat [`Unknown`](Self::Unknown) as a user about whom only the scopes are known.
///
/// ```
/// use cardinal_plugin::{User, UserKind};
///
/// /// Programs get the numbers, people a sentence.
/// fn wants_numbers(user: &User) -> bool {
///     matches!(user.kind, UserKind::ApiKey | UserKind::Plugin)
/// }
/// assert!(!wants_numbers(&cardinal_plugin::testing::test_user("Ada", &[])));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum UserKind {
    /// A person who logged in.
    User,
    /// A program with an API key; the id is its owner's.
    ApiKey,
    /// A person or program that an OpenID Connect provider vouches for.
    Oidc,
    /// The plugin itself.
    Plugin,
    /// A command on the host's own machine; the id is that of an owner.
    Local,
    /// A kind that this SDK does not know.
    #[default]
    #[serde(other)]
    Unknown,
}

impl User {
    /// The caller in a request's head; the text says what is wrong with it.
    pub(crate) fn read(head: &[u8]) -> Result<Self, String> {
        let text = |number| std::str::from_utf8(record::field(head, number)).map_err(|error| error.to_string());
        let id = text(attr::USER_ID)?.parse().map_err(|_| "the call has no user".to_owned())?;
        let kind = UserKind::deserialize(Value::from(text(attr::USER_KIND)?)).unwrap_or_default();
        let scopes = text(attr::SCOPES)?.split_ascii_whitespace().map(str::to_owned).collect();
        Ok(Self { id, name: text(attr::USER_NAME)?.to_owned(), kind, scopes })
    }

    pub(crate) fn parse(json: &[u8]) -> Result<Self> {
        serde_json::from_slice(json).map_err(|error| Error::internal(format!("the host's user: {error}")))
    }
}
