//! One message on a control socket: its length as four bytes, little-endian, then JSON.

use serde::Serialize;
use serde::de::DeserializeOwned;

pub const HEADER: usize = 4;
/// No message of ours comes near; a larger one means that the other side is broken.
pub const MAX_BYTES: usize = 4 * 1024 * 1024;

/// A message ready to be sent, length first.
///
/// # Errors
/// It cannot be written as JSON or is too long.
pub fn encode(message: &impl Serialize) -> std::io::Result<Vec<u8>> {
    let mut frame = vec![0; HEADER];
    serde_json::to_writer(&mut frame, message)?;
    let length = frame.len() - HEADER;
    let header = u32::try_from(length).ok().filter(|_| length <= MAX_BYTES).ok_or_else(too_long)?;
    frame[..HEADER].copy_from_slice(&header.to_le_bytes());
    Ok(frame)
}

/// How many bytes follow a header.
///
/// # Errors
/// More than any message has.
pub fn body_length(header: [u8; HEADER]) -> std::io::Result<usize> {
    let length = u32::from_le_bytes(header) as usize;
    if length > MAX_BYTES { Err(too_long()) } else { Ok(length) }
}

/// # Errors
/// The body is not such a message.
pub fn decode<T: DeserializeOwned>(body: &[u8]) -> std::io::Result<T> {
    Ok(serde_json::from_slice(body)?)
}

fn too_long() -> std::io::Error {
    std::io::Error::new(std::io::ErrorKind::InvalidData, "a control message is longer than 4 MiB")
}
