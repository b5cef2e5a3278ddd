//! Small and capital letters as the database knows them: a search tells them not apart, orders and their indexes do.

use std::collections::{HashMap, HashSet};

use tokio::sync::OnceCell;

use crate::error::StoreError;
use cardinal_database::pool::Connection;

/// Every character that is another one in small letters, and whether that is one character whatever stands beside it.
/// No script that lies behind has capitals. Read once: a tenth of a second.
const LETTERS: &str = r#"
SELECT letter, small, is_simple,
       small || substr(lower(('a' || letter) COLLATE "default"), 2) || lower((letter || U&'\0307') COLLATE "default") AS all_forms
  FROM (SELECT chr(n) AS letter, lower(chr(n) COLLATE "default") AS small FROM generate_series(1, 131071) n
         WHERE n NOT BETWEEN 55296 AND 57343) l,
       LATERAL (SELECT length(small) = 1 AND lower(('a' || letter) COLLATE "default") = 'a' || small
                       AND lower((letter || U&'\0307') COLLATE "default") = small || U&'\0307' AS is_simple) s
 WHERE small <> letter OR NOT is_simple"#;

/// Read with the first search that needs them.
#[derive(Default)]
pub(super) struct Letters(OnceCell<LetterList>);

#[derive(Default)]
pub(super) struct LetterList {
    small: HashMap<char, char>,
    capitals: HashMap<char, Vec<char>>,
    /// Those which depend on their neighbours, or become several.
    odd: HashSet<char>,
}

/// Texts from the first on, up to the second.
pub(super) type TextRange = (String, String);

impl Letters {
    pub(super) async fn get(&self, client: &Connection) -> Result<&LetterList, StoreError> {
        self.0.get_or_try_init(async || LetterList::read(client).await).await
    }
}

impl LetterList {
    async fn read(client: &Connection) -> Result<Self, StoreError> {
        let mut list = Self::default();
        for row in client.query(LETTERS, &[]).await? {
            let (letter, small): (String, String) = (row.try_get("letter")?, row.try_get("small")?);
            if row.try_get("is_simple")? {
                list.add(&letter, &small);
            } else {
                list.odd.extend(letter.chars().chain(row.try_get::<_, &str>("all_forms")?.chars()));
            }
        }
        Ok(list)
    }

    fn add(&mut self, letter: &str, small: &str) {
        if let (Some(letter), Some(small)) = (letter.chars().next(), small.chars().next()) {
            self.small.insert(letter, small);
            self.capitals.entry(small).or_default().push(letter);
        }
    }

    /// Where all texts lie, in the order of bytes, that begin with `text` in small letters; none where letters are odd.
    pub(super) fn ranges(&self, text: &str) -> Option<Vec<TextRange>> {
        let mut beginnings = vec![String::new()];
        for letter in text.chars() {
            let forms = self.forms(letter)?;
            beginnings =
                beginnings.iter().flat_map(|text| forms.iter().map(move |form| format!("{text}{form}"))).collect();
        }
        beginnings.into_iter().map(|first| Some((first.clone(), behind(&first)?))).collect()
    }

    /// The same letter by letter, for so many letters of the text until one is odd; none for several lines.
    pub(super) fn spellings(&self, text: &str, max: usize) -> Option<Spellings> {
        if text.contains('\n') {
            return None;
        }
        let mut spellings = Spellings::default();
        for letter in text.chars().take(max) {
            let Some(forms) = self.forms(letter) else { break };
            let Some(behind) = forms.iter().map(|form| behind(&form.to_string())).collect::<Option<Vec<_>>>() else {
                break;
            };
            spellings.letters += 1;
            for (form, behind) in forms.iter().zip(behind) {
                spellings.at.push(spellings.letters);
                spellings.forms.push(form.to_string());
                spellings.behind.push(behind);
            }
        }
        (spellings.letters > 0).then_some(spellings)
    }

    /// Every letter that is this one in small letters; none where it is odd.
    fn forms(&self, letter: char) -> Option<Vec<char>> {
        let small = self.small.get(&letter).copied().unwrap_or(letter);
        let is_odd = self.odd.contains(&letter) || self.odd.contains(&small) || self.small.contains_key(&small);
        let capitals = self.capitals.get(&small).map(Vec::as_slice).unwrap_or_default();
        (letter != '\n' && !is_odd).then(|| std::iter::once(&small).chain(capitals).copied().collect())
    }
}

/// The forms of a text's first letters.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Spellings {
    /// How many letters these are.
    pub(super) letters: i32,
    /// Of each form, which of them it is one of, from 1 on.
    pub(super) at: Vec<i32>,
    pub(super) forms: Vec<String>,
    /// The first character behind each.
    pub(super) behind: Vec<String>,
}

/// The first text behind all that begin with `text`.
fn behind(text: &str) -> Option<String> {
    let last = text.chars().next_back()?;
    let next = (u32::from(last) + 1..=u32::from(char::MAX)).find_map(char::from_u32)?;
    Some(format!("{}{next}", text.strip_suffix(last)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn letters() -> LetterList {
        let mut list = LetterList { odd: ['Σ', 'σ', 'ς'].into(), ..LetterList::default() };
        for (letter, small) in [("A", "a"), ("K", "k"), ("\u{212a}", "k"), ("\u{d7ff}", "z")] {
            list.add(letter, small);
        }
        list
    }

    fn ranges(text: &str) -> Option<Vec<String>> {
        Some(letters().ranges(text)?.into_iter().map(|(first, behind)| format!("{first} {behind}")).collect())
    }

    #[test]
    fn a_text_begins_in_each_of_its_letters_forms() {
        let expected = ["a b", "A B"].map(str::to_owned).to_vec();
        assert_eq!((ranges("a"), ranges("A")), (Some(expected.clone()), Some(expected)));
        let expected = ["ak al", "aK aL", "a\u{212a} a\u{212b}", "Ak Al", "AK AL", "A\u{212a} A\u{212b}"];
        assert_eq!(ranges("Ak"), Some(expected.map(str::to_owned).to_vec()));
        assert_eq!(ranges("-1"), Some(vec!["-1 -2".to_owned()]));
    }

    #[test]
    fn behind_the_last_character_before_a_gap_lies_the_first_after_it() {
        assert_eq!(ranges("z"), Some(vec!["z {".to_owned(), "\u{d7ff} \u{e000}".to_owned()]));
        assert_eq!(ranges("\u{10ffff}"), None, "there is nothing behind");
    }

    #[test]
    fn the_spellings_of_a_word_end_before_a_letter_that_is_odd() {
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        let spellings = |letters, at: &[i32], forms: &[&str], behind: &[&str]| {
            Some(Spellings { letters, at: at.to_vec(), forms: texts(forms), behind: texts(behind) })
        };
        let expected = spellings(2, &[1, 2, 2, 2], &["-", "k", "K", "\u{212a}"], &[".", "l", "L", "\u{212b}"]);
        assert_eq!(letters().spellings("-k\u{3c3}a", 9), expected, "no further");
        assert_eq!(letters().spellings("-Kaa", 2), expected, "as many letters as are asked for");
        assert_eq!(letters().spellings("1\u{10ffff}", 9), spellings(1, &[1], &["1"], &["2"]));
        assert_eq!((letters().spellings("\u{3c3}", 9), letters().spellings("a\nb", 9)), (None, None));
    }

    #[test]
    fn letters_that_depend_on_their_neighbours_have_no_range() {
        assert_eq!((ranges("Σ"), ranges("aς"), ranges("\n")), (None, None, None));
    }
}
