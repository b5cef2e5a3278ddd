//! Prices as decimal strings, from the many ways in which people write them.

use std::iter;

/// A longer text is not a price, though one may stand in it.
const MAX_LENGTH: usize = 256;

/// Zeros that an exponent may append; no price needs more.
const MAX_EXPONENT: usize = 18;

/// `"€ 1.299,00"` → `"1299.00"`. Digits are never rounded nor dropped.
///
/// What stands last decides when both `.` and `,` are used. A lone comma before exactly three
/// digits groups thousands (`1,299`); a lone point is always the decimal point, as schema.org
/// demands (`1.299` is a little more than one).
pub(super) fn decimal(text: &str) -> Option<String> {
    let text = text.trim();
    if text.len() > MAX_LENGTH || text.starts_with(['-', '−']) {
        return None;
    }
    let start = text.find(|c: char| c.is_ascii_digit())?;
    let (mut number, rest) = number_at(&text[start..]);
    if follows_bare_point(&text[..start]) {
        number.insert_str(0, "0.");
    }
    if let Some(point) = bare_decimal_sign(rest) {
        number.retain(|c| c.is_ascii_digit() || c == point);
    }
    let (whole, fraction) = split_at_decimal_point(&number);
    let (whole, fraction) = shifted(digits(whole), digits(fraction), exponent(rest)?);
    let whole = whole.trim_start_matches('0');
    let whole = if whole.is_empty() { "0" } else { whole };
    Some(if fraction.is_empty() { whole.to_owned() } else { format!("{whole}.{fraction}") })
}

/// A price that was written for people, in the form that machines are told: where the language of
/// the page has the decimal comma, the points of `1.299` and `12.345.678` only group.
///
/// Needed because `1.299` alone says nothing. Values that are meant for machines (JSON, `content`)
/// have the decimal point whatever the language, see [`decimal`].
pub(super) fn as_read(text: &str, language: &str) -> String {
    if !has_decimal_comma(language) || text.contains(',') {
        return text.to_owned();
    }
    let mut read = String::with_capacity(text.len());
    for (at, c) in text.char_indices() {
        let groups = || {
            let digits_behind = text[at + 1..].bytes().take(4).take_while(u8::is_ascii_digit).count();
            text[..at].ends_with(|c: char| c.is_ascii_digit()) && digits_behind == 3
        };
        if c != '.' || !groups() {
            read.push(c);
        }
    }
    read
}

/// By CLDR, for the languages of shops. Some countries differ from their language.
fn has_decimal_comma(language: &str) -> bool {
    const LANGUAGES: [&str; 36] = [
        "bg", "bs", "ca", "cs", "da", "de", "el", "es", "et", "eu", "fi", "fr", "gl", "hr", "hu", "id", "is", "it",
        "lt", "lv", "mk", "nb", "nl", "nn", "no", "pl", "pt", "ro", "ru", "sk", "sl", "sr", "sv", "tr", "uk", "vi",
    ];
    const DIFFERENT: [&str; 11] = ["ch", "li", "mx", "us", "pr", "gt", "hn", "ni", "pa", "sv", "do"];
    let mut tags = language.split(['-', '_']);
    let primary = tags.next().unwrap_or_default();
    LANGUAGES.contains(&primary) && !tags.any(|region| DIFFERENT.contains(&region))
}

/// The currency as ISO 4217 has it, from a code or an unmistakable sign. `$` and `¥` are several.
pub(super) fn currency(text: &str) -> Option<String> {
    const SIGNS: [(&str, &str); 8] = [
        ("€", "EUR"),
        ("£", "GBP"),
        ("zł", "PLN"),
        ("₴", "UAH"),
        ("₹", "INR"),
        ("₺", "TRY"),
        ("₽", "RUB"),
        ("₩", "KRW"),
    ];
    let text = text.trim();
    if text.len() == 3 && text.bytes().all(|byte| byte.is_ascii_alphabetic()) {
        return Some(text.to_ascii_uppercase());
    }
    SIGNS.into_iter().find(|(sign, _)| text.contains(sign)).map(|(_, code)| code.to_owned())
}

/// Digits with the separators between them, and what follows. A space or an apostrophe belongs to
/// the number only where it groups three digits: `10 20` is two numbers.
fn number_at(text: &str) -> (String, &str) {
    let mut number = String::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let next = &rest[c.len_utf8()..];
        let leading_digits = next.bytes().take_while(u8::is_ascii_digit).count();
        match c {
            '0'..='9' => number.push(c),
            '.' | ',' if leading_digits > 0 => number.push(c),
            '\'' | '’' | ' ' | '\u{a0}' | '\u{202f}' | '\u{2009}' if leading_digits == 3 => {}
            _ => break,
        }
        rest = next;
    }
    (number, rest)
}

fn split_at_decimal_point(number: &str) -> (&str, &str) {
    let Some(last) = number.rfind(['.', ',']) else {
        return (number, "");
    };
    let (whole, fraction) = (&number[..last], &number[last + 1..]);
    let separator = &number[last..=last];
    let groups = if whole.contains(separator) {
        true // 1.299.000
    } else if whole.contains(['.', ',']) {
        false // 1.299,000
    } else {
        separator == "," && fraction.len() == 3 && !whole.starts_with('0')
    };
    if groups { (number, "") } else { (whole, fraction) }
}

/// The comma of `1.299,-`: what else stands in the number can then only group.
fn bare_decimal_sign(rest: &str) -> Option<char> {
    let mut rest = rest.chars();
    let sign = rest.next().filter(|c| matches!(c, ',' | '.'))?;
    matches!(rest.next(), Some('-' | '–' | '—' | '−')).then_some(sign)
}

/// `.99`, but not `Rs.99`.
fn follows_bare_point(before: &str) -> bool {
    before.strip_suffix(['.', ',']).is_some_and(|before| !before.ends_with(char::is_alphabetic))
}

fn digits(text: &str) -> String {
    text.chars().filter(char::is_ascii_digit).collect()
}

/// `e3` after the number, as some programs print JSON numbers. `None` when it is absurd.
fn exponent(rest: &str) -> Option<i32> {
    let Some(exponent) = rest.strip_prefix(['e', 'E']) else {
        return Some(0);
    };
    let (negative, exponent) = match exponent.strip_prefix('-') {
        Some(exponent) => (true, exponent),
        None => (false, exponent.strip_prefix('+').unwrap_or(exponent)),
    };
    let length = exponent.bytes().take_while(u8::is_ascii_digit).count();
    if length == 0 {
        return Some(0); // "5 EUR" without its space
    }
    let places: i32 = exponent[..length].parse().ok()?;
    let absurd = usize::try_from(places).is_ok_and(|places| places > MAX_EXPONENT);
    (!absurd).then_some(if negative { -places } else { places })
}

/// Moves the decimal point without arithmetic.
fn shifted(mut whole: String, mut fraction: String, places: i32) -> (String, String) {
    let count = places.unsigned_abs() as usize;
    if places >= 0 {
        fraction.extend(iter::repeat_n('0', count.saturating_sub(fraction.len())));
        let rest = fraction.split_off(count);
        (whole + &fraction, rest)
    } else {
        whole.insert_str(0, &"0".repeat(count.saturating_sub(whole.len())));
        let moved = whole.split_off(whole.len() - count);
        (whole, moved + &fraction)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{Just, Strategy, prop_assert, prop_assert_eq, proptest};
    use proptest::prop_oneof;

    use super::{as_read, currency, decimal};

    #[test]
    fn prices_of_many_countries() {
        for (text, expected) in [
            ("1299", "1299"),
            ("19.90", "19.90"),
            ("19,9", "19.9"),
            ("1.299,00", "1299.00"),
            ("1,299.00", "1299.00"),
            ("1,299", "1299"),
            ("0,299", "0.299"),
            ("1.299", "1.299"),
            ("1.299.000", "1299000"),
            ("1.299.000,5", "1299000.5"),
            ("€ 1.299,00", "1299.00"),
            ("1 299,00 kr", "1299.00"),
            ("1\u{a0}299,00\u{a0}€", "1299.00"),
            ("CHF 1'299.–", "1299"),
            ("1299,-", "1299"),
            ("1.299,-", "1299"),
            ("1,299.–", "1299"),
            ("1.299.-", "1.299"),
            ("Rs.500", "500"),
            (".99", "0.99"),
            ("$ .5", "0.5"),
            ("10 - 20", "10"),
            ("10 20", "10"),
            ("from 12,50 EUR", "12.50"),
            ("5EUR", "5"),
            ("007", "7"),
            ("0.00", "0.00"),
            ("1.2995e3", "1299.5"),
            ("1.5E+3", "1500"),
            ("129900e-2", "1299.00"),
            ("5e-3", "0.005"),
            ("12345678901234567890.123456789", "12345678901234567890.123456789"),
        ] {
            assert_eq!(decimal(text).as_deref(), Some(expected), "{text}");
        }
    }

    #[test]
    fn what_is_no_price() {
        for text in ["", "on request", "-5", "1e400", "1e99999999999"] {
            assert_eq!(decimal(text), None, "{text}");
        }
    }

    #[test]
    fn currencies_from_codes_and_signs() {
        assert_eq!(currency(" eur ").as_deref(), Some("EUR"));
        assert_eq!(currency("€").as_deref(), Some("EUR"));
        assert_eq!(currency("1 299,00 zł").as_deref(), Some("PLN"));
        assert_eq!(currency("$"), None);
        assert_eq!(currency("¥ 500"), None);
    }

    #[test]
    fn points_group_where_the_language_of_the_page_says_so() {
        for (language, text, expected) in [
            ("de", "ab 1.299 €", "1299"),
            ("de-de", "12.345.678", "12345678"),
            ("nl", "€ 1.299,-", "1299"),
            ("de", "1.299,00 €", "1299.00"),
            ("de", "19.90", "19.90"),
            ("de", "1.2990", "1.2990"),
            ("de-ch", "1.299", "1.299"),
            ("es-mx", "1.299", "1.299"),
            ("en", "1.299", "1.299"),
            ("", "1.299", "1.299"),
        ] {
            assert_eq!(decimal(&as_read(text, language)).as_deref(), Some(expected), "{language} {text}");
        }
    }

    /// An amount as countries group it: groups of three, a sign between them, a decimal sign.
    fn grouped(whole: u64, fraction: &str, group: &str, point: &str) -> String {
        let digits = whole.to_string();
        let mut text = String::new();
        for (at, digit) in digits.chars().enumerate() {
            if at > 0 && (digits.len() - at).is_multiple_of(3) {
                text.push_str(group);
            }
            text.push(digit);
        }
        if fraction.is_empty() { text } else { format!("{text}{point}{fraction}") }
    }

    fn habits() -> impl Strategy<Value = (&'static str, &'static str)> {
        prop_oneof![
            Just((",", ".")),
            Just((".", ",")),
            Just((" ", ",")),
            Just(("\u{a0}", ",")),
            Just(("\u{202f}", ",")),
            Just(("\u{2009}", ".")),
            Just(("'", ".")),
            Just(("’", ".")),
        ]
    }

    proptest! {
        #[test]
        fn an_amount_with_cents_is_read_in_every_habit(
            whole in 0_u64..1_000_000_000_000,
            fraction in "[0-9]{2}",
            (group, point) in habits(),
            (before, after) in prop_oneof![
                Just(("", "")), Just(("€ ", "")), Just(("$", "")), Just(("CHF ", "")), Just(("from £", " each")),
                Just(("", " €")), Just(("", "\u{a0}zł")), Just(("Rs.", "")), Just(("", " kr")), Just(("", "€*")),
            ],
        ) {
            let text = format!("{before}{}{after}", grouped(whole, &fraction, group, point));
            prop_assert_eq!(decimal(&text), Some(format!("{whole}.{fraction}")), "{}", text);
        }

        #[test]
        fn a_whole_amount_is_read_in_every_habit_that_says_what_it_means(
            whole in 0_u64..1_000_000_000_000,
            (group, _) in habits(),
            end in prop_oneof![Just(",-"), Just(",–"), Just(".-"), Just(".–"), Just(",—"), Just(" €"), Just("")],
        ) {
            // One group behind a point is the ambiguous one.
            let text = grouped(whole, "", group, "") + end;
            let ambiguous = group == "." && !end.starts_with(',') && (1_000..1_000_000).contains(&whole);
            let expected = if ambiguous { format!("{}.{:03}", whole / 1000, whole % 1000) } else { whole.to_string() };
            prop_assert_eq!(decimal(&text), Some(expected), "{}", text);
        }

        #[test]
        fn what_is_read_is_a_decimal_whatever_was_written(text in "[0-9.,'’ €eE+~\u{a0}-]{0,24}", any in "\\PC{0,24}") {
            for text in [text, any] {
                let read = decimal(&as_read(&text, "de")).into_iter().chain(decimal(&text));
                for price in read {
                    let (whole, fraction) = price.split_once('.').unwrap_or((&price, "0"));
                    let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
                    prop_assert!(digits(whole) && digits(fraction), "{} -> {}", text, price);
                    prop_assert!(whole == "0" || !whole.starts_with('0'), "{} -> {}", text, price);
                }
            }
        }
    }
}
