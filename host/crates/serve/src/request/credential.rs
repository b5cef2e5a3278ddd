//! What shows who calls, kept while a request is still being answered after some time.

use std::{net::IpAddr, time::Duration};

use http::{HeaderMap, HeaderValue, header};

use super::Call;
use crate::app::App;
use crate::http::error::ApiResult;
use cardinal_identity::auth::caller::{CallerKind, SharedCaller};

/// How often a stream looks at its reader's rights when no change of them is heard of: a credential ends by itself, too.
pub const RECHECK_RIGHTS: Duration = Duration::from_secs(2);

/// The credential of a request, and no more of it.
#[derive(Clone)]
pub struct Credential {
    headers: HeaderMap,
    /// Who calls without one, at the local socket.
    local: Option<u32>,
    peer: IpAddr,
}

impl Credential {
    pub fn from_call(call: &Call) -> Self {
        let credential = call.headers.get_all(header::AUTHORIZATION).iter();
        let local = match call.caller().map(|caller| caller.kind) {
            Ok(CallerKind::Local { uid }) => Some(uid),
            _ => None,
        };
        let headers = credential.map(|value| (header::AUTHORIZATION, value.clone())).collect();
        Self { headers, local, peer: call.peer }
    }

    /// What a request carried in its `Authorization`.
    pub fn from_header(value: HeaderValue, peer: IpAddr) -> Self {
        Self { headers: HeaderMap::from_iter([(header::AUTHORIZATION, value)]), local: None, peer }
    }

    /// Whose it is by now, and what it may do.
    pub async fn identify(&self, app: &App) -> ApiResult<SharedCaller> {
        match self.local {
            Some(uid) => Ok(app.auth.local(uid).await?),
            None => Ok(app.auth.identify(&self.headers, self.peer).await?),
        }
    }
}
