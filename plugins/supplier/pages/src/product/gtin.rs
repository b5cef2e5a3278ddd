//! Global Trade Item Numbers, <https://www.gs1.org/services/how-calculate-check-digit-manually>.

/// The digits of a GTIN-8, -12, -13 or -14 whose check digit is right; an ISBN-10 as the GTIN-13 that
/// it is part of.
///
/// A number with a wrong check digit is none. Shops fill the field with "N/A", with zeros and with
/// numbers of their own, and whoever compares products by a wrong number finds the wrong product.
pub(super) fn normal(text: &str) -> Option<String> {
    let text = without_label(text.trim());
    let digits: String =
        text.chars().filter(|c| !matches!(c, ' ' | '-' | '\u{a0}' | '\u{2010}'..='\u{2013}')).collect();
    if let Some(gtin) = from_isbn_10(&digits) {
        return Some(gtin);
    }
    let is_gtin = matches!(digits.len(), 8 | 12 | 13 | 14)
        && digits.bytes().all(|byte| byte.is_ascii_digit())
        && digits.bytes().any(|byte| byte != b'0');
    let (number, check) = digits.split_at_checked(digits.len().checked_sub(1)?)?;
    (is_gtin && check_digit(number).to_string() == check).then_some(digits)
}

/// `EAN: 4006381333931`, `urn:isbn:9783161484100`, `ISBN-13 978-3-16-148410-0`.
fn without_label(text: &str) -> &str {
    const LABELS: [&str; 5] = ["gtin", "ean", "isbn", "upc", "jan"];
    let start = text.get(..4).filter(|start| start.eq_ignore_ascii_case("urn:")).map_or(0, str::len);
    let rest = &text[start..];
    let label =
        LABELS.iter().find(|label| rest.get(..label.len()).is_some_and(|start| start.eq_ignore_ascii_case(label)));
    let Some(label) = label else {
        return text;
    };
    let rest = &rest[label.len()..];
    let kinds = ["-8", "-10", "-12", "-13", "-14", "8", "13", "14", "12"];
    let behind_kind = kinds.iter().find_map(|kind| rest.strip_prefix(kind).filter(|rest| rest.starts_with([' ', ':'])));
    behind_kind.unwrap_or(rest).trim_start_matches([' ', ':'])
}

fn from_isbn_10(text: &str) -> Option<String> {
    let number = text.get(..9).filter(|number| text.len() == 10 && number.bytes().all(|byte| byte.is_ascii_digit()))?;
    let weighed = number.bytes().zip((2..=10).rev()).map(|(byte, weight)| u32::from(byte - b'0') * weight).sum::<u32>();
    let check = match (11 - weighed % 11) % 11 {
        10 => "X".to_owned(),
        digit => digit.to_string(),
    };
    let is_isbn = text[9..].eq_ignore_ascii_case(&check) && number != "000000000";
    is_isbn.then(|| format!("978{number}{}", check_digit(&format!("978{number}"))))
}

/// What must follow these digits: the weights are 3, 1, 3, ... from the right.
fn check_digit(number: &str) -> u32 {
    let digits = number.bytes().rev().map(|byte| u32::from(byte.wrapping_sub(b'0')));
    let sum: u32 = digits.zip([3, 1].into_iter().cycle()).map(|(digit, weight)| digit.saturating_mul(weight)).sum();
    (10 - sum % 10) % 10
}

#[cfg(test)]
mod tests {
    use super::{check_digit, normal};

    #[test]
    fn groups_and_labels_are_taken_off() {
        for (text, expected) in [
            ("4 006381 333931", "4006381333931"),
            ("978-3-16-148410-0", "9783161484100"),
            ("ISBN-13: 978-3-16-148410-0", "9783161484100"),
            ("urn:isbn:9783161484100", "9783161484100"),
            ("EAN 4006381333931", "4006381333931"),
            ("ean13:4006381333931", "4006381333931"),
            ("036000291452", "036000291452"),
            ("00036000291452", "00036000291452"),
            ("73513537", "73513537"),
        ] {
            assert_eq!(normal(text).as_deref(), Some(expected), "{text}");
        }
    }

    #[test]
    fn an_old_isbn_is_the_gtin_of_its_book() {
        assert_eq!(normal("3-16-148410-X").as_deref(), Some("9783161484100"));
        assert_eq!(normal("ISBN 0306406152").as_deref(), Some("9780306406157"));
        assert_eq!(normal("0306406153"), None);
    }

    #[test]
    fn other_numbers_and_wrong_check_digits_are_none() {
        for text in [
            "",
            "N/A",
            "12345",
            "4006381333932",
            "0000000000000",
            "00000000",
            "4006381333931X",
            "ean",
            "ürn:",
            "äöüäöüäö",
        ] {
            assert_eq!(normal(text), None, "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn one_wrong_digit_is_always_noticed(number in "[1-9][0-9]{11}", at in 0_usize..13, other in 1_u8..10) {
            let gtin = format!("{number}{}", check_digit(&number));
            assert_eq!(normal(&gtin).as_deref(), Some(gtin.as_str()));
            let mut wrong = gtin.into_bytes();
            wrong[at] = (wrong[at] - b'0' + other) % 10 + b'0';
            assert_eq!(normal(std::str::from_utf8(&wrong).unwrap_or_default()), None);
        }

        #[test]
        fn no_text_makes_it_panic(text in "\\PC{0,20}", label in "(?i)(urn:)?(isbn|ean)[-0-9: ]{0,4}\\PC{0,12}") {
            normal(&text);
            normal(&label);
        }
    }
}
