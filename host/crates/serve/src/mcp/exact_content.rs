//! Structured content whose numbers keep every digit.
//!
//! The protocol library holds a result as a `Value`, which rounds. So it gets a text in the place of such an object,
//! behind a mark that nobody can guess, and the object takes its place when the answer has been written.

use std::{str, sync::LazyLock};

use bytes::Bytes;
use http_body::Frame;
use serde_json::Value;

use cardinal_base::exact;

/// How the text begins in an answer, with its quotation mark.
static OPENING: LazyLock<String> = LazyLock::new(|| format!("\"{:032x}:", rand::random::<u128>()));

/// What stands for the object until [`restore`]; none for what is no JSON.
pub(super) fn stand_in(object: &str) -> Option<Value> {
    let object = exact::without_duplicates(object)?;
    Some(Value::String(format!("{}{object}", &OPENING[1..])))
}

/// Takes the object out of what stands for it, so that it is written once: [`put_back`] puts it into the message.
pub(super) fn take(content: &mut Value) -> Option<String> {
    let Value::String(text) = content else { return None };
    let object = text.strip_prefix(&OPENING[1..])?.to_owned();
    text.truncate(OPENING.len() - 1);
    Some(object)
}

/// The message with the object that was taken out of it.
pub(super) fn put_back(message: Vec<u8>, object: &str) -> Vec<u8> {
    let Some(start) = str::from_utf8(&message).ok().and_then(|text| text.find(OPENING.as_str())) else {
        return message;
    };
    // The mark is a string of its own now.
    let end = start + OPENING.len() + 1;
    [&message[..start], object.as_bytes(), &message[end..]].concat()
}

/// Puts the object back. A message is never split between frames.
pub(super) fn restore(frame: Frame<Bytes>) -> Frame<Bytes> {
    frame.map_data(restore_in)
}

/// The same in a message that is not in a frame.
pub(super) fn restore_in(message: Bytes) -> Bytes {
    restored(&message).map_or(message, Bytes::from)
}

fn restored(bytes: &[u8]) -> Option<String> {
    let message = str::from_utf8(bytes).ok()?;
    let start = message.find(OPENING.as_str())?;
    let end = start + length_of_string(&message[start..])?;
    let text: String = serde_json::from_str(&message[start..end]).ok()?;
    let object = text.get(OPENING.len() - 1..)?;
    Some([&message[..start], object, &message[end..]].concat())
}

/// How many bytes the string takes that `json` begins with, quotation marks included.
fn length_of_string(json: &str) -> Option<usize> {
    let mut is_escaped = false;
    let mut length = 1;
    for byte in json.bytes().skip(1) {
        length += 1;
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'"' => return Some(length),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_object_comes_back_with_every_digit() {
        let object = "{\"a\\\"\\u0001\\\\\": [18446744073709551616, 0.1000000000000000055,\n 1e400], \"b\": \"\\\\\"}";
        let written = json!({"result": {"structuredContent": stand_in(object).unwrap(), "z": "\\\""}}).to_string();
        let message = format!("data: {written}\n\n");
        let restored = restore(Frame::data(Bytes::from(message))).into_data().unwrap();
        let restored = str::from_utf8(&restored).unwrap();
        let whole = r#"{"result":{"structuredContent":{"a\"\u0001\\":[18446744073709551616,0.1000000000000000055,1e400],"b":"\\"},"z":"\\\""}}"#;
        assert_eq!(restored, format!("data: {whole}\n\n"));
    }

    #[test]
    fn an_object_that_was_taken_out_comes_back_the_same() {
        let object = r#"{"a\"":[18446744073709551616],"b":"\\"}"#;
        let mut content = stand_in(object).unwrap();
        let written = |content: &Value| json!({"result": {"structuredContent": content, "z": "\\\""}}).to_string();
        let restored = restore_in(written(&content).into());
        let taken = take(&mut content).unwrap();
        assert_eq!(put_back(written(&content).into(), &taken), restored);
        assert_eq!((take(&mut json!("text")), take(&mut json!({}))), (None, None));
        assert_eq!(put_back(b"{}".to_vec(), "{}"), b"{}");
    }

    #[test]
    fn what_has_no_stand_in_stays_as_it_is() {
        for message in ["", "{}", "\"0123456789abcdef0123456789abcdef:{}\""] {
            let frame = restore(Frame::data(Bytes::from(message)));
            assert_eq!(frame.into_data().unwrap(), message);
        }
        let cut = Bytes::from(OPENING.clone());
        assert_eq!(restore(Frame::data(cut.clone())).into_data().unwrap(), cut);
        assert_eq!(stand_in("{nothing}"), None);
    }
}
