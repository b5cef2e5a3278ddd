//! The body of an import as it comes in, unpacked, and never waited for without end.

use std::{io::Write as _, time::Duration};

use bytes::Bytes;
use flate2::write::MultiGzDecoder;
use http_body_util::BodyExt as _;
use tokio::time::{Instant, timeout_at};

use crate::http::error::{ApiError, ApiResult};
use crate::http::request_body::RequestBody;
use cardinal_base::codes;

/// Bytes of one import, unpacked.
const TOTAL: u64 = 64 << 30;
/// How long nothing at all may come in while we wait for it.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);
/// Packed bytes that are unpacked at a time: they can grow a thousandfold.
const PACKED: usize = 1 << 10;

/// A body that is being read.
pub(crate) struct Intake {
    body: RequestBody,
    unpacker: Option<MultiGzDecoder<Vec<u8>>>,
    /// Packed bytes that are not unpacked yet.
    packed: Bytes,
    taken: u64,
    waiting_since: Option<Instant>,
}

/// Why a body ended before its end.
#[derive(Debug)]
pub(crate) enum IntakeError {
    BrokenOff(hyper::Error),
    Silent,
    TooMuch,
    NotGzip,
}

impl Intake {
    pub(crate) fn new(body: RequestBody, is_gzip: bool) -> Self {
        let unpacker = is_gzip.then(|| MultiGzDecoder::new(Vec::new()));
        Self { body, unpacker, packed: Bytes::new(), taken: 0, waiting_since: None }
    }

    /// What comes next; none at the end. May be dropped and asked again.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, IntakeError> {
        loop {
            if let Some(piece) = self.unpacked()? {
                return self.count(piece).map(Some);
            }
            let since = *self.waiting_since.get_or_insert_with(Instant::now);
            let frame = timeout_at(since + IDLE_TIMEOUT, self.body.frame()).await.map_err(|_| IntakeError::Silent)?;
            self.waiting_since = None;
            let Some(frame) = frame else { return self.end() };
            let Ok(data) = frame.map_err(IntakeError::BrokenOff)?.into_data() else { continue };
            match self.unpacker {
                Some(_) => self.packed = data,
                None if !data.is_empty() => return self.count(data).map(Some),
                None => {}
            }
        }
    }

    fn unpacked(&mut self) -> Result<Option<Bytes>, IntakeError> {
        let Some(unpacker) = &mut self.unpacker else { return Ok(None) };
        while !self.packed.is_empty() {
            let piece = self.packed.split_to(self.packed.len().min(PACKED));
            unpacker.write_all(&piece).map_err(|_| IntakeError::NotGzip)?;
            let unpacked = std::mem::take(unpacker.get_mut());
            if !unpacked.is_empty() {
                return Ok(Some(unpacked.into()));
            }
        }
        Ok(None)
    }

    fn end(&mut self) -> Result<Option<Bytes>, IntakeError> {
        let Some(mut unpacker) = self.unpacker.take() else { return Ok(None) };
        unpacker.try_finish().map_err(|_| IntakeError::NotGzip)?;
        let rest = std::mem::take(unpacker.get_mut());
        if rest.is_empty() { Ok(None) } else { self.count(rest.into()).map(Some) }
    }

    fn count(&mut self, piece: Bytes) -> Result<Bytes, IntakeError> {
        self.taken += piece.len() as u64;
        if self.taken > TOTAL { Err(IntakeError::TooMuch) } else { Ok(piece) }
    }
}

impl IntakeError {
    /// As the answer to a request of which nothing was taken.
    pub(crate) fn refused(self) -> ApiError {
        let code = match &self {
            Self::BrokenOff(_) | Self::NotGzip => &codes::INVALID_REQUEST,
            Self::Silent => &codes::REQUEST_TIMEOUT,
            Self::TooMuch => &codes::PAYLOAD_TOO_LARGE,
        };
        let error = ApiError::new(code).detail(self.describe());
        match self {
            Self::BrokenOff(cause) => error.cause(cause),
            _ => error,
        }
    }

    /// In words, for who reads what became of the job.
    pub(crate) fn describe(&self) -> String {
        match self {
            Self::BrokenOff(_) => "The body ended before it was complete.".to_owned(),
            Self::Silent => format!("No more of the body arrived for {} seconds.", IDLE_TIMEOUT.as_secs()),
            Self::TooMuch => format!("The body has more than {TOTAL} bytes when decompressed."),
            Self::NotGzip => "The body is not valid gzip, or is truncated.".to_owned(),
        }
    }
}

/// `Content-Encoding`: none, or gzip.
pub(crate) fn is_gzip(encoding: Option<&str>) -> ApiResult<bool> {
    match encoding.map(str::trim).map(str::to_ascii_lowercase).as_deref() {
        None | Some("" | "identity") => Ok(false),
        Some("gzip" | "x-gzip") => Ok(true),
        Some(_) => {
            Err(ApiError::new(&codes::UNSUPPORTED_MEDIA_TYPE).detail("`Content-Encoding` must be gzip or absent."))
        }
    }
}
