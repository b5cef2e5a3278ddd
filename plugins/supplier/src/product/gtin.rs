//! Global Trade Item Numbers.

/// The digits, when there are as many as a GTIN-8, -12, -13 or -14 has. Shops fill the field with
/// "N/A" and with numbers of their own.
pub fn normal(text: &str) -> Option<String> {
    let digits: String = text.chars().filter(|c| !matches!(c, ' ' | '-')).collect();
    let is_gtin = matches!(digits.len(), 8 | 12 | 13 | 14) && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_gtin.then_some(digits)
}

#[cfg(test)]
mod tests {
    use super::normal;

    #[test]
    fn groups_are_joined_and_other_things_dropped() {
        assert_eq!(normal("4 006381 333931").as_deref(), Some("4006381333931"));
        assert_eq!(normal("978-3-16-148410-0").as_deref(), Some("9783161484100"));
        assert_eq!(normal("N/A"), None);
        assert_eq!(normal("12345"), None);
    }
}
