//! What all contexts of an instance share.

use std::sync::OnceLock;

use cardinal_plugin_abi::{
    CallId, CtxId, HostApiRef,
    record::{self, instance as about_instance},
};
use serde::Deserialize;
use uuid::Uuid;

use crate::{
    Error, Result,
    database::shape::Shapes,
    panics::Registration,
    runtime::{Register, Runtime, Threads},
    scope::Scope,
};

/// One instance of the plugin, shared by all its contexts.
pub(crate) struct Core {
    pub(crate) host: HostApiRef,
    pub(crate) ctx: CtxId,
    pub(crate) about: About,
    pub(crate) runtime: Runtime,
    pub(crate) shapes: Shapes,
    /// The plugin's own user, once it was asked for.
    pub(crate) service_user: OnceLock<Uuid>,
    _registration: Registration,
}

impl Core {
    pub(crate) fn new(host: HostApiRef, ctx: CtxId, about: About, threads: Threads) -> Self {
        let (registration, register) = (Registration::new(ctx, host), Register::with(host, ctx));
        let runtime = Runtime::new(register, threads);
        #[cfg(any(feature = "log", feature = "tracing"))]
        crate::log_bridge::install(&about.name);
        let (shapes, service_user) = (Shapes::default(), OnceLock::new());
        Self { host, ctx, about, runtime, shapes, service_user, _registration: registration }
    }

    /// A scope without a runtime.
    pub(crate) fn scope(&self, call: CallId) -> Scope {
        Scope { ctx: self.ctx, call, runtime: None }
    }

    /// The scope of a call: starts the runtime when it is the first.
    pub(crate) fn call_scope(&self, call: CallId) -> Result<Scope> {
        Ok(Scope { runtime: Some(self.runtime.handle(&self.about.name)?), ..self.scope(call) })
    }
}

/// The part of the manifest that the library itself reads.
#[derive(Default, Deserialize)]
pub(crate) struct About {
    pub(crate) name: String,
    pub(crate) version: String,
    /// The host's, empty when it does not say.
    #[serde(skip)]
    pub(crate) core_version: String,
}

impl About {
    pub(crate) fn read(manifest: &[u8]) -> Result<Self> {
        serde_json::from_slice(manifest)
            .map_err(|error| Error::internal(format!("the embedded manifest.json cannot be read: {error}")))
    }

    /// With what the host says of the instance.
    pub(crate) fn with(self, about: &[u8]) -> Self {
        let core_version = record::field(about, about_instance::CORE_VERSION);
        Self { core_version: String::from_utf8_lossy(core_version).into_owned(), ..self }
    }
}
