//! The documents of this host: one for each set of plugins that callers may read, until the plugins change.

use std::{
    collections::HashMap,
    io::Write as _,
    sync::{Arc, OnceLock},
};

use bytes::Bytes;
use flate2::{Compression, write::GzEncoder};
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};

use super::Document;
use crate::http::error::{ApiError, ApiResult};
use cardinal_base::hex::hex;

/// Documents that are kept: callers differ by the plugins that they may read.
const MAX_DOCUMENTS: usize = 32;

/// What the core's document is made of is known once; the rest changes with the plugins.
#[derive(Default)]
pub struct Documents {
    core: OnceLock<Document>,
    bodies: Mutex<DocumentCache>,
}

#[derive(Default)]
struct DocumentCache {
    /// Of the plugins that they describe.
    change: u64,
    by_plugins: HashMap<Vec<String>, Arc<DocumentBody>>,
}

/// A document, ready to be sent.
pub struct DocumentBody {
    pub plain: Bytes,
    pub gzip: Bytes,
    pub hash: String,
}

impl Documents {
    /// The document of the core's routes.
    pub fn core(&self, make: impl FnOnce() -> Document) -> Document {
        self.core.get_or_init(make).clone()
    }

    /// The document with the routes of these plugins as they are at `change`; made when it is not kept.
    pub fn get(
        &self,
        change: u64,
        plugins: Vec<String>,
        make: impl FnOnce() -> Document,
    ) -> ApiResult<Arc<DocumentBody>> {
        let kept = || self.bodies.lock();
        {
            let kept = kept();
            if kept.change == change
                && let Some(body) = kept.by_plugins.get(&plugins)
            {
                return Ok(Arc::clone(body));
            }
        }
        let body = Arc::new(DocumentBody::new(make())?);
        let mut kept = kept();
        if kept.change != change || kept.by_plugins.len() >= MAX_DOCUMENTS {
            kept.change = change;
            kept.by_plugins.clear();
        }
        kept.by_plugins.insert(plugins, Arc::clone(&body));
        Ok(body)
    }
}

impl DocumentBody {
    fn new(document: Document) -> ApiResult<Self> {
        let plain = serde_json::to_vec(&document.into_value()).map_err(ApiError::internal)?;
        let mut zip = GzEncoder::new(Vec::new(), Compression::default());
        zip.write_all(&plain).map_err(ApiError::internal)?;
        let gzip = zip.finish().map_err(ApiError::internal)?;
        let hash = hex(&Sha256::digest(&plain)[..16]);
        Ok(Self { plain: plain.into(), gzip: gzip.into(), hash })
    }
}
