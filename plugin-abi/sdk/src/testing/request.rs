//! A request as a test makes it, and the users of tests.

mod constructors;

use std::{net::IpAddr, time::Duration};

use bytes::Bytes;
use cardinal_plugin_abi::{self as abi, pairs, record, record::attr};
use http::Method;
use serde::Serialize;
use uuid::Uuid;

use crate::{User, UserKind};

/// What a handler is asked in a test: an HTTP request below the plugin's prefix, or the call of a tool.
///
/// Unless it says otherwise, it comes from [`test_user`]`("tester", &["*"])` and has no body, no headers and no
/// deadline. It can be cloned and sent again.
///
/// ```
/// use cardinal_plugin::{json, testing::{TestRequest, test_user}};
///
/// let listed = TestRequest::get("/cards/7?limit=2").header("accept-language", "de");
/// let added = TestRequest::post("/cards/7").json(&json!({ "text": "check the legs" })).user(test_user("Ada", &["cards:read"]));
/// let tool = TestRequest::tool("plugin_notes_add", &json!({ "card_id": 7, "text": "check the legs" }));
/// ```
///
/// What a host adds to a request of its own accord is set by hand:
///
/// ```
/// use std::time::Duration;
/// use cardinal_plugin::{PluginContext, Request, Response, Result, Router, block_on, json};
/// use cardinal_plugin::testing::{TestHost, TestRequest};
///
/// async fn about(_: PluginContext, req: Request) -> Result<Response> {
///     let peer = req.peer().map(|address| address.to_string());
///     Ok(Response::json(&json!([req.locale(), req.request_id(), peer, req.deadline().is_some()])))
/// }
///
/// let manifest = r#"{ "name": "about", "version": "1.0.0", "backend": {} }"#;
/// let host = TestHost::new(manifest, |_: &PluginContext| Router::new().get("/about", about));
/// let plain = TestRequest::get("/about");
/// assert_eq!(block_on(host.send(plain.clone())).json(), json!([null, "test", null, false]));
/// let full = plain.locale("de-AT").request_id("r1").peer([192, 0, 2, 7].into()).deadline(Duration::from_secs(30));
/// assert_eq!(block_on(host.send(full)).json(), json!(["de-AT", "r1", "192.0.2.7", true]));
/// ```
#[derive(Clone, Debug)]
pub struct TestRequest {
    pub(super) method: Method,
    pub(super) path: String,
    query: String,
    headers: Vec<(String, String)>,
    pub(super) params: Vec<(String, String)>,
    body: Body,
    pub(super) user: User,
    pub(super) tool: Option<String>,
    /// The job's id, and its checkpoint as JSON.
    job: Option<(Uuid, String)>,
    request_id: String,
    locale: String,
    deadline: Option<Duration>,
    peer: Option<IpAddr>,
}

#[derive(Clone, Debug)]
enum Body {
    Full(Bytes),
    Pieces(Vec<Bytes>),
}

impl TestRequest {
    /// Sets a JSON body and its `content-type`.
    ///
    /// ```
    /// use cardinal_plugin::json;
    /// use cardinal_plugin::{block_on, testing::{TestHost, TestRequest}};
    ///
    /// # use cardinal_plugin::{PluginContext, Request, Response, Result, Router};
    /// # async fn handler(_: PluginContext, req: Request) -> Result<Response> {
    /// #     Ok(Response::bytes("text/plain", req.body().await?))
    /// # }
    /// # let manifest = r#"{ "name": "prices", "version": "1.0.0", "backend": {} }"#;
    /// # let host = TestHost::new(manifest, |_: &PluginContext| Router::new().post("/prices", handler));
    /// let price = TestRequest::post("/prices").json(&json!({ "cents": 990 }));
    /// assert_eq!(block_on(host.send(price)).text(), r#"{"cents":990}"#);
    /// ```
    ///
    /// # Panics
    /// When the value cannot be written as JSON.
    #[must_use]
    pub fn json(self, value: &(impl Serialize + ?Sized)) -> Self {
        match serde_json::to_vec(value) {
            Ok(bytes) => self.body("application/json", bytes),
            Err(error) => panic!("the body cannot be written as JSON: {error}"),
        }
    }

    /// Sets a body of any media type.
    ///
    /// ```
    /// use cardinal_plugin::{block_on, testing::{TestHost, TestRequest}};
    ///
    /// # use cardinal_plugin::{PluginContext, Request, Response, Result, Router};
    /// # async fn handler(_: PluginContext, req: Request) -> Result<Response> {
    /// #     Ok(Response::bytes("text/plain", req.body().await?))
    /// # }
    /// # let manifest = r#"{ "name": "prices", "version": "1.0.0", "backend": {} }"#;
    /// # let host = TestHost::new(manifest, |_: &PluginContext| Router::new().post("/prices", handler));
    /// let prices = TestRequest::post("/prices").body("text/csv", "L1,990\n");
    /// assert_eq!(block_on(host.send(prices)).text(), "L1,990\n");
    /// ```
    #[must_use]
    pub fn body(mut self, content_type: &str, bytes: impl Into<Bytes>) -> Self {
        self.body = Body::Full(bytes.into());
        self.headers.retain(|(name, _)| name != "content-type");
        self.header("content-type", content_type)
    }

    /// Sets a body that arrives piece by piece, like that of a route which takes more than 1 MiB.
    ///
    /// ```
    /// use cardinal_plugin::{block_on, testing::{TestHost, TestRequest}};
    ///
    /// # use cardinal_plugin::{PluginContext, Request, Response, Result, Router};
    /// # async fn handler(_: PluginContext, req: Request) -> Result<Response> {
    /// #     Ok(Response::bytes("text/plain", req.body().await?))
    /// # }
    /// # let manifest = r#"{ "name": "prices", "version": "1.0.0", "backend": {} }"#;
    /// # let host = TestHost::new(manifest, |_: &PluginContext| Router::new().post("/prices", handler));
    /// let prices = TestRequest::post("/prices").pieces(["L1,9", "90\n"]);
    /// assert_eq!(block_on(host.send(prices)).text(), "L1,990\n");
    /// ```
    #[must_use]
    pub fn pieces<P: Into<Bytes>>(mut self, pieces: impl IntoIterator<Item = P>) -> Self {
        self.body = Body::Pieces(pieces.into_iter().map(Into::into).collect());
        self
    }

    /// Adds a header; the name in any case.
    ///
    /// ```
    /// use cardinal_plugin::testing::TestRequest;
    ///
    /// let request = TestRequest::get("/").header("Accept-Language", "de");
    /// # use cardinal_plugin::{PluginContext, Request, Response, Result, Router, block_on, testing::TestHost};
    /// # async fn handler(ctx: PluginContext, req: Request) -> Result<Response> {
    /// #     assert!(req.header("accept-language") == Some("de"));
    /// #     Ok(Response::empty())
    /// # }
    /// # let host = TestHost::new(r#"{ "name": "prices", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
    /// # assert_eq!(block_on(host.call(handler, request)).status(), 204);
    /// ```
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_ascii_lowercase(), value.to_owned()));
        self
    }

    /// Sets a parameter of the path, for a handler that is called without a router
    /// ([`TestHost::call`](super::TestHost::call)).
    ///
    /// ```
    /// use cardinal_plugin::testing::TestRequest;
    ///
    /// let request = TestRequest::get("/").param("sku", "L1"); // for a handler of `/prices/{sku}`
    /// # use cardinal_plugin::{PluginContext, Request, Response, Result, Router, block_on, testing::TestHost};
    /// # async fn handler(ctx: PluginContext, req: Request) -> Result<Response> {
    /// #     assert!(req.param("sku") == Some("L1"));
    /// #     Ok(Response::empty())
    /// # }
    /// # let host = TestHost::new(r#"{ "name": "prices", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
    /// # assert_eq!(block_on(host.call(handler, request)).status(), 204);
    /// ```
    #[must_use]
    pub fn param(mut self, name: &str, value: &str) -> Self {
        self.params.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Sets who calls: [`test_user`] makes one. The test host checks the rights to cards by it, not the scopes of
    /// routes.
    ///
    /// ```
    /// use cardinal_plugin::testing::{TestRequest, test_user};
    ///
    /// let request = TestRequest::get("/").user(test_user("Ada", &["plugin:prices:read"]));
    /// # use cardinal_plugin::{PluginContext, Request, Response, Result, Router, block_on, testing::TestHost};
    /// # async fn handler(ctx: PluginContext, req: Request) -> Result<Response> {
    /// #     assert!(ctx.user()?.name == "Ada");
    /// #     Ok(Response::empty())
    /// # }
    /// # let host = TestHost::new(r#"{ "name": "prices", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
    /// # assert_eq!(block_on(host.call(handler, request)).status(), 204);
    /// ```
    #[must_use]
    pub fn user(mut self, user: User) -> Self {
        self.user = user;
        self
    }

    /// The run of a job, with the checkpoint of the one before.
    pub(super) fn job(mut self, id: Uuid, checkpoint: String) -> Self {
        self.job = Some((id, checkpoint));
        self
    }

    /// Sets the language that the client prefers, such as `de-AT`. The header `accept-language` does not set it here.
    ///
    /// ```
    /// use cardinal_plugin::testing::TestRequest;
    ///
    /// let request = TestRequest::get("/").locale("de-AT");
    /// # use cardinal_plugin::{PluginContext, Request, Response, Result, Router, block_on, testing::TestHost};
    /// # async fn handler(ctx: PluginContext, req: Request) -> Result<Response> {
    /// #     assert!(req.locale() == Some("de-AT"));
    /// #     Ok(Response::empty())
    /// # }
    /// # let host = TestHost::new(r#"{ "name": "prices", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
    /// # assert_eq!(block_on(host.call(handler, request)).status(), 204);
    /// ```
    #[must_use]
    pub fn locale(mut self, locale: &str) -> Self {
        self.locale = locale.to_owned();
        self
    }

    /// Sets the id that [`Request::request_id`](crate::Request::request_id) returns; it is `test` unless it is set.
    ///
    /// ```
    /// use cardinal_plugin::testing::TestRequest;
    ///
    /// let request = TestRequest::get("/").request_id("r1");
    /// # use cardinal_plugin::{PluginContext, Request, Response, Result, Router, block_on, testing::TestHost};
    /// # async fn handler(ctx: PluginContext, req: Request) -> Result<Response> {
    /// #     assert!(req.request_id() == "r1");
    /// #     Ok(Response::empty())
    /// # }
    /// # let host = TestHost::new(r#"{ "name": "prices", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
    /// # assert_eq!(block_on(host.call(handler, request)).status(), 204);
    /// ```
    #[must_use]
    pub fn request_id(mut self, id: &str) -> Self {
        self.request_id = id.to_owned();
        self
    }

    /// Sets the time that [`Request::deadline`](crate::Request::deadline) has left. Nothing enforces it here.
    ///
    /// ```
    /// use std::time::Duration;
    /// use cardinal_plugin::testing::TestRequest;
    ///
    /// let request = TestRequest::get("/").deadline(Duration::from_secs(30));
    /// # use cardinal_plugin::{PluginContext, Request, Response, Result, Router, block_on, testing::TestHost};
    /// # async fn handler(ctx: PluginContext, req: Request) -> Result<Response> {
    /// #     assert!(req.deadline().is_some());
    /// #     Ok(Response::empty())
    /// # }
    /// # let host = TestHost::new(r#"{ "name": "prices", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
    /// # assert_eq!(block_on(host.call(handler, request)).status(), 204);
    /// ```
    #[must_use]
    pub fn deadline(mut self, left: Duration) -> Self {
        self.deadline = Some(left);
        self
    }

    /// Sets the client's address.
    ///
    /// ```
    /// use std::net::Ipv4Addr;
    /// use cardinal_plugin::testing::TestRequest;
    ///
    /// let request = TestRequest::get("/").peer(Ipv4Addr::new(192, 0, 2, 7).into());
    /// # use cardinal_plugin::{PluginContext, Request, Response, Result, Router, block_on, testing::TestHost};
    /// # async fn handler(ctx: PluginContext, req: Request) -> Result<Response> {
    /// #     assert!(req.peer().is_some_and(|peer| peer.is_ipv4()));
    /// #     Ok(Response::empty())
    /// # }
    /// # let host = TestHost::new(r#"{ "name": "prices", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
    /// # assert_eq!(block_on(host.call(handler, request)).status(), 204);
    /// ```
    #[must_use]
    pub fn peer(mut self, address: IpAddr) -> Self {
        self.peer = Some(address);
        self
    }

    /// The request as a host sends it.
    pub(super) fn into_abi(self, tool: Option<&str>) -> abi::Request {
        let kind = match (&self.tool, &self.job) {
            (Some(_), _) => "tool",
            (None, Some(_)) => "job",
            (None, None) => "route",
        };
        let (job, checkpoint) = self.job.map(|(id, checkpoint)| (id.to_string(), checkpoint)).unwrap_or_default();
        let method = if self.tool.is_some() { "" } else { self.method.as_str() };
        let deadline = self.deadline.map(|left| left.as_millis().to_string()).unwrap_or_default();
        let (peer, user) = (self.peer.map(|ip| ip.to_string()).unwrap_or_default(), &self.user);
        let (id, scopes) = (user.id.to_string(), user.scopes.join(" "));
        let user_kind = serde_json::to_value(user.kind).unwrap_or_default();
        let fields = [
            (attr::METHOD, method),
            (attr::PATH, &self.path),
            (attr::QUERY, &self.query),
            (attr::USER_ID, &id),
            (attr::USER_KIND, user_kind.as_str().unwrap_or_default()),
            (attr::USER_NAME, &user.name),
            (attr::SCOPES, &scopes),
            (attr::REQUEST_ID, &self.request_id),
            (attr::DEADLINE_MS, &deadline),
            (attr::PEER, &peer),
            (attr::CALL_KIND, kind),
            (attr::TOOL, tool.unwrap_or_default()),
            (attr::LOCALE, &self.locale),
            (attr::JOB, &job),
            (attr::CHECKPOINT, &checkpoint),
        ];
        let fields = fields.map(|(number, text)| (number, text.as_bytes()));
        let (body, stream) = match self.body {
            Body::Full(bytes) => (abi::Bytes::from_owner(bytes), abi::Stream::NONE),
            Body::Pieces(pieces) => (abi::Bytes::EMPTY, abi::Stream::new(Pieces(pieces.into_iter()))),
        };
        abi::Request {
            head: record::write(&fields).into(),
            headers: write_pairs(&self.headers),
            params: write_pairs(&self.params),
            body,
            stream,
        }
    }
}

fn write_pairs(pairs: &[(String, String)]) -> abi::Bytes {
    pairs::write(pairs.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()))).into()
}

struct Pieces(std::vec::IntoIter<Bytes>);

impl abi::stream::Source for Pieces {
    fn poll_next(
        mut self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<abi::Bytes, abi::Error>>> {
        std::task::Poll::Ready(self.0.next().map(|piece| Ok(abi::Bytes::from_owner(piece))))
    }
}

/// Makes a user for tests, with an id of its own and these scopes: `cards:read`, `plugin:notes:write`, `*`.
///
/// ```
/// use cardinal_plugin::testing::test_user;
///
/// let (ada, other) = (test_user("Ada", &["cards:read"]), test_user("Ada", &[]));
/// assert_eq!((ada.name.as_str(), ada.scopes.len()), ("Ada", 1));
/// assert_ne!(ada.id, other.id);
/// ```
pub fn test_user(name: &str, scopes: &[&str]) -> User {
    let scopes = scopes.iter().map(|scope| (*scope).to_owned()).collect();
    User { id: Uuid::new_v4(), name: name.to_owned(), kind: UserKind::User, scopes }
}
