//! What shows who calls, kept while a request is still being answered after some time.

use std::{net::IpAddr, time::Duration};

use http::{HeaderValue, header};

use super::CallHead;
use crate::http::error::ApiResult;
use cardinal_identity::auth::{
    Auth,
    caller::{CallerKind, SharedCaller},
};

/// How often a stream looks at its reader's rights when no change of them is heard of: a credential ends by itself,
/// too.
pub(crate) const RECHECK_RIGHTS: Duration = Duration::from_secs(2);

/// The credential of a request, and no more of it.
#[derive(Clone)]
pub(crate) struct Credential {
    /// Values of `Authorization`: more than one are refused when they are looked at.
    authorization: Vec<HeaderValue>,
    /// Who calls without one, at the local socket.
    local: Option<u32>,
    peer: IpAddr,
}

impl Credential {
    pub(crate) fn from_call(call: &CallHead) -> Self {
        let local = match call.caller().map(|caller| caller.kind) {
            Ok(CallerKind::Local { uid }) => Some(uid),
            _ => None,
        };
        let authorization = call.headers.get_all(header::AUTHORIZATION).iter().cloned().collect();
        Self { authorization, local, peer: call.peer }
    }

    /// What a request carried in its `Authorization`.
    pub(crate) fn from_header(value: HeaderValue, peer: IpAddr) -> Self {
        Self { authorization: vec![value], local: None, peer }
    }

    /// Whose it is by now, and what it may do.
    pub(crate) async fn identify(&self, auth: &Auth) -> ApiResult<SharedCaller> {
        match self.local {
            Some(uid) => Ok(auth.local(uid).await?),
            None => Ok(auth.identify(self.authorization.iter().map(HeaderValue::as_bytes), self.peer).await?),
        }
    }
}
