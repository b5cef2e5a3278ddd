//! From bytes to text by the rules of browsers: byte order mark, then header, then what the page
//! itself declares.

use std::borrow::Cow;

use encoding_rs::{Encoding, UTF_8, UTF_16BE, UTF_16LE, WINDOWS_1252};
use html5gum::{StartTag, Token, Tokenizer};

/// Where `<meta charset>` is looked for. Pages have it further down than the first kilobyte, which is
/// all that the standard asks for.
const PRESCAN: usize = 8 << 10;

pub fn decode<'a>(body: &'a [u8], content_type: Option<&str>) -> Cow<'a, str> {
    let encoding =
        content_type.and_then(charset_parameter).or_else(|| declared_in_page(body)).unwrap_or_else(|| guess(body));
    // `decode` itself lets a byte order mark win over `encoding`.
    encoding.decode(body).0
}

fn charset_parameter(content_type: &str) -> Option<&'static Encoding> {
    content_type.split(';').skip(1).find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        let label = value.trim().trim_matches(['"', '\'']);
        if name.trim().eq_ignore_ascii_case("charset") { Encoding::for_label(label.as_bytes()) } else { None }
    })
}

fn declared_in_page(body: &[u8]) -> Option<&'static Encoding> {
    let start = String::from_utf8_lossy(&body[..body.len().min(PRESCAN)]);
    let declared = declared_by_xml(&start).or_else(|| declared_by_meta(&start))?;
    // The declaration was readable as ASCII, so the page cannot be UTF-16.
    let is_utf_16 = declared == UTF_16LE || declared == UTF_16BE;
    Some(if is_utf_16 { UTF_8 } else { declared })
}

/// `<?xml version="1.0" encoding="ISO-8859-2"?>`
fn declared_by_xml(start: &str) -> Option<&'static Encoding> {
    let declaration = start.strip_prefix("<?xml")?.split("?>").next()?;
    let value = declaration.split("encoding").nth(1)?.trim_start().strip_prefix('=')?.trim_start();
    let label = value.get(1..)?.split(['"', '\'']).next()?;
    Encoding::for_label(label.as_bytes())
}

fn declared_by_meta(start: &str) -> Option<&'static Encoding> {
    Tokenizer::new(start).find_map(|Ok(token)| match token {
        Token::StartTag(tag) if *tag.name == b"meta" => declared_by(&tag),
        _ => None,
    })
}

fn declared_by(meta: &StartTag<()>) -> Option<&'static Encoding> {
    let attribute = |name: &[u8]| meta.attributes.get(name).map(|value| &**value);
    if let Some(label) = attribute(b"charset") {
        return Encoding::for_label(label);
    }
    let is_content_type = attribute(b"http-equiv").is_some_and(|value| value.eq_ignore_ascii_case(b"content-type"));
    let content = is_content_type.then(|| attribute(b"content")).flatten()?;
    charset_parameter(&String::from_utf8_lossy(content))
}

fn guess(body: &[u8]) -> &'static Encoding {
    if std::str::from_utf8(body).is_ok() { UTF_8 } else { WINDOWS_1252 }
}

#[cfg(test)]
mod tests {
    use super::decode;

    #[test]
    fn the_header_wins_over_the_page() {
        let body = b"<meta charset=utf-8><p>\xe4";
        let text = decode(body, Some("text/html; Charset=\"ISO-8859-1\""));
        assert!(text.ends_with("<p>ä"));
    }

    #[test]
    fn a_byte_order_mark_wins_over_all() {
        let body = "\u{feff}ä".as_bytes();
        assert_eq!(decode(body, Some("text/html; charset=windows-1251")), "ä");
    }

    #[test]
    fn meta_is_read_in_both_forms() {
        let short = b"<meta charset='windows-1251'>\xf6\xe5\xed\xe0";
        assert!(decode(short, Some("text/html")).ends_with("цена"));
        let long = b"<META http-equiv=Content-Type content='text/html; charset=Shift_JIS'>\x89\xbf";
        assert!(decode(long, None).ends_with('価'));
    }

    #[test]
    fn nothing_declared_is_utf_8_where_it_can_be() {
        assert_eq!(decode("naïve".as_bytes(), None), "naïve");
        assert_eq!(decode(b"na\xefve", None), "naïve");
    }
}
